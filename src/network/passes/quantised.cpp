#include "network/passes/quantised.h"

#include <cmath>
#include <utility>

#include "dag/patterns/look_through.h"
#include "network/passes/mover.h"
#include "network/passes/product_chain.h"

namespace heddle::network {

const Operation* read_stage(const ComputeDag& dag, const Load& load) {
  const int s = dag.index_of(tensor_of(load.buffer).op());
  if (s < 0 || dag.stage(s).is_placeholder() || dag.stage(s).is_reduction() ||
      dag.stage(s).num_outputs() != 1 || dag.info(s).scan)
    return nullptr;
  return &dag.stage(s);
}

Tensor like(const Operation& op, const Expr& body, const std::string& name) {
  const FreshAxes fresh(op);
  return Operation::make_compute(name, fresh.axes, {substitute(body, fresh.bindings)}, op.tag(),
                                 op.where())
      ->output(0);
}

namespace {

bool is_narrow(DataType type) { return type == f16 || type == bf16; }

/// A read of bytes that is converted to i32; null for all else.
const Load* widened_byte(const Expr& e) {
  const Cast* wide = e.as<Cast>();
  const Load* load = wide && e.dtype() == i32 ? wide->value.as<Load>() : nullptr;
  return load && wide->value.dtype().is_integral() && wide->value.dtype().bits == 8 ? load
                                                                                    : nullptr;
}

/// The bytes as they lie, where the stage reads each at its own place; else a stage that moves
/// them.
Tensor bytes_of(const Operation& op, const Load& load) {
  const Tensor bytes = tensor_of(load.buffer);
  bool in_place =
      load.indices.size() == op.axes().size() && bytes.extents() == op.output(0).extents();
  for (size_t d = 0; in_place && d < load.indices.size(); ++d)
    in_place = load.indices[d].get() == op.axes()[d].var().get();
  return in_place ? bytes : like(op, make_load(load.buffer, load.indices), op.name() + "_bytes");
}

/// `e` without the bounds of the integer type; undefined where it has others.
Expr within_bounds(Expr e, DataType type) {
  const double low = type.is_uint() ? 0 : -128, high = low + 255;
  bool has_low = false, has_high = false;
  for (const Binary* b = e.as<Binary>(); b; b = e.as<Binary>()) {
    const FloatImm* bound = b->b.as<FloatImm>();
    if (!bound || (b->op != BinaryOp::Min && b->op != BinaryOp::Max)) break;
    (b->op == BinaryOp::Min ? has_high : has_low) = true;
    if (bound->value != (b->op == BinaryOp::Min ? high : low)) return {};
    const Expr inner = b->a;
    e = inner;
  }
  return has_low && has_high ? e : Expr();
}

}  // namespace

const Expr& narrow_or_wide(const Expr& e) {
  const Cast* c = e.as<Cast>();
  return c && e.dtype() == f32 && is_narrow(c->value.dtype()) ? c->value : e;
}

std::optional<Quantised> dequantised(const Operation& op) {
  const Expr& body = op.bodies()[0];
  const Cast* narrowed = is_narrow(body.dtype()) ? body.as<Cast>() : nullptr;
  const Binary* mul = (narrowed ? narrowed->value : body).as<Binary>();
  if (!mul || mul->op != BinaryOp::Mul || (mul->a.dtype() != f32 && !is_narrow(mul->a.dtype())))
    return std::nullopt;
  for (const auto& [value, factor] : {std::pair{mul->a, mul->b}, std::pair{mul->b, mul->a}}) {
    const Cast* number = value.as<Cast>();
    if (!number || number->value.dtype() != i32) continue;
    const Expr scale = cast(f32, factor);
    if (const Load* load = widened_byte(number->value))
      return Quantised{bytes_of(op, *load), {}, scale};
    const Binary* sub = number->value.as<Binary>();
    const Load* load = sub && sub->op == BinaryOp::Sub ? widened_byte(sub->a) : nullptr;
    if (load) return Quantised{bytes_of(op, *load), is_const(sub->b, 0) ? Expr() : sub->b, scale};
  }
  return std::nullopt;
}

std::optional<Rounded> rounded(const Operation& op) {
  const Cast* byte = op.is_placeholder() ? nullptr : op.bodies()[0].as<Cast>();
  const DataType type = op.output(0).dtype();
  if (!byte || !type.is_integral() || type.bits != 8 || byte->value.dtype() != f32)
    return std::nullopt;
  Expr value = within_bounds(byte->value, type);
  if (!value.defined()) return std::nullopt;
  Rounded r;
  const Binary* add = value.as<Binary>();
  if (add && add->op == BinaryOp::Add) {
    const FloatImm* zero = add->b.as<FloatImm>();
    if (!zero) return std::nullopt;
    r.zero = zero->value;
    const Expr steps = add->a;
    value = steps;
  }
  const Unary* round = value.as<Unary>();
  const Binary* div = round && round->op == UnaryOp::Round ? round->a.as<Binary>() : nullptr;
  if (!div || div->op != BinaryOp::Div) return std::nullopt;
  const FloatImm* scale = div->b.as<FloatImm>();
  r.read = narrow_or_wide(div->a).as<Load>();
  if (!scale || !r.read || (r.read->dtype != f32 && !is_narrow(r.read->dtype))) return std::nullopt;
  r.scale = scale->value;
  return r;
}

Expr without_implied_bounds(const ComputeDag& dag, const Rounded& rounded, DataType type) {
  const Operation* op = read_stage(dag, *rounded.read);
  if (!op || !is_private(dag, dag.index_of(op))) return {};
  const double low = type.is_uint() ? 0 : -128, high = low + 255;
  Expr value = op->bodies()[0];
  for (const Binary* b = value.as<Binary>(); b; b = value.as<Binary>()) {
    const FloatImm* bound = b->b.as<FloatImm>();
    if (!bound || (b->op != BinaryOp::Min && b->op != BinaryOp::Max)) break;
    const double byte = std::nearbyint(bound->value / rounded.scale) + rounded.zero;
    if (b->op == BinaryOp::Min ? byte < high : byte > low) break;
    const Expr inner = b->a;
    value = inner;
  }
  return value.same_as(op->bodies()[0]) ? Expr()
                                        : dag::at_indices(*op, value, rounded.read->indices);
}

}  // namespace heddle::network
