#include "heddle/ops/training.h"
#include "ops/common.h"

namespace heddle::ops {
namespace {

using impl::Call;

void check_one(const Call& call, const Tensor& t, const char* what) {
  impl::check_rank(call, t, what, 1, 1);
  if (t.dtype() != f32 || t.extent(0) != 1)
    impl::fail(call, std::string("'") + what + "' is " + impl::describe(t), "give one f32");
}

/// The elements that are infinite or no numbers.
Tensor count_not_finite(const Call& call, const Tensor& t) {
  std::vector<Axis> all;
  for (const Expr& extent : t.shape()) all.push_back(reduce_axis(extent, "i", call.where));
  const Expr x = heddle::cast(impl::wide(t.dtype()), t(all));
  const Expr bad =
      select(heddle::isnan(x) || heddle::isinf(x), make_const(i32, 1), make_const(i32, 0));
  return compute(
      {1}, [&](Axis) { return all.empty() ? bad : heddle::sum(bad, all); }, "not_finite", call.op,
      call.where);
}

}  // namespace

Tensor scaled_loss(const Tensor& loss, const Tensor& scale, Where where) {
  const Call call{"scaled_loss", where};
  impl::check_rank(call, loss, "loss", 0);
  impl::check_float(call, loss, "loss");
  check_one(call, scale, "scale");
  return compute(
      loss.shape(),
      [&](const std::vector<Axis>& i) { return heddle::cast(f32, loss(i)) * scale(0); }, call.op,
      call.op, where);
}

Tensor unscaled(const Tensor& gradient, const Tensor& scale, Where where) {
  const Call call{"unscaled", where};
  impl::check_rank(call, gradient, "gradient", 0);
  impl::check_float(call, gradient, "gradient");
  check_one(call, scale, "scale");
  return compute(
      gradient.shape(),
      [&](const std::vector<Axis>& i) { return heddle::cast(f32, gradient(i)) / scale(0); },
      call.op, call.op, where);
}

LossScale loss_scale(const std::vector<Tensor>& gradients, const Tensor& scale, const Tensor& good,
                     const LossScaling& attributes, Where where) {
  const Call call{"loss_scale", where};
  if (gradients.empty()) impl::fail(call, "there are no gradients");
  check_one(call, scale, "scale");
  check_one(call, good, "good");
  const LossScaling& a = attributes;
  if (!(a.growth >= 1 && a.backoff > 0 && a.backoff <= 1 && a.interval >= 1))
    impl::fail(call, "the scale would not stay within its range",
               "growth is at least 1, backoff in (0, 1], interval at least 1");
  std::vector<Tensor> counts;
  for (const Tensor& g : gradients) {
    impl::check_rank(call, g, "gradients", 0);
    impl::check_float(call, g, "gradients");
    counts.push_back(count_not_finite(call, g));
  }
  const Tensor finite = compute(
      {1},
      [&](Axis i) {
        Expr bad = counts[0](i);
        for (size_t c = 1; c < counts.size(); ++c) bad = bad + counts[c](i);
        return select(bad == 0, make_const(i32, 1), make_const(i32, 0));
      },
      "finite", call.op, where);
  const auto number = [](double v) { return make_const(f32, v); };
  const auto grows = [&](Axis i) {
    return good(i) + number(1) >= number(static_cast<double>(a.interval));
  };
  const Tensor next_scale = compute(
      {1},
      [&](Axis i) {
        const Expr grown = scale(i) * select(grows(i), number(a.growth), number(1));
        // An infinite scale would never come back.
        const Expr kept = select(heddle::isinf(grown), scale(i), grown);
        return select(finite(i) != 0, kept, heddle::max(scale(i) * number(a.backoff), number(1)));
      },
      scale.name() + ".next", call.op, where);
  const Tensor next_good = compute(
      {1},
      [&](Axis i) { return select(finite(i) != 0 && !grows(i), good(i) + number(1), number(0)); },
      good.name() + ".next", call.op, where);
  return {next_scale, next_good, finite};
}

std::vector<StateUpdate> updates_if(const Tensor& condition, std::vector<StateUpdate> updates,
                                    Where where) {
  const Call call{"updates_if", where};
  impl::check_rank(call, condition, "condition", 1, 1);
  if (!condition.dtype().is_integral() || condition.extent(0) != 1)
    impl::fail(call, "'condition' is " + impl::describe(condition), "give one integer");
  for (StateUpdate& u : updates) {
    const auto [state, next] = u;
    u.next = compute(
        state.shape(),
        [&](const std::vector<Axis>& i) { return select(condition(0) != 0, next(i), state(i)); },
        next.name(), call.op, where);
  }
  return updates;
}

}  // namespace heddle::ops
