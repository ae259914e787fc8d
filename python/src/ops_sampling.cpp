// Operators whose places or lengths are data: samples of images, bounded results, sparse matrices, bits, random numbers, and Fourier
// transforms.
#include "bind.h"

namespace heddle::python {
namespace {

using List = std::vector<int64_t>;
using MaybeTensor = std::optional<Tensor>;

Tensor or_none(const MaybeTensor& t) { return t ? *t : Tensor(); }

void bind_samples(nb::module_& m) {
  m.def(
      "grid_sample",
      [](const Tensor& x, const Tensor& grid, const std::string& mode, const std::string& padding,
         bool align_corners) {
        const auto how = named<ops::GridMode>(mode, "mode",
                                              {{"nearest", ops::GridMode::Nearest},
                                               {"bilinear", ops::GridMode::Linear},
                                               {"bicubic", ops::GridMode::Cubic}});
        const auto outside =
            named<ops::GridPadding>(padding, "padding",
                                    {{"zeros", ops::GridPadding::Zeros},
                                     {"border", ops::GridPadding::Border},
                                     {"reflection", ops::GridPadding::Reflection}});
        return ops::grid_sample(x, grid, {how, outside, align_corners}, caller());
      },
      "x"_a, "grid"_a, "mode"_a = "bilinear", "padding"_a = "zeros", "align_corners"_a = false,
      "x (N, C, ...) at the positions grid (N, ..., n), as in PyTorch.");
  m.def(
      "affine_grid",
      [](const Tensor& theta, const List& size, bool align_corners) {
        return ops::affine_grid(theta, size, align_corners, caller());
      },
      "theta"_a, "size"_a, "align_corners"_a = false,
      "Positions for grid_sample under affine maps (N, n, n + 1); `size` is spatial.");
  m.def(
      "deform_conv2d",
      [](const Tensor& x, const Tensor& weight, const Tensor& offset, const MaybeTensor& mask,
         const MaybeTensor& bias, const List& stride, const List& padding, const List& dilation,
         int64_t groups, int64_t offset_groups) {
        return ops::deform_conv2d(x, weight, offset, or_none(mask), or_none(bias),
                                  {stride, padding, dilation, groups, offset_groups}, caller());
      },
      "x"_a, "weight"_a, "offset"_a, "mask"_a = nb::none(), "bias"_a = nb::none(),
      "stride"_a = List(), "padding"_a = List(), "dilation"_a = List(), "groups"_a = 1,
      "offset_groups"_a = 1, "A convolution whose window elements are moved by data.");
  m.def(
      "dilation2d",
      [](const Tensor& x, const Tensor& weight, const List& stride, const List& padding,
         const List& dilation, const std::string& layout) {
        const auto l = named<ops::Layout>(
            layout, "layout",
            {{"NCHW", ops::Layout::ChannelsFirst}, {"NHWC", ops::Layout::ChannelsLast}});
        return ops::dilation2d(x, weight, {{}, stride, padding, dilation, false, false, l},
                               caller());
      },
      "x"_a, "weight"_a, "stride"_a = List(1, 1), "padding"_a = List(), "dilation"_a = List(),
      "layout"_a = "NCHW", "The maximum of x plus weight over each window.");
  m.def(
      "correlation",
      [](const Tensor& a, const Tensor& b, int64_t kernel, int64_t displacement, int64_t stride,
         int64_t step, int64_t padding, bool multiply) {
        return ops::correlation(a, b, {kernel, displacement, stride, step, padding, multiply},
                                caller());
      },
      "a"_a, "b"_a, "kernel"_a = 1, "displacement"_a = 1, "stride"_a = 1, "step"_a = 1,
      "padding"_a = 0, "multiply"_a = true, "How well patches of a fit displaced patches of b.");
}

void bind_windows(nb::module_& m) {
  m.def(
      "unfold",
      [](const Tensor& x, const List& kernel, const List& stride, const List& padding,
         const List& dilation) {
        return ops::unfold(x, kernel, {.stride = stride, .padding = padding, .dilation = dilation},
                           caller());
      },
      "x"_a, "kernel"_a, "stride"_a = List(), "padding"_a = List(), "dilation"_a = List(),
      "Images (N, C, size...) cut into columns (N, C * window, windows).");
  m.def(
      "fold",
      [](const Tensor& x, const List& size, const List& kernel, const List& stride,
         const List& padding, const List& dilation) {
        return ops::fold(x, size, kernel,
                         {.stride = stride, .padding = padding, .dilation = dilation}, caller());
      },
      "x"_a, "size"_a, "kernel"_a, "stride"_a = List(), "padding"_a = List(), "dilation"_a = List(),
      "Sums columns (N, C * window, windows) into images (N, C, size...).");
}

void bind_regions(nb::module_& m) {
  m.def(
      "roi_align",
      [](const Tensor& x, const Tensor& rois, const Tensor& batch, int64_t height, int64_t width,
         double scale, int64_t samples, bool half_pixel) {
        return ops::roi_align(x, rois, batch, {height, width, scale, samples, half_pixel, false},
                              caller());
      },
      "x"_a, "rois"_a, "batch"_a, "height"_a, "width"_a, "scale"_a = 1.0, "samples"_a = 0,
      "half_pixel"_a = true,
      "Means of regions (R, 4) of x, whose images are batch (R): (R, C, height, width).");
  m.def(
      "roi_max_pool",
      [](const Tensor& x, const Tensor& rois, int64_t height, int64_t width, double scale) {
        return ops::roi_max_pool(x, rois, height, width, scale, caller());
      },
      "x"_a, "rois"_a, "height"_a, "width"_a, "scale"_a = 1.0,
      "Maxima of regions (R, 5) of x: image, left, top, right, bottom.");
  m.def(
      "crop_and_resize",
      [](const Tensor& x, const Tensor& boxes, const Tensor& batch, int64_t height, int64_t width,
         bool nearest, double outside) {
        return ops::crop_and_resize(x, boxes, batch, {height, width, nearest, outside}, caller());
      },
      "x"_a, "boxes"_a, "batch"_a, "height"_a, "width"_a, "nearest"_a = false, "outside"_a = 0.0,
      "Regions top, left, bottom, right from 0 to 1, resized as TensorFlow does.");
  m.def(
      "non_max_suppression",
      [](const Tensor& boxes, const Tensor& scores, int64_t most, double overlap, bool centred,
         const MaybeTensor& least) {
        const ops::Bounded b = ops::non_max_suppression(boxes, scores, {most, overlap, centred},
                                                        or_none(least), caller());
        return std::pair(b.values, b.count);
      },
      "boxes"_a, "scores"_a, "most"_a, "overlap"_a, "centred"_a = false, "least"_a = nb::none(),
      "Rows (image, class, box) of the best boxes that overlap little, and how many there are.");
}

void bind_bounded(nb::module_& m) {
  m.def(
      "nonzero",
      [](const Tensor& x) {
        const ops::Bounded b = ops::nonzero(x, caller());
        return std::pair(b.values, b.count);
      },
      "x"_a, "Positions (rank, elements) of what is not 0, then -1, and how many there are.");
  m.def(
      "compress",
      [](const Tensor& x, const Tensor& condition, int axis) {
        const ops::Bounded b = ops::compress(x, condition, axis, caller());
        return std::pair(b.values, b.count);
      },
      "x"_a, "condition"_a, "axis"_a = 0,
      "The slices where the condition holds, then 0, and how many there are.");
  m.def(
      "unique",
      [](const Tensor& x, bool sorted) {
        const ops::Unique u = ops::unique(x, sorted, caller());
        return nb::make_tuple(u.values, u.first, u.inverse, u.counts, u.count);
      },
      "x"_a, "sorted"_a = true,
      "Values, first places, inverse and counts of different elements, and how many there are.");
  m.def(
      "searchsorted",
      [](const Tensor& sorted, const Tensor& values, bool right) {
        return ops::searchsorted(sorted, values, right, caller());
      },
      "sorted"_a, "values"_a, "right"_a = false,
      "The number of sorted elements before each value.");
}

/// A sparse matrix of four arguments.
using Sparse = ops::SparseRows;

void bind_sparse(nb::module_& m) {
  m.def(
      "sparse_matmul",
      [](const Tensor& data, const Tensor& columns, const Tensor& begins, int64_t longest,
         const Tensor& x) {
        return ops::sparse_matmul(Sparse{data, columns, begins, longest}, x, caller());
      },
      "data"_a, "columns"_a, "begins"_a, "longest"_a, "x"_a,
      "A sparse matrix (CSR, or rows of blocks) times x. `longest` is the most elements of a row.");
  m.def(
      "sparse_dense",
      [](const Tensor& x, const Tensor& data, const Tensor& columns, const Tensor& begins,
         int64_t longest) {
        return ops::sparse_dense(x, Sparse{data, columns, begins, longest}, caller());
      },
      "x"_a, "data"_a, "columns"_a, "begins"_a, "longest"_a,
      "x times the transposed sparse matrix.");
  m.def(
      "sparse_transpose",
      [](const Tensor& data, const Tensor& columns, const Tensor& begins, int64_t longest,
         int64_t count, int64_t most) {
        const Sparse t =
            ops::sparse_transpose(Sparse{data, columns, begins, longest}, count, most, caller());
        return nb::make_tuple(t.data, t.columns, t.begins);
      },
      "data"_a, "columns"_a, "begins"_a, "longest"_a, "count"_a, "most"_a,
      "The transposed matrix of `count` columns, of which none has more than `most` elements.");
}

void bind_bits(nb::module_& m) {
  m.def(
      "popcount", [](const Tensor& x) { return ops::popcount(x, caller()); }, "x"_a,
      "The number of bits that are 1.");
  m.def(
      "pack_bits",
      [](const Tensor& x, int axis, DataType word) {
        return ops::pack_bits(x, axis, word, caller());
      },
      "x"_a, "axis"_a = -1, "word"_a = u32,
      "Whether elements are not 0, as bits of words, the first one lowest.");
  m.def(
      "binary_matmul",
      [](const Tensor& x, const Tensor& weight, int64_t depth) {
        return ops::binary_matmul(x, weight, depth, caller());
      },
      "x"_a, "weight"_a, "depth"_a, "The product of packed signs (M, words) and (N, words).");
  m.def(
      "bitserial_matmul",
      [](const Tensor& x, const Tensor& weight, int bits_x, int bits_w, bool signed_weights) {
        return ops::bitserial_matmul(x, weight, {bits_x, bits_w, signed_weights}, caller());
      },
      "x"_a, "weight"_a, "bits_x"_a = 1, "bits_w"_a = 1, "signed_weights"_a = false,
      "x (M, K) times weight (N, K), unsigned integers of few bits, by counts of bits.");
  m.def(
      "bitserial_conv2d",
      [](const Tensor& x, const Tensor& weight, int bits_x, int bits_w, bool signed_weights,
         const List& stride, const List& padding, const std::string& layout) {
        ops::Conv conv;
        conv.stride = stride;
        conv.padding = padding;
        conv.layout = named<ops::Layout>(
            layout, "layout",
            {{"NCHW", ops::Layout::ChannelsFirst}, {"NHWC", ops::Layout::ChannelsLast}});
        return ops::bitserial_conv2d(x, weight, {bits_x, bits_w, signed_weights}, conv, caller());
      },
      "x"_a, "weight"_a, "bits_x"_a = 1, "bits_w"_a = 1, "signed_weights"_a = false,
      "stride"_a = List(), "padding"_a = List(), "layout"_a = "NCHW",
      "A convolution of unsigned integers of few bits, by counts of bits.");
}

void bind_numbers(nb::module_& m) {
  m.def(
      "random_uniform",
      [](const List& shape, uint64_t seed, double low, double high, DataType dtype) {
        return ops::random_uniform(shape, seed, low, high, dtype, caller());
      },
      "shape"_a, "seed"_a, "low"_a = 0.0, "high"_a = 1.0, "dtype"_a = f32,
      "Numbers in [low, high), the same for a seed on every target.");
  m.def(
      "random_normal",
      [](const List& shape, uint64_t seed, double mean, double deviation, DataType dtype) {
        return ops::random_normal(shape, seed, mean, deviation, dtype, caller());
      },
      "shape"_a, "seed"_a, "mean"_a = 0.0, "deviation"_a = 1.0, "dtype"_a = f32,
      "Numbers of a normal distribution.");
  m.def(
      "dft", [](const Tensor& x, int axis) { return ops::dft(x, axis, {}, caller()); }, "x"_a,
      "axis"_a,
      "The discrete Fourier transform; the last dimension is real, or real and imaginary parts.");
  m.def(
      "stft",
      [](const Tensor& x, int64_t step, const MaybeTensor& window, int64_t length) {
        return ops::stft(x, step, or_none(window), length, true, caller());
      },
      "x"_a, "step"_a, "window"_a = nb::none(), "length"_a = 0,
      "Fourier transforms of windows that lie `step` apart.");
}

}  // namespace

void bind_sampling(nb::module_& ops) {
  bind_samples(ops);
  bind_windows(ops);
  bind_regions(ops);
  bind_bounded(ops);
  bind_sparse(ops);
  bind_bits(ops);
  bind_numbers(ops);
}

}  // namespace heddle::python
