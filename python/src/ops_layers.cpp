// Products, convolutions, pooling, norms, attention, resizing and recurrent layers.
#include "bind.h"

namespace heddle::python {
namespace {

using ops::Layout;
using List = std::vector<int64_t>;
using Type = std::optional<DataType>;
using MaybeTensor = std::optional<Tensor>;

Layout layout_of(const std::string& name) {
  return named<Layout>(name, "layout",
                       {{"NCHW", Layout::ChannelsFirst}, {"NHWC", Layout::ChannelsLast}});
}

Tensor or_none(const MaybeTensor& t) { return t ? *t : Tensor(); }

void bind_products(nb::module_& m) {
  m.def(
      "matmul",
      [](const Tensor& a, const Tensor& b, bool ta, bool tb, Type accumulate, Type output) {
        return ops::matmul(a, b, ta, tb, {accumulate, output}, caller());
      },
      "a"_a, "b"_a, "transpose_a"_a = false, "transpose_b"_a = false, "accumulate"_a = nb::none(),
      "output"_a = nb::none(),
      "(..., M, K) x (..., K, N) -> (..., M, N). `accumulate` and `output` are types.");
  m.def(
      "dense",
      [](const Tensor& x, const Tensor& weight, const MaybeTensor& bias, Type accumulate,
         Type output) {
        return ops::dense(x, weight, or_none(bias), {accumulate, output}, caller());
      },
      "x"_a, "weight"_a, "bias"_a = nb::none(), "accumulate"_a = nb::none(),
      "output"_a = nb::none(), "x (..., K) x weight (N, K) -> (..., N), plus `bias` (N).");
  m.def(
      "einsum",
      [](const std::string& equation, const Tensor& a, const MaybeTensor& b, Type accumulate,
         Type output) {
        if (b) return ops::einsum(equation, a, *b, {accumulate, output}, caller());
        return ops::einsum(equation, a, {accumulate, output}, caller());
      },
      "equation"_a, "a"_a, "b"_a = nb::none(), "accumulate"_a = nb::none(), "output"_a = nb::none(),
      "Sums of products by index letters, as in numpy: \"ij,jk->ik\".");
  m.def(
      "dot", [](const Tensor& a, const Tensor& b) { return ops::dot(a, b, {}, caller()); }, "a"_a,
      "b"_a, "(N) . (N)");
  m.def(
      "matvec", [](const Tensor& a, const Tensor& x) { return ops::matvec(a, x, {}, caller()); },
      "a"_a, "x"_a, "(M, K) x (K) -> (M)");
  m.def(
      "outer", [](const Tensor& a, const Tensor& b) { return ops::outer(a, b, caller()); }, "a"_a,
      "b"_a, "(M) x (N) -> (M, N)");
}

using Convolution = Tensor (*)(const Tensor&, const Tensor&, const ops::Conv&, const Tensor&,
                               Where);
using Transposed = Tensor (*)(const Tensor&, const Tensor&, const ops::ConvTranspose&,
                              const Tensor&, Where);

void bind_convolutions(nb::module_& m) {
  const std::vector<std::pair<const char*, Convolution>> all = {
      {"conv1d", ops::conv1d},
      {"conv2d", ops::conv2d},
      {"conv3d", ops::conv3d},
      {"depthwise_conv2d", ops::depthwise_conv2d}};
  for (const auto& [name, f] : all)
    m.def(
        name,
        [f](const Tensor& x, const Tensor& weight, const MaybeTensor& bias, const List& stride,
            const List& padding, const List& dilation, int64_t groups, const std::string& layout,
            Type accumulate, Type output) {
          return f(x, weight,
                   {stride, padding, dilation, groups, layout_of(layout), {accumulate, output}},
                   or_none(bias), caller());
        },
        "x"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = List(), "padding"_a = List(),
        "dilation"_a = List(), "groups"_a = 1, "layout"_a = "NCHW", "accumulate"_a = nb::none(),
        "output"_a = nb::none(),
        "x (N, C, ...), weight (K, C / groups, ...), bias (K). Lists have one value, or one for "
        "each spatial dimension; padding "
        "may have all begins, then all ends. For \"NHWC\" channels are last, and weight is (..., C "
        "/ groups, K).");
  const std::vector<std::pair<const char*, Transposed>> transposed = {
      {"conv_transpose1d", ops::conv_transpose1d},
      {"conv_transpose2d", ops::conv_transpose2d},
      {"conv_transpose3d", ops::conv_transpose3d}};
  for (const auto& [name, f] : transposed)
    m.def(
        name,
        [f](const Tensor& x, const Tensor& weight, const MaybeTensor& bias, const List& stride,
            const List& padding, const List& dilation, const List& output_padding, int64_t groups,
            const std::string& layout) {
          return f(x, weight,
                   {stride, padding, dilation, output_padding, groups, layout_of(layout), {}},
                   or_none(bias), caller());
        },
        "x"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = List(), "padding"_a = List(),
        "dilation"_a = List(), "output_padding"_a = List(), "groups"_a = 1, "layout"_a = "NCHW",
        "The transpose of a convolution; weight is (C, K / groups, ...).");
}

void bind_pooling(nb::module_& m) {
  m.def(
      "max_pool",
      [](const Tensor& x, const List& kernel, const List& stride, const List& padding,
         const List& dilation, bool ceil_mode, const std::string& layout) {
        return ops::max_pool(
            x, {kernel, stride, padding, dilation, ceil_mode, false, layout_of(layout)}, caller());
      },
      "x"_a, "kernel"_a, "stride"_a = List(), "padding"_a = List(), "dilation"_a = List(),
      "ceil_mode"_a = false, "layout"_a = "NCHW",
      "The maximum of each window. The stride is the kernel where it is left out.");
  m.def(
      "avg_pool",
      [](const Tensor& x, const List& kernel, const List& stride, const List& padding,
         bool ceil_mode, bool count_include_pad, const std::string& layout) {
        return ops::avg_pool(
            x, {kernel, stride, padding, {}, ceil_mode, count_include_pad, layout_of(layout)},
            caller());
      },
      "x"_a, "kernel"_a, "stride"_a = List(), "padding"_a = List(), "ceil_mode"_a = false,
      "count_include_pad"_a = false, "layout"_a = "NCHW", "The mean of each window.");
  m.def(
      "global_max_pool",
      [](const Tensor& x, const std::string& l) {
        return ops::global_max_pool(x, layout_of(l), caller());
      },
      "x"_a, "layout"_a = "NCHW", "The maximum of each channel: (N, C, 1, ...).");
  m.def(
      "global_avg_pool",
      [](const Tensor& x, const std::string& l) {
        return ops::global_avg_pool(x, layout_of(l), caller());
      },
      "x"_a, "layout"_a = "NCHW", "The mean of each channel: (N, C, 1, ...).");
  m.def(
      "adaptive_max_pool",
      [](const Tensor& x, const List& size, const std::string& l) {
        return ops::adaptive_max_pool(x, size, layout_of(l), caller());
      },
      "x"_a, "size"_a, "layout"_a = "NCHW", "Pools to the spatial extents `size`.");
  m.def(
      "adaptive_avg_pool",
      [](const Tensor& x, const List& size, const std::string& l) {
        return ops::adaptive_avg_pool(x, size, layout_of(l), caller());
      },
      "x"_a, "size"_a, "layout"_a = "NCHW", "Pools to the spatial extents `size`.");
}

void bind_resize(nb::module_& m) {
  m.def(
      "resize",
      [](const Tensor& x, const List& size, const std::string& mode, const std::string& coordinates,
         const std::string& rounding, const std::string& layout) {
        ops::Resize r;
        r.mode = named<ops::ResizeMode>(mode, "mode",
                                        {{"nearest", ops::ResizeMode::Nearest},
                                         {"linear", ops::ResizeMode::Linear},
                                         {"cubic", ops::ResizeMode::Cubic}});
        r.coordinates = named<ops::ResizeCoordinates>(
            coordinates, "way to place coordinates",
            {{"half_pixel", ops::ResizeCoordinates::HalfPixel},
             {"asymmetric", ops::ResizeCoordinates::Asymmetric},
             {"align_corners", ops::ResizeCoordinates::AlignCorners}});
        r.rounding =
            named<ops::NearestRounding>(rounding, "rounding",
                                        {{"prefer_floor", ops::NearestRounding::PreferFloor},
                                         {"prefer_ceil", ops::NearestRounding::PreferCeil},
                                         {"floor", ops::NearestRounding::Floor},
                                         {"ceil", ops::NearestRounding::Ceil}});
        r.layout = layout_of(layout);
        return ops::resize(x, size, r, caller());
      },
      "x"_a, "size"_a, "mode"_a = "linear", "coordinates"_a = "half_pixel",
      "rounding"_a = "prefer_floor", "layout"_a = "NCHW",
      "Resizes to the spatial extents `size`. PyTorch's \"nearest\" is asymmetric with floor.");
}

void bind_norms(nb::module_& m) {
  m.def(
      "softmax", [](const Tensor& x, int axis) { return ops::softmax(x, axis, caller()); }, "x"_a,
      "axis"_a = -1, "exp(x - max) / sum(exp(x - max)) along `axis`.");
  m.def(
      "log_softmax", [](const Tensor& x, int axis) { return ops::log_softmax(x, axis, caller()); },
      "x"_a, "axis"_a = -1, "The logarithm of softmax.");
  m.def(
      "softmax_cross_entropy",
      [](const Tensor& logits, const Tensor& labels, double smoothing) {
        return ops::softmax_cross_entropy(logits, labels, smoothing, caller());
      },
      "logits"_a, "labels"_a, "smoothing"_a = 0.0,
      "The mean over rows of log(sum(exp(x))) - x[label], without overflow.");
  m.def(
      "batch_norm",
      [](const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& mean,
         const Tensor& variance, double epsilon, int axis) {
        return ops::batch_norm(x, scale, shift, mean, variance, epsilon, axis, caller());
      },
      "x"_a, "scale"_a, "shift"_a, "mean"_a, "variance"_a, "epsilon"_a = 1e-5, "axis"_a = 1,
      "Inference: (x - mean) / sqrt(variance + epsilon) * scale + shift.");
  m.def(
      "layer_norm",
      [](const Tensor& x, const MaybeTensor& scale, const MaybeTensor& shift, int axis,
         double epsilon) {
        return ops::layer_norm(x, or_none(scale), or_none(shift), axis, epsilon, caller());
      },
      "x"_a, "scale"_a = nb::none(), "shift"_a = nb::none(), "axis"_a = -1, "epsilon"_a = 1e-5,
      "Normalises over the dimensions from `axis` on.");
  m.def(
      "rms_norm",
      [](const Tensor& x, const MaybeTensor& scale, int axis, double epsilon) {
        return ops::rms_norm(x, or_none(scale), axis, epsilon, caller());
      },
      "x"_a, "scale"_a = nb::none(), "axis"_a = -1, "epsilon"_a = 1e-6,
      "x / sqrt(mean(x * x) + epsilon) * scale");
  m.def(
      "group_norm",
      [](const Tensor& x, int64_t groups, const MaybeTensor& scale, const MaybeTensor& shift,
         double epsilon) {
        return ops::group_norm(x, groups, or_none(scale), or_none(shift), epsilon, caller());
      },
      "x"_a, "groups"_a, "scale"_a = nb::none(), "shift"_a = nb::none(), "epsilon"_a = 1e-5,
      "Normalises over blocks of channels with their positions.");
}

void bind_other_norms(nb::module_& m) {
  m.def(
      "instance_norm",
      [](const Tensor& x, const MaybeTensor& scale, const MaybeTensor& shift, double epsilon) {
        return ops::instance_norm(x, or_none(scale), or_none(shift), epsilon, caller());
      },
      "x"_a, "scale"_a = nb::none(), "shift"_a = nb::none(), "epsilon"_a = 1e-5,
      "Normalises each channel over its positions.");
  m.def(
      "lrn",
      [](const Tensor& x, int64_t size, double alpha, double beta, double bias) {
        return ops::lrn(x, size, alpha, beta, bias, caller());
      },
      "x"_a, "size"_a, "alpha"_a = 1e-4, "beta"_a = 0.75, "bias"_a = 1.0,
      "Normalises over neighbouring channels.");
  m.def(
      "scaled_dot_product_attention",
      [](const Tensor& q, const Tensor& k, const Tensor& v, const MaybeTensor& mask, double scale) {
        return ops::scaled_dot_product_attention(q, k, v, or_none(mask), scale, caller());
      },
      "q"_a, "k"_a, "v"_a, "mask"_a = nb::none(), "scale"_a = 0.0,
      "softmax(q k^T * scale + mask) v. A bool mask is true for the positions to attend to; a "
      "scale of 0 is 1 / sqrt(E).");
}

void bind_recurrent(nb::module_& m) {
  using Layer = ops::RecurrentResult (*)(const Tensor&, const ops::RecurrentWeights&,
                                         const ops::RecurrentAttributes&, Where);
  const std::vector<std::pair<const char*, Layer>> all = {
      {"lstm", ops::lstm}, {"gru", ops::gru}, {"rnn", ops::rnn}};
  for (const auto& [name, f] : all)
    m.def(
        name,
        [f](const Tensor& x, const Tensor& input, const Tensor& recurrence, const MaybeTensor& bias,
            const MaybeTensor& state, const MaybeTensor& cell, bool reverse,
            bool linear_before_reset) {
          ops::RecurrentAttributes attributes;
          attributes.reverse = reverse;
          attributes.linear_before_reset = linear_before_reset;
          const ops::RecurrentResult r =
              f(x, {input, recurrence, or_none(bias), or_none(state), or_none(cell), {}},
                attributes, caller());
          return nb::make_tuple(r.all, r.state, r.cell ? nb::cast(r.cell) : nb::none());
        },
        "x"_a, "input"_a, "recurrence"_a, "bias"_a = nb::none(), "state"_a = nb::none(),
        "cell"_a = nb::none(), "reverse"_a = false, "linear_before_reset"_a = false,
        "x is (T, N, I); weights and the order of gates are ONNX's. Returns all states (T, N, H), "
        "the last one, and the last cell.");
}

}  // namespace

void bind_layers(nb::module_& ops) {
  bind_products(ops);
  bind_convolutions(ops);
  bind_pooling(ops);
  bind_resize(ops);
  bind_norms(ops);
  bind_other_norms(ops);
  bind_recurrent(ops);
}

}  // namespace heddle::python
