#include "dag/patterns/block_values.h"

#include "heddle/dsl/tensor.h"

namespace heddle::dag {
namespace {

class Reader {
 public:
  Reader(const Var& inner, const Ranges& ranges) : inner_(inner), ranges_(ranges) {}

  /// Takes `e` apart; false where it has another form.
  bool real(const Expr& e, BlockValues& out) {
    if (const Cast* cast = e.as<Cast>())
      return cast->value.dtype().is_integral() ? integer(cast->value, out) : real(cast->value, out);
    const Binary* b = e.as<Binary>();
    if (!b) return false;
    const bool left = uses_var(b->a, inner_), right = uses_var(b->b, inner_);
    if (left == right) return false;
    const Expr &varies = left ? b->a : b->b, &same = left ? b->b : b->a;
    if (!real(varies, out)) return false;
    const Expr value = cast(f32, same);
    switch (b->op) {
      case BinaryOp::Mul: scale_by(value, out); return true;
      case BinaryOp::Add: move_by(value, out); return true;
      case BinaryOp::Sub:
        if (right) scale_by(make_const(f32, -1), out);
        move_by(right ? value : -value, out);
        return true;
      default: return false;
    }
  }

 private:
  /// Takes an integer apart, which is a number less a zero.
  bool integer(const Expr& e, BlockValues& out) {
    const Binary* b = e.as<Binary>();
    const bool sum = b && (b->op == BinaryOp::Sub || b->op == BinaryOp::Add);
    if (sum && uses_var(b->a, inner_) && !uses_var(b->b, inner_) && integer(b->a, out)) {
      const Expr by = cast(i32, b->b), minus = b->op == BinaryOp::Sub ? by : -by;
      out.zero = out.zero.defined() ? out.zero + minus : minus;
      return true;
    }
    out.number = e;
    out.range = range_of(e, ranges_);
    out.scale = make_const(f32, 1);
    return true;
  }

  static void scale_by(const Expr& by, BlockValues& out) {
    out.scale = is_const(out.scale, 1) ? by : out.scale * by;
    if (out.offset.defined()) out.offset = out.offset * by;
  }
  static void move_by(const Expr& by, BlockValues& out) {
    out.offset = out.offset.defined() ? out.offset + by : by;
  }

  const Var& inner_;
  const Ranges& ranges_;
};

}  // namespace

std::optional<BlockValues> as_block_values(const Expr& body, const Var& k, int64_t extent,
                                           int64_t size) {
  BlockValues out;
  if (extent % size != 0) return std::nullopt;
  Ranges ranges;
  ranges.set(out.block, {0, extent / size - 1});
  ranges.set(out.inner, {0, size - 1});
  const Expr at = out.block.expr() * size + out.inner.expr();
  const Expr element = simplify(substitute(body, {{k, at}}), ranges);
  if (!Reader(out.inner, ranges).real(element, out)) return std::nullopt;
  return out;
}

}  // namespace heddle::dag
