// The draw of tokens as a declaration, for decoders on a GPU. sample() defines it.
#include <cmath>
#include <limits>

#include "generate/kept.h"
#include "heddle/support/error.h"
#include "ops/random_bits.h"

namespace heddle {
namespace {

constexpr int64_t kPart = 1024;
constexpr int32_t kNone = std::numeric_limits<int32_t>::max();

/// Of two places and their scores that of the larger score, the first of equal ones.
Reducer first_largest(Where where) {
  return reducer(
      "draw", {i32, f64}, {int64_t{kNone}, lowest_value(f64)},
      [](const std::vector<Expr>& a, const std::vector<Expr>& b) {
        const Expr first = logical_and(a[1] == b[1], a[0] < b[0]);
        const Expr take_a = logical_or(b[1] < a[1], first);
        return std::vector<Expr>{select(take_a, a[0], b[0]), select(take_a, a[1], b[1])};
      },
      true, where);
}

/// The noise of element `i` of a stream.
Expr noise(const Expr& stream, const Expr& i) {
  const Expr bits = shift_right(ops::impl::random_bits(i, stream), make_int(u64, 12));
  const Expr u = (cast(f64, cast(i64, bits)) + make_const(f64, 0.5)) * make_const(f64, 0x1p-52);
  return -log(-log(u));
}

void check(const Tensor& t, const char* name, int rank, DataType type, Where where) {
  if (t && t.rank() == rank && t.dtype() == type) return;
  throw_user_error("draw: '" + std::string(name) + "' is no " + to_string(type) + " of rank " +
                       std::to_string(rank),
                   where);
}

}  // namespace

Tensor draw(const Tensor& logits, const Tensor& streams, const Tensor& temperature,
            const DrawLimits& limits, Where where) {
  check(logits, "logits", 2, f32, where);
  check(streams, "streams", 1, u64, where);
  check(temperature, "temperature", 1, f64, where);
  if (limits.top_k || limits.top_p) {
    check(limits.top_k, "top_k", 1, i64, where);
    check(limits.top_p, "top_p", 1, f64, where);
  }
  generate::Kept kept;
  if (limits.top_k) kept = generate::kept_tokens(logits, temperature, limits, where);
  // Parts of rows are blocks of a GPU, which is idle otherwise where sequences are few.
  const Expr tokens = logits.shape()[1];
  const int64_t parts = (logits.extent(1) + kPart - 1) / kPart;
  const Axis i = reduce_axis(kPart, "i", where), p = reduce_axis(parts, "p", where);
  const std::vector<Tensor> best = compute_all(
      {logits.shape()[0], parts},
      [&](Axis b, Axis part) {
        const Expr at = part * kPart + i;
        Expr t = temperature(0);
        const Expr nothing = make_const(f32, NAN);
        Expr own = logits(b, at);
        if (kept.levels) {
          t = select(limits.top_k(0) == make_int(i64, 1), make_const(f64, 0), t);
          const Expr stays =
              logical_or(kept.levels(b, at) <= kept.limits(b), t <= make_const(f64, 0));
          own = select(stays, own, nothing);
        }
        const Expr x = select(at < tokens, own, nothing), none = isnan(x);
        const Expr scaled =
            select(t > make_const(f64, 0), t * noise(streams(b), at), make_const(f64, 0));
        const Expr score = select(none, lowest_value(f64), cast(f64, x) + scaled);
        return first_largest(where)({select(none, make_int(i32, kNone), cast(i32, at)), score},
                                    {i});
      },
      "draw_parts", "draw", where);
  const Tensor place = compute_all(
      {logits.shape()[0]},
      [&](Axis b) { return first_largest(where)({best[0](b, p), best[1](b, p)}, {p}); }, "draw",
      "draw", where)[0];
  return compute(
      place.shape(),
      [&](Axis b) {
        return select(place(b) == make_int(i32, kNone), make_int(i64, -1), cast(i64, place(b)));
      },
      "token", "draw", where);
}

}  // namespace heddle
