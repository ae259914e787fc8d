// Operators that put windows back into images.

#include "heddle/ops/conv.h"
#include "heddle/ops/elementwise.h"
#include "heddle/ops/scatter.h"
#include "heddle/ops/transform.h"
#include "onnx/node_scope.h"
#include "onnx/operators/window_attributes.h"

namespace heddle::onnx {
namespace {

std::vector<Value> col2im(const NodeScope& s) {
  const std::vector<int64_t> image = s.known_integers(1, "shape of the image");
  const std::vector<int64_t> block = s.known_integers(2, "shape of the blocks");
  const WindowAttributes w = window_attributes(s, block, image);
  return {ops::fold(s.tensor(0), image, block,
                    {.stride = w.stride, .padding = w.padding, .dilation = w.dilation}, s.at())};
}

/// The extents of what a pooling by the attributes of the node had as its input.
Extents unpooled_shape(const NodeScope& s) {
  const std::vector<int64_t> image = spatial_extents(s, 0), kernel = s.integers("kernel_shape");
  const WindowAttributes w = window_attributes(s, kernel, image);
  Extents shape{s.shape(0)[0], s.shape(0)[1]};
  for (size_t d = 0; d < image.size(); ++d) {
    int64_t extent = 0;
    const bool far = __builtin_mul_overflow(image[d] - 1, w.stride[d], &extent) ||
                     __builtin_add_overflow(extent, kernel[d], &extent);
    extent -= w.padding[d] + w.padding[image.size() + d];
    if (far || extent < 1 || extent > (int64_t{1} << 31))
      s.fail("its result has the extent " + std::to_string(extent));
    shape.push_back(extent);
  }
  return shape;
}

// The elements go where a pooling found them; the others are 0. Positions are those of the whole tensor, of
// which each plane takes its own.
std::vector<Value> max_unpool(const NodeScope& s) {
  const Tensor x = s.tensor(0), indices = s.tensor(1);
  if (indices.extents() != x.extents() || !indices.dtype().is_integral())
    s.fail("its indices " + shape_text(indices.extents()) + " do not fit its input " +
           shape_text(x.extents()));
  const Extents shape = unpooled_shape(s);
  int64_t plane = 1, given = 1;
  for (size_t d = 2; d < shape.size(); ++d) {
    plane *= shape[d];
    given *= x.extent(static_cast<int>(d));
  }
  const int64_t planes = shape[0] * shape[1];
  const Tensor flat = ops::reshape(indices, {planes, given}, s.at());
  const Tensor places = compute(
      flat.shape(),
      [&](Axis p, Axis i) {
        const Expr place = cast(i64, flat(p, i)) - p * plane;
        return select(logical_and(place >= 0, place < plane), place, Expr(plane));
      },
      "unpool_places", "max_unpool", s.at());
  const Tensor none = ops::zeros(Extents{planes, plane}, x.dtype(), s.at());
  const Tensor y =
      ops::reshape(ops::scatter_elements(none, places, ops::reshape(x, {planes, given}, s.at()), 1,
                                         ops::ScatterReduction::Replace, s.at()),
                   shape, s.at());
  if (!s.has(2)) return {y};
  const Extents wanted = s.known_integers(2, "shape of the result");
  if (wanted.size() != shape.size() || wanted[0] != shape[0] || wanted[1] != shape[1])
    s.fail("the shape " + shape_text(wanted) + " does not fit " + shape_text(shape));
  std::vector<int64_t> before(shape.size(), 0), after = before;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (wanted[d] < shape[d])
      s.fail("the shape " + shape_text(wanted) + " is smaller than " + shape_text(shape));
    after[d] = wanted[d] - shape[d];
  }
  if (wanted == shape) return {y};
  return {ops::pad(y, before, after, ops::PadMode::Constant, 0, s.at())};
}

}  // namespace

std::vector<OperatorEntry> fold_operators() {
  return {{"Col2Im", col2im}, {"MaxUnpool", max_unpool}};
}

}  // namespace heddle::onnx
