// Normalisations and softmax.
#include <cmath>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/nn.h"
#include "heddle/ops/reduce.h"
#include "heddle/ops/transform.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {
namespace {

// Up to opset 12 the input was taken as a matrix, cut at the axis (1), whose rows were normalised.
template <Tensor (*F)(const Tensor&, int, Where)>
std::vector<Value> along_axis(const NodeScope& s) {
  const bool as_matrix = s.opset() < 13;
  const int axis = s.axis(s.integer("axis", as_matrix ? 1 : -1), s.rank(0));
  const Tensor x = s.tensor(0);
  if (!as_matrix || axis == x.rank() - 1) return {F(x, axis, s.at())};
  const Tensor matrix = ops::flatten(x, axis, s.at());
  return {ops::reshape(F(matrix, 1, s.at()), x.extents(), s.at())};
}

// One at the first largest element, zero elsewhere.
Tensor hardmax_of(const Tensor& x, int axis, Where where) {
  const Tensor best = ops::argmax(x, axis, false, where);
  return ops::one_hot(best, x.extent(axis), axis, 1, 0, x.dtype(), where);
}

std::vector<Value> batch_normalization(const NodeScope& s) {
  if (s.integer("spatial", 1) == 0) s.fail("attribute 'spatial' = 0 is not supported");
  const Tensor x = s.tensor(0);
  if (x.rank() < 2) s.fail("its input " + shape_text(x.extents()) + " has no channels");
  const double epsilon = s.number("epsilon", 1e-5f);
  if (s.integer("training_mode", 0) == 0)
    return {
        ops::batch_norm(x, s.tensor(1), s.tensor(2), s.tensor(3), s.tensor(4), epsilon, 1, s.at())};
  // Training: by the statistics of x itself. Weights that are standardised are written so.
  std::vector<int> axes(static_cast<size_t>(x.rank()) - 1);
  for (size_t i = 1; i < axes.size(); ++i) axes[i] = static_cast<int>(i) + 1;
  const Tensor mean = ops::mean(x, axes, false, s.at());
  const Tensor variance = ops::var(x, axes, false, false, s.at());
  const double momentum = s.number("momentum", 0.9F);
  const auto running = [&](const Tensor& before, const Tensor& now) {
    return ops::elementwise(
        "running", {before, now},
        [&](const std::vector<Expr>& v) {
          return v[0] * make_const(v[0].dtype(), momentum) +
                 cast(v[0].dtype(), v[1]) * make_const(v[0].dtype(), 1 - momentum);
        },
        s.at());
  };
  return {ops::batch_norm(x, s.tensor(1), s.tensor(2), mean, variance, epsilon, 1, s.at()),
          running(s.tensor(3), mean), running(s.tensor(4), variance)};
}

std::vector<Value> instance_normalization(const NodeScope& s) {
  return {ops::instance_norm(s.tensor(0), s.tensor(1), s.tensor(2), s.number("epsilon", 1e-5f),
                             s.at())};
}

// The mean and the inverse deviation are two optional results.
std::vector<Value> layer_normalization(const NodeScope& s) {
  const int axis = s.axis(s.integer("axis", -1), s.rank(0));
  const double epsilon = s.number("epsilon", 1e-5f);
  const Tensor x = s.tensor(0);
  std::vector<Value> results{
      ops::layer_norm(x, s.tensor(1), s.optional_tensor(2), axis, epsilon, s.at())};
  if (s.node().outputs.size() == 1) return results;
  std::vector<int> axes;
  for (int d = axis; d < x.rank(); ++d) axes.push_back(d);
  const Tensor wide = x.dtype().bits < 32 ? ops::cast(x, f32, s.at()) : x;
  results.emplace_back(ops::mean(wide, axes, true, s.at()));
  const Tensor variance = ops::var(wide, axes, true, false, s.at());
  results.emplace_back(
      ops::rsqrt(ops::add(variance, make_const(variance.dtype(), epsilon), s.at()), s.at()));
  return results;
}

std::vector<Value> rms_normalization(const NodeScope& s) {
  const int axis = s.axis(s.integer("axis", -1), s.rank(0));
  return {ops::rms_norm(s.tensor(0), s.tensor(1), axis, s.number("epsilon", 1e-5f), s.at())};
}

// There was one scale for each group up to opset 20, and one for each channel since.
std::vector<Value> group_normalization(const NodeScope& s) {
  const int64_t groups = s.integer("num_groups");
  const Tensor x = s.tensor(0);
  Tensor scale = s.tensor(1), shift = s.tensor(2);
  if (s.opset() < 21 && x.rank() > 1 && scale.rank() == 1 && scale.extent(0) != x.extent(1) &&
      x.extent(1) % scale.extent(0) == 0) {
    const int64_t times = x.extent(1) / scale.extent(0);
    scale = ops::repeat(scale, times, 0, s.at());
    shift = ops::repeat(shift, times, 0, s.at());
  }
  return {ops::group_norm(x, groups, scale, shift, s.number("epsilon", 1e-5f), s.at())};
}

std::vector<Value> lrn(const NodeScope& s) {
  return {ops::lrn(s.tensor(0), s.integer("size"), s.number("alpha", 1e-4f), s.number("beta", 0.75),
                   s.number("bias", 1.0), s.at())};
}

std::vector<Value> lp_normalization(const NodeScope& s) {
  const int axis = s.axis(s.integer("axis", -1), s.rank(0));
  const int64_t p = s.integer("p", 2);
  if (p != 1 && p != 2) s.fail("attribute 'p' is " + std::to_string(p) + "; it is 1 or 2");
  const Tensor x = s.tensor(0);
  const Tensor norm =
      p == 1 ? ops::norm_l1(x, {axis}, true, s.at()) : ops::norm_l2(x, {axis}, true, s.at());
  // Rows of zeros stay zero.
  return {ops::elementwise(
      "lp_norm", {x, norm},
      [](const std::vector<Expr>& v) {
        const Expr zero = make_const(v[1].dtype(), 0);
        return select(v[1] == zero, zero, v[0] / v[1]);
      },
      s.at())};
}

std::vector<Value> mean_variance_normalization(const NodeScope& s) {
  std::vector<int> axes;
  for (const int64_t axis : s.integers("axes", {0, 2, 3})) axes.push_back(s.axis(axis, s.rank(0)));
  const Tensor x = s.tensor(0);
  const Tensor mean = ops::mean(x, axes, true, s.at());
  const Tensor variance = ops::var(x, axes, true, false, s.at());
  return {ops::elementwise(
      "mean_variance_norm", {x, mean, variance},
      [](const std::vector<Expr>& v) {
        return (v[0] - v[1]) / (sqrt(v[2]) + make_const(v[2].dtype(), 1e-9));
      },
      s.at())};
}

}  // namespace

std::vector<OperatorEntry> normalization_operators() {
  return {
      {"BatchNormalization", batch_normalization},
      {"GroupNormalization", group_normalization},
      {"Hardmax", along_axis<hardmax_of>},
      {"InstanceNormalization", instance_normalization},
      {"LRN", lrn},
      {"LayerNormalization", layer_normalization},
      {"LogSoftmax", along_axis<ops::log_softmax>},
      {"LpNormalization", lp_normalization},
      {"MeanVarianceNormalization", mean_variance_normalization},
      {"RMSNormalization", rms_normalization},
      {"SimplifiedLayerNormalization", rms_normalization},  // ONNX Runtime's name
      {"Softmax", along_axis<ops::softmax>},
  };
}

}  // namespace heddle::onnx
