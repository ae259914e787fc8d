#include "heddle/ops/training.h"

#include "heddle/ops/nn.h"
#include "ops/common.h"

namespace heddle::ops {
namespace {

using impl::Call;

void check_same(const Call& call, const Tensor& a, const Tensor& b, const char* what) {
  impl::check_rank(call, b, what, 0);
  impl::check_same_type(call, a, b);
  if (a.extents() != b.extents())
    impl::fail(call, std::string("'") + what + "' is " + impl::describe(b) +
                         ", and the parameter is " + impl::describe(a));
}

void check_number(const Call& call, const Tensor& parameter, const Tensor& t, const char* what) {
  impl::check_rank(call, t, what, 1, 1);
  impl::check_same_type(call, parameter, t);
  if (t.extent(0) != 1)
    impl::fail(call,
               std::string("'") + what + "' is " + impl::describe(t) + ", and needs one element");
}

}  // namespace

Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, double smoothing,
                             Where where) {
  const Call call{"softmax_cross_entropy", where};
  impl::check_rank(call, logits, "logits", 2, 2);
  impl::check_rank(call, labels, "labels", 1, 1);
  impl::check_float(call, logits, "logits");
  if (!labels.dtype().is_integral() || labels.extent(0) != logits.extent(0))
    impl::fail(
        call,
        "'labels' is " + impl::describe(labels) + ", and the logits are " + impl::describe(logits),
        "give one integer a row");
  if (!(smoothing >= 0 && smoothing < 1))
    impl::fail(call, "'smoothing' is " + std::to_string(smoothing), "it is in [0, 1)");
  const DataType type = logits.dtype(), wide = impl::wide(type);
  const Tensor shares = log_softmax(impl::convert(call, logits, wide), -1, where);
  const int64_t rows = logits.extent(0), classes = logits.extent(1);
  const Axis n = reduce_axis(rows, "n", where), c = reduce_axis(classes, "c", where);
  const double all = smoothing / static_cast<double>(classes);
  const Tensor total = compute(
      Shape{},
      [&](const std::vector<Axis>&) {
        const Expr share = shares(n, c), label = heddle::cast(i64, labels(n));
        const Expr hit = label == Expr(c), none = make_const(wide, 0);
        // Without smoothing a share that is infinite is left out and not multiplied by 0.
        const Expr rest = all == 0 ? none
                                   : select(label >= 0 && label < make_const(i64, classes),
                                            share * make_const(wide, all), none);
        return heddle::sum(select(hit, share * make_const(wide, 1 - smoothing + all), rest),
                           {n, c});
      },
      "softmax_cross_entropy_sum", call.op, where);
  return compute(
      Shape{},
      [&](const std::vector<Axis>&) {
        return heddle::cast(type,
                            total.at({}) * make_const(wide, -1.0 / static_cast<double>(rows)));
      },
      call.op, call.op, where);
}

Momentum sgd(const Tensor& parameter, const Tensor& gradient, const Tensor& velocity,
             const Sgd& attributes, Where where) {
  const Call call{"sgd", where};
  impl::check_rank(call, parameter, "parameter", 0);
  impl::check_float(call, parameter, "parameter");
  check_same(call, parameter, gradient, "gradient");
  check_same(call, parameter, velocity, "velocity");
  const auto number = [&](double v) { return make_const(parameter.dtype(), v); };
  const auto slope = [&](const std::vector<Axis>& i) {
    return attributes.decay == 0 ? gradient(i)
                                 : gradient(i) + parameter(i) * number(attributes.decay);
  };
  const Tensor v = compute(
      parameter.shape(),
      [&](const std::vector<Axis>& i) {
        return velocity(i) * number(attributes.momentum) + slope(i);
      },
      velocity.name() + ".next", call.op, where);
  const Tensor next = compute(
      parameter.shape(),
      [&](const std::vector<Axis>& i) {
        const Expr change =
            attributes.nesterov ? slope(i) + v(i) * number(attributes.momentum) : v(i);
        return parameter(i) - change * number(attributes.rate);
      },
      parameter.name() + ".next", call.op, where);
  return {next, v};
}

Moments adam(const Tensor& parameter, const Tensor& gradient, const Tensor& mean,
             const Tensor& square, const Tensor& step, const Tensor& rate, const Adam& attributes,
             Where where) {
  const Call call{"adam", where};
  impl::check_rank(call, parameter, "parameter", 0);
  impl::check_float(call, parameter, "parameter");
  if (parameter.dtype().is_small_float())
    impl::fail(call,
               "'parameter' is " + impl::describe(parameter) +
                   ", in which 0.999 and 1e-8 are rounded to 1 and to 0",
               "keep the parameter and its states in f32, and cast it where it is read");
  check_same(call, parameter, gradient, "gradient");
  check_same(call, parameter, mean, "mean");
  check_same(call, parameter, square, "square");
  check_number(call, parameter, step, "step");
  check_number(call, parameter, rate, "rate");
  const auto number = [&](double v) { return make_const(parameter.dtype(), v); };
  const auto mixed = [&](const Tensor& state, double beta, bool squared) {
    return compute(
        parameter.shape(),
        [&](const std::vector<Axis>& i) {
          const Expr g = gradient(i);
          return state(i) * number(beta) + (squared ? g * g : g) * number(1 - beta);
        },
        state.name() + ".next", call.op, where);
  };
  const Tensor m = mixed(mean, attributes.beta1, false), s = mixed(square, attributes.beta2, true);
  const Tensor next = compute(
      parameter.shape(),
      [&](const std::vector<Axis>& i) {
        const Expr p = parameter(i), t = step(0), eta = rate(0);
        const Expr m_bias = number(1) - heddle::pow(number(attributes.beta1), t);
        const Expr s_bias = number(1) - heddle::pow(number(attributes.beta2), t);
        const Expr change =
            (m(i) / m_bias) / (heddle::sqrt(s(i) / s_bias) + number(attributes.epsilon));
        const Expr kept = attributes.decay == 0 ? p : p - p * (eta * number(attributes.decay));
        return kept - change * eta;
      },
      parameter.name() + ".next", call.op, where);
  return {next, m, s};
}

}  // namespace heddle::ops
