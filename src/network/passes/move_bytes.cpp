// Bytes that are moved or joined between a dequantisation and a quantisation stay bytes. Files have
// such pairs around each reshape, slice and concat.
//
//   x = f32(i32(p) - z) * s;  y = f32(i32(q) - w) * t                               (before)
//   c = concat(x, y);  r = u8(clamp(round(c / s) + z))
//
//   m = u8(clamp(round((f32(i32(q) - w) * t) / s) + z));  r = concat(p, m)          (after)
//
// Rounding is done element by element, so it may be done before elements move. A byte that was
// dequantised by the scale and the zero point of the rounding is that byte: the quotient is within
// an ulp of an integer of at most 255, and in f16 within an eighth. (In bf16 numbers between would be rounded to
// the byte beside it, now and then; the byte that stays is the one of f32.) Stages in between that others read as
// numbers stay.
//
// Bounds before a rounding that saturates at them or before are left out, as those of ReLU6.
#include <cfloat>
#include <map>

#include "dag/map_loads.h"
#include "dag/patterns/look_through.h"
#include "dag/rewrites/rebuilder.h"
#include "ir/linear.h"
#include "network/passes/graph_pass.h"
#include "network/passes/mover.h"
#include "network/passes/product_chain.h"
#include "network/passes/quantised.h"

namespace heddle::network {
namespace {

/// The stages behind one rounding, with bytes in place of f32.
class InBytes {
 public:
  InBytes(const ComputeDag& dag, const Operation& rounding, const Rounded& rounded)
      : dag_(dag), rounding_(rounding), rounded_(rounded) {}

  /// The bytes of the stage that `load` reads; null where it is not made of bytes alone.
  Tensor of(const Load& load, int depth = 0) {
    const Operation* op = read_stage(dag_, load);
    if (!op || depth > dag::kMostStagesBetween) return {};
    if (const std::optional<Quantised> q = dequantised(*op)) {
      if (is_same(*q)) return q->integers;
      return depth > 0 ? rounded_again(*op) : Tensor();  // nothing moves where it is read at once
    }
    if (!is_private(dag_, dag_.index_of(op)) || !only_moves(op->bodies()[0])) return {};
    bool all = true;
    const std::vector<Expr> bodies = dag::map_loads(op->bodies(), [&](const Load& inner) {
      const Tensor bytes = all ? of(inner, depth + 1) : Tensor();
      all = all && bytes;
      return all ? bytes.at(inner.indices) : Expr(0);
    });
    return all ? like(*op, bodies[0], op->name()) : Tensor();
  }

 private:
  DataType type() const { return rounding_.output(0).dtype(); }

  bool is_same(const Quantised& q) const {
    const FloatImm* scale = q.scale.as<FloatImm>();
    const int64_t* zero = q.zero.defined() ? as_int(q.zero) : nullptr;
    return scale && scale->value == rounded_.scale && q.integers.dtype() == type() &&
           (!q.zero.defined() || zero) && static_cast<double>(zero ? *zero : 0) == rounded_.zero &&
           is_exact(rounded_.scale);
  }

  /// Whether all products of bytes with the scale are normal numbers of the type between.
  bool is_exact(double scale) const {
    constexpr double kLeastOfF16 = 0x1p-14, kMostOfF16 = 65504;
    const bool half = rounded_.read->dtype == f16;
    return scale >= (half ? kLeastOfF16 : FLT_MIN) && scale <= (half ? kMostOfF16 : FLT_MAX) / 256;
  }

  /// Bytes of another scale are rounded where they lie.
  Tensor rounded_again(const Operation& op) const {
    const std::vector<Expr> bodies =
        dag::map_loads(rounding_.bodies(), [&](const Load& /*read*/) { return op.bodies()[0]; });
    return like(op, bodies[0], rounding_.name());
  }

  /// Whether the body takes elements of other stages as they are.
  static bool only_moves(const Expr& body) {
    if (const Select* either = body.as<Select>())
      return !has_load(either->condition) && only_moves(either->on_true) &&
             only_moves(either->on_false);
    const Load* load = body.as<Load>();
    return load && std::none_of(load->indices.begin(), load->indices.end(), has_load);
  }

  const ComputeDag& dag_;
  const Operation& rounding_;
  const Rounded rounded_;
};

}  // namespace

std::vector<Tensor> move_bytes(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  dag::Rebuilder rebuilder;
  int found = 0, bounded = 0;
  for (int s = 0; s < dag.size(); ++s) {
    const Operation& op = dag.stage(s);
    const std::optional<Rounded> r =
        dag.info(s).scan || dag.info(s).precomputable ? std::nullopt : rounded(op);
    if (!r) continue;
    if (const Tensor bytes = InBytes(dag, op, *r).of(*r->read)) {
      rebuilder.replace(op.output(0), like(op, bytes.at(r->read->indices), op.name()));
      ++found;
    } else if (const Expr value = without_implied_bounds(dag, *r, op.output(0).dtype());
               value.defined()) {
      const std::vector<Expr> bodies =
          dag::map_loads(op.bodies(), [&](const Load& /*read*/) { return value; });
      rebuilder.replace(op.output(0), like(op, bodies[0], op.name()));
      ++bounded;
    }
  }
  if (found + bounded == 0) return dag.outputs();
  if (found > 0)
    context.changed(std::to_string(found) +
                    " results of moving dequantised bytes are moved as bytes");
  if (bounded > 0)
    context.changed(std::to_string(bounded) + " bounds of values are those of their bytes");
  return rebuilder.rebuild(dag.outputs());
}

}  // namespace heddle::network
