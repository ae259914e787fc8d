#include <cmath>

#include "heddle/ops/training.h"
#include "ops/common.h"
#include "ops/random_bits.h"

namespace heddle::ops {

Tensor dropout(const Tensor& x, double rate, const Tensor& seed, uint64_t layer, Where where) {
  const impl::Call call{"dropout", where};
  impl::check_rank(call, x, "x", 0);
  impl::check_float(call, x, "x");
  if (!(rate >= 0 && rate < 1))
    impl::fail(call, "'rate' is " + std::to_string(rate), "it is in [0, 1)");
  impl::check_rank(call, seed, "seed", 1, 1);
  if (!seed.dtype().is_integral() || seed.extent(0) != 1)
    impl::fail(call, "'seed' is " + impl::describe(seed), "give one integer");
  // 24 bits of each number are compared.
  const auto least = make_const(i32, std::round(rate * 0x1p24));
  const DataType wide = impl::wide(x.dtype());
  return compute(
      x.shape(),
      [&](const std::vector<Axis>& i) {
        const Expr step = impl::random_bits(make_int(u64, static_cast<int64_t>(layer)), seed(0));
        const Expr bits = impl::random_bits(impl::flat_position(i), step);
        const Expr drawn = heddle::cast(i32, shift_right(bits, make_int(u64, 40)));
        const Expr scaled = heddle::cast(wide, x(i)) * make_const(wide, 1 / (1 - rate));
        return select(drawn >= least, heddle::cast(x.dtype(), scaled), make_const(x.dtype(), 0));
      },
      call.op, call.op, where);
}

}  // namespace heddle::ops
