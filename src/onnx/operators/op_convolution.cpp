// Convolutions and their transposes.
#include "onnx/operators/convolution.h"
#include "onnx/operators/window_attributes.h"

namespace heddle::onnx {
namespace {

std::vector<int64_t> kernel_of_weight(const NodeScope& s, int input) {
  const Extents weight = s.shape(input);
  if (weight.size() < 3) s.fail("its weight " + shape_text(weight) + " has no window");
  const std::vector<int64_t> kernel(weight.begin() + 2, weight.end());
  const std::vector<int64_t> given = s.integers("kernel_shape");
  if (!given.empty() && given != kernel)
    s.fail("attribute 'kernel_shape' is " + shape_text(given) + ", and the weight has " +
           shape_text(kernel));
  return kernel;
}

std::vector<Value> conv(const NodeScope& s) {
  return {convolution(s, s.tensor(0), s.tensor(1), conv_attributes(s, 1), s.optional_tensor(2))};
}

// Padding that gives the result the wanted extents. An odd element goes to the beginning, or with
// SAME_UPPER to the end.
void fit_output(const NodeScope& s, const WindowAttributes& w, const std::vector<int64_t>& image,
                ops::ConvTranspose& t) {
  const size_t n = image.size();
  std::vector<int64_t> wanted = s.integers("output_shape");
  const std::string how = s.text("auto_pad", "NOTSET");
  if (wanted.size() == n + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (wanted.empty() && (how == "SAME_UPPER" || how == "SAME_LOWER")) {
    for (size_t d = 0; d < n; ++d) wanted.push_back(image[d] * w.stride[d]);
  }
  if (wanted.empty()) return;
  if (wanted.size() != n) s.fail("attribute 'output_shape' does not have an extent a dimension");
  t.padding.assign(2 * n, 0);
  for (size_t d = 0; d < n; ++d) {
    const int64_t extra = t.output_padding[d];
    const int64_t full =
        (image[d] - 1) * w.stride[d] + w.dilation[d] * (w.kernel[d] - 1) + 1 + extra;
    int64_t total = full - wanted[d];
    if (total < 0) {
      t.output_padding[d] -= total;
      total = 0;
    }
    t.padding[d] = how == "SAME_UPPER" ? total / 2 : total - total / 2;
    t.padding[n + d] = total - t.padding[d];
  }
}

std::vector<Value> conv_transpose(const NodeScope& s) {
  const std::vector<int64_t> image = spatial_extents(s, 0);
  WindowAttributes w = window_attributes(s, kernel_of_weight(s, 1), image);
  ops::ConvTranspose t{.stride = w.stride,
                       .padding = w.padding,
                       .dilation = w.dilation,
                       .output_padding = s.integers("output_padding"),
                       .groups = s.integer("group", 1)};
  if (t.output_padding.empty()) t.output_padding.assign(image.size(), 0);
  if (t.output_padding.size() != image.size())
    s.fail("attribute 'output_padding' does not have a value a dimension");
  fit_output(s, w, image, t);
  const Tensor x = s.tensor(0), weight = s.tensor(1), bias = s.optional_tensor(2);
  if (image.size() == 1) return {ops::conv_transpose1d(x, weight, t, bias, s.at())};
  if (image.size() == 3) return {ops::conv_transpose3d(x, weight, t, bias, s.at())};
  return {ops::conv_transpose2d(x, weight, t, bias, s.at())};
}

}  // namespace

ops::Conv conv_attributes(const NodeScope& s, int weight) {
  const WindowAttributes w =
      window_attributes(s, kernel_of_weight(s, weight), spatial_extents(s, 0));
  return {.stride = w.stride,
          .padding = w.padding,
          .dilation = w.dilation,
          .groups = s.integer("group", 1)};
}

Tensor convolution(const NodeScope& s, const Tensor& x, const Tensor& weight,
                   const ops::Conv& attributes, const Tensor& bias) {
  if (x.rank() == 3) return ops::conv1d(x, weight, attributes, bias, s.at());
  if (x.rank() == 5) return ops::conv3d(x, weight, attributes, bias, s.at());
  if (attributes.groups > 1 && attributes.groups == x.extent(1) && weight.extent(1) == 1)
    return ops::depthwise_conv2d(x, weight, attributes, bias, s.at());
  return ops::conv2d(x, weight, attributes, bias, s.at());
}

std::vector<OperatorEntry> convolution_operators() {
  return {{"Conv", conv}, {"ConvTranspose", conv_transpose}};
}

}  // namespace heddle::onnx
