// Reads of images at positions that are data: grids, regions, windows with offsets.
#include "heddle/ops/sample.h"
#include "onnx/node_scope.h"
#include "onnx/operators/window_attributes.h"

namespace heddle::onnx {
namespace {

// Up to opset 19 the modes were called bilinear and bicubic.
std::vector<Value> grid_sample(const NodeScope& s) {
  ops::GridSample how{.align_corners = s.integer("align_corners", 0) != 0};
  const std::string mode = s.text("mode", "linear"), padding = s.text("padding_mode", "zeros");
  if (mode == "nearest")
    how.mode = ops::GridMode::Nearest;
  else if (mode == "cubic" || mode == "bicubic")
    how.mode = ops::GridMode::Cubic;
  else if (mode != "linear" && mode != "bilinear")
    s.fail("attribute 'mode' is '" + mode + "'");
  if (padding == "border")
    how.padding = ops::GridPadding::Border;
  else if (padding == "reflection")
    how.padding = ops::GridPadding::Reflection;
  else if (padding != "zeros")
    s.fail("attribute 'padding_mode' is '" + padding + "'");
  return {ops::grid_sample(s.tensor(0), s.tensor(1), how, s.at())};
}

std::vector<Value> affine_grid(const NodeScope& s) {
  const std::vector<int64_t> size = s.known_integers(1, "size");
  if (size.size() < 2 || s.rank(0) != 3 || size[0] != s.shape(0)[0])
    s.fail("the size " + shape_text(size) + " does not fit " + shape_text(s.shape(0)));
  return {ops::affine_grid(s.tensor(0), {size.begin() + 2, size.end()},
                           s.integer("align_corners", 0) != 0, s.at())};
}

// Up to opset 15 regions were not shifted by half an element.
std::vector<Value> roi_align(const NodeScope& s) {
  const std::string mode = s.text("mode", "avg");
  const std::string place =
      s.text("coordinate_transformation_mode", s.opset() < 16 ? "output_half_pixel" : "half_pixel");
  if (mode != "avg" && mode != "max") s.fail("attribute 'mode' is '" + mode + "'");
  if (place != "half_pixel" && place != "output_half_pixel")
    s.fail("attribute 'coordinate_transformation_mode' is '" + place + "'");
  return {ops::roi_align(s.tensor(0), s.tensor(1), s.tensor(2),
                         {.height = s.integer("output_height", 1),
                          .width = s.integer("output_width", 1),
                          .scale = s.number("spatial_scale", 1.0),
                          .samples = s.integer("sampling_ratio", 0),
                          .half_pixel = place == "half_pixel",
                          .largest = mode == "max"},
                         s.at())};
}

std::vector<Value> max_roi_pool(const NodeScope& s) {
  const std::vector<int64_t> shape = s.integers("pooled_shape");
  if (shape.size() != 2) s.fail("attribute 'pooled_shape' is " + shape_text(shape));
  return {ops::roi_max_pool(s.tensor(0), s.tensor(1), shape[0], shape[1],
                            s.number("spatial_scale", 1.0), s.at())};
}

std::vector<Value> deform_conv(const NodeScope& s) {
  if (s.rank(0) != 4 || s.rank(1) != 4)
    s.fail("its input " + shape_text(s.shape(0)) + " needs to be (N, C, H, W)");
  const Extents weight = s.shape(1);
  const WindowAttributes w =
      window_attributes(s, {weight.begin() + 2, weight.end()}, spatial_extents(s, 0));
  return {ops::deform_conv2d(s.tensor(0), s.tensor(1), s.tensor(2), s.optional_tensor(4),
                             s.optional_tensor(3),
                             {.stride = w.stride,
                              .padding = w.padding,
                              .dilation = w.dilation,
                              .groups = s.integer("group", 1),
                              .offset_groups = s.integer("offset_group", 1)},
                             s.at())};
}

}  // namespace

std::vector<OperatorEntry> sample_operators() {
  return {{"AffineGrid", affine_grid},
          {"DeformConv", deform_conv},
          {"GridSample", grid_sample},
          {"MaxRoiPool", max_roi_pool},
          {"RoiAlign", roi_align}};
}

}  // namespace heddle::onnx
