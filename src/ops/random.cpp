#include "heddle/ops/random.h"

#include <numbers>

#include "heddle/ops/reduce.h"
#include "ops/common.h"
#include "ops/random_bits.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::Dims;

Expr constant_of(uint64_t value) { return make_int(u64, static_cast<int64_t>(value)); }

/// In [0, 1), of f32.
Tensor uniform(const Call& call, const Dims& shape, uint64_t seed) {
  return compute(
      impl::to_shape(shape),
      [&](const std::vector<Axis>& i) {
        const Expr bits = impl::random_bits(impl::flat_position(i), constant_of(seed));
        const Expr high = shift_right(bits, constant_of(40));
        return heddle::cast(f32, heddle::cast(i32, high)) * make_const(f32, 0x1p-24);
      },
      "random_bits", call.op, call.where);
}

void check(const Call& call, const Dims& shape, DataType dtype) {
  for (const int64_t extent : shape) {
    if (extent < 0) impl::fail(call, "the shape " + impl::text(shape) + " has a negative extent");
  }
  if (!dtype.is_float())
    impl::fail(call, "the type is " + to_string(dtype) + ", and needs to be a float type");
}

}  // namespace

namespace impl {

Expr random_bits(const Expr& position, const Expr& seed) {
  const auto mixed = [](const Expr& z, int shift) {
    return bitwise_xor(z, shift_right(z, constant_of(static_cast<uint64_t>(shift))));
  };
  Expr z = heddle::cast(u64, position) * constant_of(0x9e3779b97f4a7c15) + heddle::cast(u64, seed);
  z = mixed(z, 30) * constant_of(0xbf58476d1ce4e5b9);
  z = mixed(z, 27) * constant_of(0x94d049bb133111eb);
  return mixed(z, 31);
}

Expr flat_position(const std::vector<Axis>& i) {
  Expr flat = 0;
  for (const Axis& axis : i) flat = flat * axis.extent() + axis;
  return flat;
}

}  // namespace impl

Tensor random_uniform(const std::vector<int64_t>& shape, uint64_t seed, double low, double high,
                      DataType dtype, Where where) {
  const Call call{"random_uniform", where};
  check(call, shape, dtype);
  if (!(low <= high))
    impl::fail(call, "the range is " + std::to_string(low) + " to " + std::to_string(high));
  const Tensor u = uniform(call, shape, seed);
  return compute(
      u.shape(),
      [&](const std::vector<Axis>& i) {
        const DataType wide = dtype == f64 ? f64 : f32;
        return heddle::cast(
            dtype, heddle::cast(wide, u(i)) * make_const(wide, high - low) + make_const(wide, low));
      },
      call.op, call.op, where);
}

Tensor random_normal(const std::vector<int64_t>& shape, uint64_t seed, double mean,
                     double deviation, DataType dtype, Where where) {
  const Call call{"random_normal", where};
  check(call, shape, dtype);
  // Two independent numbers for each element.
  const Tensor radius = uniform(call, shape, seed);
  const Tensor turn = uniform(call, shape, seed ^ 0x5851f42d4c957f2d);
  return compute(
      radius.shape(),
      [&](const std::vector<Axis>& i) {
        const auto number = [](double v) { return make_const(f32, v); };
        // 1 - u is in (0, 1], so that its logarithm is finite.
        const Expr length = heddle::sqrt(heddle::log(number(1) - radius(i)) * number(-2));
        const Expr value = length * heddle::cos(turn(i) * number(2 * std::numbers::pi));
        return heddle::cast(dtype, value * number(deviation) + number(mean));
      },
      call.op, call.op, where);
}

Tensor random_choice(const Tensor& logits, int64_t samples, uint64_t seed, DataType dtype,
                     Where where) {
  const Call call{"random_choice", where};
  impl::check_rank(call, logits, "logits", 2, 2);
  impl::check_float(call, logits, "logits");
  if (samples < 1) impl::fail(call, "'samples' is " + std::to_string(samples));
  if (!dtype.is_integral()) impl::fail(call, "the type is " + to_string(dtype));
  const int64_t rows = logits.extent(0), classes = logits.extent(1);
  // The largest of the logits and noise of Gumbel's distribution is drawn with their probabilities.
  const Tensor u = uniform(call, {rows, samples, classes}, seed);
  const Tensor noisy = compute(
      u.shape(),
      [&](const std::vector<Axis>& i) {
        const Expr positive = heddle::max(u(i), make_const(f32, 0x1p-25));
        return heddle::cast(f32, logits(i[0], i[2])) - heddle::log(-heddle::log(positive));
      },
      "random_gumbel", call.op, where);
  return impl::convert(call, argmax(noisy, 2, false, where), dtype);
}

}  // namespace heddle::ops
