#include "heddle/ops/nn.h"
#include "ops/common.h"

namespace heddle::ops {

Tensor rotary_embedding(const Tensor& x, const Tensor& cosines, const Tensor& sines,
                        bool interleaved, Where where) {
  const impl::Call call{"rotary_embedding", where};
  impl::check_rank(call, x, "x", 4, 4);
  impl::check_rank(call, cosines, "cosines", 2, 3);
  impl::check_float(call, x, "x");
  const int64_t half = cosines.extent(-1);
  impl::Dims wanted{x.extent(2), half};
  if (cosines.rank() == 3) wanted.insert(wanted.begin(), x.extent(0));
  if (cosines.extents() != wanted || sines.extents() != wanted || 2 * half > x.extent(3))
    impl::fail(call,
               "'cosines' " + impl::text(cosines.extents()) + " and 'sines' " +
                   impl::text(sines.extents()) + " do not fit x " + impl::text(x.extents()),
               "they are (L, R / 2) or (N, L, R / 2) for x (N, H, L, E) with R <= E");
  const DataType wide = impl::wide(x.dtype());
  return compute(
      x.shape(),
      [&](const std::vector<Axis>& i) {
        const Expr e = i[3];
        const auto read = [&](const Expr& at) {
          return heddle::cast(wide, x(i[0], i[1], i[2], at));
        };
        const auto angle = [&](const Tensor& t) {
          const Expr at = interleaved ? floordiv(e, 2) : floormod(e, half);
          return heddle::cast(wide, t.rank() == 2 ? t(i[2], at) : t(i[0], i[2], at));
        };
        const Expr odd = floormod(e, 2);
        const Expr pair = min(floordiv(e, 2) * 2 + (1 - odd), Expr(x.extent(3) - 1));
        const Expr other = interleaved ? select(odd == 0, -read(pair), read(pair))
                                       : select(e < half, -read(e + half), read(e - half));
        const Expr rotated =
            heddle::cast(x.dtype(), read(e) * angle(cosines) + other * angle(sines));
        if (2 * half == x.extent(3)) return rotated;
        return select(e < 2 * half, rotated, x(i));
      },
      call.op, call.op, where);
}

}  // namespace heddle::ops
