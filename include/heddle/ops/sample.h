// Reads of images at positions that are data, between elements: grids, regions, windows with offsets.
//
//   Tensor grid = ops::affine_grid(theta, {224, 224});   // theta (N, 2, 3)
//   Tensor y = ops::grid_sample(x, grid);                // x (N, C, H, W) -> (N, C, 224, 224)
//   Tensor r = ops::roi_align(x, rois, batch, {.height = 7, .width = 7, .scale = 1.0 / 16});
//
// Positions may be any numbers: what is outside of the image is never read. Images are floats in the
// order of ONNX and PyTorch, (N, C, spatial...). Positions and weights are computed in f32, or in f64
// for images of f64.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/dsl/tensor.h"

namespace heddle::ops {

/// How a value between elements is computed, and what is outside of the image.
enum class GridMode : uint8_t { Nearest, Linear, Cubic };
enum class GridPadding : uint8_t {
  Zeros,
  Border,      ///< the nearest element
  Reflection,  ///< the mirror image, at the borders or, with aligned corners, the outer elements
};
/// Attributes of grid_sample().
struct GridSample {
  GridMode mode = GridMode::Linear;
  GridPadding padding = GridPadding::Zeros;
  bool align_corners =
      false;  ///< -1 and 1 are the centres of the outer elements, not their borders
};
/// Reads x (N, C, spatial...) at the positions grid (N, out..., n), where n is the number of spatial
/// dimensions, 1 to 3. A position has the last dimension first, each from -1 to 1 within the image.
/// The result is (N, C, out...). Cubic is the convolution of Keys (1981) with a = -0.75.
Tensor grid_sample(const Tensor& x, const Tensor& grid, GridSample attributes = {},
                   Where where = Where::current());
/// The positions for grid_sample of images of the extents `size` under affine maps `theta` (N, n, n + 1):
/// (N, size..., n) for n of 2 or 3.
Tensor affine_grid(const Tensor& theta, const std::vector<int64_t>& size,
                   bool align_corners = false, Where where = Where::current());

/// Attributes of roi_align().
struct RoiAlign {
  int64_t height = 1, width = 1;  ///< of the result
  double scale = 1;               ///< multiplies the regions
  /// Samples of a bin in each dimension; 0: one for each element of the image, rounded up. Regions
  /// that are larger than the image then have as many samples as the image.
  int64_t samples = 0;
  bool half_pixel = true;  ///< regions are shifted by half an element, and may be smaller than one
  /// The largest of the four neighbours of all samples, each times its weight, as ONNX has it; else
  /// the mean of the samples.
  bool largest = false;
};
/// Pools regions of x (N, C, H, W) (He et al. 2017, arXiv:1703.06870): `rois` (R, 4) are left, top,
/// right, bottom, and `batch` (R), integers, is the image of each. The result is (R, C, height, width).
Tensor roi_align(const Tensor& x, const Tensor& rois, const Tensor& batch, RoiAlign attributes = {},
                 Where where = Where::current());
/// The maximum of each of height x width bins of regions of x (N, C, H, W): `rois` (R, 5) are image, left,
/// top, right, bottom (Girshick 2015, arXiv:1504.08083). Bins without elements are 0.
Tensor roi_max_pool(const Tensor& x, const Tensor& rois, int64_t height, int64_t width,
                    double scale = 1, Where where = Where::current());

/// Attributes of deform_conv2d(), as those of conv2d.
struct DeformConv {
  std::vector<int64_t> stride = {}, padding = {}, dilation = {};
  int64_t groups = 1, offset_groups = 1;
};
/// A convolution whose window elements are moved by data (Dai et al. 2017, arXiv:1703.06211): x (N, C, H,
/// W), weight (O, C / groups, h, w), offset (N, offset_groups * h * w * 2, H', W') with rows before
/// columns. `mask` (N, offset_groups * h * w, H', W') and `bias` (O) may be left out.
Tensor deform_conv2d(const Tensor& x, const Tensor& weight, const Tensor& offset,
                     const Tensor& mask = {}, const Tensor& bias = {},
                     const DeformConv& attributes = {}, Where where = Where::current());

/// Attributes of crop_and_resize().
struct Crop {
  int64_t height = 1, width = 1;  ///< of the result
  bool nearest = false;           ///< the nearest element, of two the farther; else bilinear
  double outside = 0;             ///< the value of positions outside of the image
};
/// Regions of x (N, C, H, W), each resized to (R, C, height, width), as TensorFlow has it: `boxes` (R, 4) are top,
/// left, bottom, right, 0 the centre of the first element and 1 that of the last one. `batch` (R), integers, is
/// the image of each.
Tensor crop_and_resize(const Tensor& x, const Tensor& boxes, const Tensor& batch,
                       const Crop& attributes = {}, Where where = Where::current());

/// Attributes of correlation().
struct Correlation {
  int64_t kernel = 1;        ///< the extent of the patches, odd
  int64_t displacement = 1;  ///< the largest
  int64_t stride = 1;        ///< between results
  int64_t step = 1;          ///< between displacements
  int64_t padding = 0;
  bool multiply = true;  ///< else the absolute difference
};
/// How well patches of a (N, C, H, W) fit patches of b that are displaced (FlowNet, Dosovitskiy et al. 2015,
/// arXiv:1504.06852): (N, D * D, H', W') with a channel for each of D vertical and D horizontal displacements, the
/// mean over the elements of a patch.
Tensor correlation(const Tensor& a, const Tensor& b, const Correlation& attributes = {},
                   Where where = Where::current());

}  // namespace heddle::ops
