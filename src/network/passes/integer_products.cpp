// Products of dequantised bytes are products of bytes, whose results are scaled. Machines have
// instructions for these, and files with pairs of quantisation and dequantisation declare the
// products in f32.
//
//   x[c, y] = f32(i32(q[c, y]) - z) * s                                             (before)
//   w[k, c] = f32(i32(v[k, c])) * t[k]
//   p[k, y] = sum over c of x[c, y] * w[k, c]
//
//   n[k, y] = sum over c of i32(q[c, y]) * i32(v[k, c])                             (after)
//   u[k]    = sum over c of i32(v[k, c])                   once, where z is not 0
//   p[k, y] = f32(n[k, y] - z * u[k]) * (s * t[k])
//
// Operands may be rounded to f16 or bf16 on the way, as long as their products add up in f32: bytes stay bytes.
// Padding by zeros becomes padding by the zero point. Sums of bytes are exact, so the result is
// closer to the real product than that in f32. Of two operands with zero points z and y the sums of both are
// needed, and n - z * (sum of v) - y * (sum of q) + z * y * (number of terms) is scaled. The pass leaves products that
// could exceed i32, and those of which the sums that have to be computed at every call are no small part.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "dag/map_loads.h"
#include "dag/patterns/look_through.h"
#include "dag/rewrites/rebuilder.h"
#include "dag/rewrites/rewrite_parts.h"
#include "ir/linear.h"
#include "network/passes/graph_pass.h"
#include "network/passes/mover.h"
#include "network/passes/quantised.h"

