#include "onnx/operators/window_attributes.h"

#include <algorithm>

namespace heddle::onnx {
namespace {

constexpr int64_t kMost = int64_t{1} << 31;  // the largest stride, dilation or padding

std::vector<int64_t> list_of(const NodeScope& s, const char* name, size_t count, int64_t usual,
                             int64_t least) {
  std::vector<int64_t> values = s.integers(name);
  if (values.empty()) values.assign(count, usual);
  if (values.size() != count)
    s.fail("attribute '" + std::string(name) + "' has " + std::to_string(values.size()) +
           " values, and needs " + std::to_string(count));
  for (const int64_t value : values) {
    if (value < least || value > kMost)
      s.fail("attribute '" + std::string(name) + "' has the value " + std::to_string(value));
  }
  return values;
}

}  // namespace

std::vector<int64_t> spatial_extents(const NodeScope& s, int input) {
  const Extents shape = s.shape(input);
  if (shape.size() < 3 || shape.size() > 5)
    s.fail("its input " + shape_text(shape) + " must have 1 to 3 spatial dimensions");
  return {shape.begin() + 2, shape.end()};
}

WindowAttributes window_attributes(const NodeScope& s, const std::vector<int64_t>& kernel,
                                   const std::vector<int64_t>& image) {
  const size_t n = kernel.size();
  if (image.size() != n)
    s.fail("its window has " + std::to_string(n) + " dimensions, and its input " +
           std::to_string(image.size()));
  WindowAttributes w{kernel, list_of(s, "strides", n, 1, 1), list_of(s, "dilations", n, 1, 1),
                     list_of(s, "pads", 2 * n, 0, 0)};
  for (const int64_t extent : kernel) {
    if (extent < 1 || extent > kMost) s.fail("its window has the extent " + std::to_string(extent));
  }
  const std::string how = s.text("auto_pad", "NOTSET");
  if (how == "NOTSET" || how.empty()) return w;
  if (how != "VALID" && how != "SAME_UPPER" && how != "SAME_LOWER")
    s.fail("attribute 'auto_pad' is '" + how + "'");
  std::fill(w.padding.begin(), w.padding.end(), 0);
  if (how == "VALID") return w;
  for (size_t d = 0; d < n; ++d) {
    const int64_t windows = (image[d] + w.stride[d] - 1) / w.stride[d];
    const int64_t reach = (windows - 1) * w.stride[d] + w.dilation[d] * (kernel[d] - 1) + 1;
    const int64_t total = std::max<int64_t>(0, reach - image[d]);
    const int64_t small = total / 2;
    w.padding[d] = how == "SAME_UPPER" ? small : total - small;
    w.padding[n + d] = total - w.padding[d];
  }
  return w;
}

}  // namespace heddle::onnx