namespace heddle::network {
namespace {

/// Whether a zero point has the same value as a byte of this type.
bool fits(const Expr& zero, DataType type) {
  if (const Cast* c = zero.as<Cast>()) return c->value.dtype() == type;
  const int64_t* v = as_int(zero);
  const int64_t least = type == i8 ? -128 : 0;
  return v && *v >= least && *v < least + 256;
}

bool uses_any(const Expr& e, const std::vector<Axis>& axes) {
  for (const Axis& a : axes) {
    if (e.defined() && uses_var(e, a.var())) return true;
  }
  return false;
}

/// What `load` reads as bytes, through stages that move or pad them.
std::optional<Quantised> quantised(const ComputeDag& dag, const Load& load, int depth = 0) {
  const Operation* op = read_stage(dag, load);
  if (!op || depth > dag::kMostStagesBetween) return std::nullopt;
  const Expr& body = op->bodies()[0];
  const Select* pad = body.as<Select>();
  if (pad && !is_const(pad->on_false, 0)) return std::nullopt;
  const Expr& moved = pad ? pad->on_true : body;
  const Load* inner = moved.as<Load>();
  if (!inner) return pad ? std::nullopt : dequantised(*op);
  if (std::any_of(inner->indices.begin(), inner->indices.end(), has_load)) return std::nullopt;
  std::optional<Quantised> q = quantised(dag, *inner, depth + 1);
  if (!q) return std::nullopt;
  const Operation& from = *read_stage(dag, *inner);
  // Beside the image there is no scale of its own.
  if (pad && (uses_any(q->scale, from.axes()) || uses_any(q->zero, from.axes())))
    return std::nullopt;
  Expr bytes = q->integers.at(inner->indices);
  if (pad) {
    const DataType type = bytes.dtype();
    if (q->zero.defined() && !fits(q->zero, type)) return std::nullopt;
    const Expr zero = q->zero.defined() ? simplify(cast(type, q->zero)) : make_const(type, 0);
    bytes = select(pad->condition, bytes, zero);
  }
  q->integers = like(*op, bytes, op->name());
  q->scale = dag::at_indices(from, q->scale, inner->indices);
  if (q->zero.defined()) q->zero = dag::at_indices(from, q->zero, inner->indices);
  return q;
}

/// An operand of a product: bytes at the place where the product reads them, with their scale and
/// zero point over the axes of the product.
struct Operand {
  Expr bytes, zero, scale;
  bool constant = false;
  int64_t most = 255;  ///< no byte is further from the zero point
};

/// Operand::most; none where the zero point may be any number.
std::optional<int64_t> most_from_zero(const Expr& zero, DataType type) {
  constexpr int64_t kBytes = 255;
  if (!zero.defined() || fits(zero, type)) return kBytes;
  const int64_t* v = as_int(zero);
  const int64_t least = type == i8 ? -128 : 0;
  return v ? std::optional(std::max(std::abs(least - *v), std::abs(least + kBytes - *v)))
           : std::nullopt;
}

std::optional<Operand> operand_of(const ComputeDag& dag, const Operation& product, const Expr& e) {
  const Load* load = narrow_or_wide(e).as<Load>();
  const std::optional<Quantised> q = load ? quantised(dag, *load) : std::nullopt;
  if (!q) return std::nullopt;
  const int s = dag.index_of(tensor_of(load->buffer).op());
  const Operation& op = dag.stage(s);
  std::vector<VarBinding> single;  // axes of one element, which stay at 0
  for (const Axis& a : product.reduce_axes()) {
    if (is_const(a->extent, 1)) single.push_back({a.var(), Expr(0)});
  }
  const auto at_load = [&](const Expr& e) {
    return e.defined() ? substitute(dag::at_indices(op, e, load->indices), single) : e;
  };
  Operand out{.bytes = q->integers.at(load->indices),
              .zero = at_load(q->zero),
              .scale = at_load(q->scale),
              .constant = dag::is_constant_stage(dag, s)};
  const std::optional<int64_t> most = most_from_zero(out.zero, out.bytes.dtype());
  if (!most || uses_any(out.scale, product.reduce_axes()) ||
      uses_any(out.zero, product.reduce_axes()))
    return std::nullopt;
  out.most = *most;
  return out;
}

/// A sum over the reduce axes of the product, as a stage over those of its axes that the term
/// uses; read at the axes of the product.
Expr sum_over(const Operation& product, const Expr& term, const std::string& name) {
  UsedAxes used(product, term);
  std::vector<Axis> terms;
  for (const Axis& a : product.reduce_axes()) {
    terms.emplace_back(a.name(), a->extent, AxisKind::Reduce);
    used.bindings.push_back({a.var(), terms.back()});
  }
  return Operation::make_compute(name, std::move(used.axes),
                                 {sum(substitute(term, used.bindings), terms)}, product.tag(),
                                 product.where())
      ->output(0)
      .at(std::move(used.indices));
}

/// Whether the sum of the products may exceed i32. On the way to it numbers may: they wrap.
bool may_overflow(const Operation& product, const Operand& a, const Operand& b) {
  const int64_t most_terms = std::numeric_limits<int32_t>::max() / a.most / b.most;
  int64_t terms = 1;
  for (const Axis& axis : product.reduce_axes()) {
    const int64_t* extent = as_int(axis->extent);
    if (!extent || *extent > most_terms) return true;
    terms *= std::max<int64_t>(1, *extent);
    if (terms > most_terms) return true;
  }
  return false;
}

/// Whether summing `summed` at every call is a small part of the product: each of its elements is multiplied often.
bool is_summed_cheaply(const Operation& product, const Operand& summed) {
  constexpr int64_t kFew = 16;
  int64_t often = 1;
  for (const Axis& a : product.axes()) {
    const int64_t* extent = as_int(a->extent);
    if (!uses_var(summed.bytes, a.var())) often *= extent ? *extent : 1;
  }
  return summed.constant || often >= kFew;
}

/// i32 (n - z * sums of b - y * sums of a + z * y * terms), of which zero points may be missing.
Expr less_zero_points(const Operation& op, const Expr& sums, const Operand& a, const Operand& b) {
  const auto of = [&](const Operand& x) {
    return sum_over(op, cast(i32, x.bytes), op.name() + "_sums");
  };
  Expr value = sums;
  if (a.zero.defined()) value = value - a.zero * of(b);
  if (b.zero.defined()) value = value - b.zero * of(a);
  if (!a.zero.defined() || !b.zero.defined()) return value;
  int64_t terms = 1;
  for (const Axis& k : op.reduce_axes()) terms *= *as_int(k->extent);
  return value + a.zero * b.zero * make_int(i32, terms);
}

/// The product in bytes, scaled; null where it is none of dequantised bytes.
Tensor in_bytes(const ComputeDag& dag, const Operation& op) {
  const Reduce* r = op.is_placeholder() ? nullptr : dag::reduction_of(op, ReduceKind::Sum, 0);
  const Binary* mul = r ? r->sources[0].as<Binary>() : nullptr;
  if (!mul || mul->op != BinaryOp::Mul || op.output(0).dtype() != f32) return {};
  const std::optional<Operand> a = operand_of(dag, op, mul->a);
  const std::optional<Operand> b = a ? operand_of(dag, op, mul->b) : std::nullopt;
  if (!b || may_overflow(op, *a, *b) || (a->zero.defined() && !is_summed_cheaply(op, *b)) ||
      (b->zero.defined() && !is_summed_cheaply(op, *a)))
    return {};
  const auto wide = [](const Operand& x) { return cast(i32, x.bytes); };
  const Tensor sums = like(op, sum(wide(*a) * wide(*b), r->axes), op.name());
  const Expr value = less_zero_points(op, sums(op.axes()), *a, *b);
  return like(op, cast(f32, value) * (a->scale * b->scale), op.name() + "_scaled");
}

}  // namespace

std::vector<Tensor> integer_products(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  dag::Rebuilder rebuilder;
  int found = 0;
  for (int s = 0; s < dag.size(); ++s) {
    if (dag.info(s).scan || dag.info(s).precomputable) continue;
    const Tensor made = in_bytes(dag, dag.stage(s));
    if (!made) continue;
    rebuilder.replace(dag.stage(s).output(0), made);
    ++found;
  }
  if (found == 0) return dag.outputs();
  context.changed(std::to_string(found) + " products of dequantised bytes are products of bytes");
  return rebuilder.rebuild(dag.outputs());
}

}  // namespace heddle::network
