#include "autodiff/cancelling_shifts.h"

#include <numbers>
#include <optional>
#include <set>

#include "heddle/ir/simplify.h"

namespace heddle::autodiff {
namespace {

/// What adding s(where) to the elements of a stage does to a value: nothing, v + by * s, or
/// v * exp(by * s).
struct Effect {
  enum class Kind { None, Shift, Factor };
  Kind kind = Kind::None;
  double by = 0;
  std::vector<Expr> where;
  bool zero = false;  ///< the value is 0, which any factor leaves as it is

  bool is(Kind k) const { return kind == k; }
};
using Kind = Effect::Kind;
using Found = std::optional<Effect>;  ///< nothing where the effect is another

bool same_place(const Effect& a, const Effect& b) {
  return std::ranges::equal(a.where, b.where,
                            [](const Expr& x, const Expr& y) { return equal(x, y); });
}

Effect with(const Effect& e, Kind kind, double by) {
  if (by == 0) return {};
  return {kind, by, e.where, false};
}

/// The effects on the stages that have one.
using Effects = std::unordered_map<const Operation*, std::vector<Effect>>;

class Analysis {
 public:
  explicit Analysis(const Effects& known) : known_(known) {}

  Found of(const Expr& e) {
    if (const auto it = memo_.find(e.get()); it != memo_.end()) return it->second;
    const Found found = compute_of(e);
    memo_.emplace(e.get(), found);
    return found;
  }

 private:
  Found compute_of(const Expr& e) {
    if (const Load* load = e.as<Load>()) return of_load(*load);
    if (const Unary* u = e.as<Unary>()) return of_unary(*u);
    if (const Binary* b = e.as<Binary>()) return of_binary(*b);
    if (const Select* s = e.as<Select>()) return of_select(*s);
    if (const Cast* c = e.as<Cast>()) {
      const Found a = of(c->value);
      return a && (a->is(Kind::None) || c->dtype.is_float()) ? a : std::nullopt;
    }
    if (is_const(e)) return Effect{Kind::None, 0, {}, is_const(e, 0)};
    return no_children_changed(e);
  }

  Found no_children_changed(const Expr& e) {
    bool none = true;
    for_each_child(e, [&](const Expr& child) {
      const Found c = of(child);
      none = none && c && c->is(Kind::None);
    });
    return none ? Found(Effect{}) : std::nullopt;
  }

  Found of_load(const Load& load) {
    for (const Expr& i : load.indices)
      if (const Found at = of(i); !at || !at->is(Kind::None)) return {};
    const Tensor t = tensor_of(load.buffer);
    const auto it = known_.find(t.op());
    if (it == known_.end()) return Effect{};
    Effect effect = it->second[static_cast<size_t>(t.index())];
    std::vector<VarBinding> by;
    for (size_t d = 0; d < load.indices.size(); ++d)
      by.push_back({t.op()->axes()[d].var(), load.indices[d]});
    for (Expr& w : effect.where) w = simplify(substitute(w, by));
    return effect;
  }

  Found of_unary(const Unary& u) {
    const Found a = of(u.a);
    if (!a) return {};
    if (a->is(Kind::None)) return Effect{};
    const bool shift = a->is(Kind::Shift);
    switch (u.op) {
      case UnaryOp::Neg: return with(*a, a->kind, shift ? -a->by : a->by);
      case UnaryOp::Exp:
        if (shift) return with(*a, Kind::Factor, a->by);
        break;
      case UnaryOp::Exp2:
        if (shift) return with(*a, Kind::Factor, a->by * std::numbers::ln2);
        break;
      case UnaryOp::Log:
        if (!shift) return with(*a, Kind::Shift, a->by);
        break;
      case UnaryOp::Abs:
        if (!shift) return a;
        break;
      case UnaryOp::Sqrt:
        if (!shift) return with(*a, Kind::Factor, a->by / 2);
        break;
      case UnaryOp::Rsqrt:
        if (!shift) return with(*a, Kind::Factor, -a->by / 2);
        break;
      default: break;
    }
    return {};
  }

  /// a + b, a - b (`sign` -1), and the choice of one of them (`sign` 0).
  static Found joined(const Effect& a, const Effect& b, int sign) {
    if (a.is(Kind::None) && b.is(Kind::None)) return Effect{};
    if (a.is(Kind::Factor) && b.zero) return a;
    if (b.is(Kind::Factor) && a.zero) return b;
    if (a.is(Kind::Factor) || b.is(Kind::Factor))
      return a.kind == b.kind && a.by == b.by && same_place(a, b) ? Found(a) : std::nullopt;
    if (sign == 0)
      return a.kind == b.kind && a.by == b.by && same_place(a, b) ? Found(a) : std::nullopt;
    if (b.is(Kind::None)) return a;
    if (a.is(Kind::None)) return with(b, Kind::Shift, sign * b.by);
    return same_place(a, b) ? Found(with(a, Kind::Shift, a.by + sign * b.by)) : std::nullopt;
  }

  /// a * b, and a / b (`sign` -1).
  static Found product(const Effect& a, const Effect& b, int sign) {
    if (a.is(Kind::None) && b.is(Kind::None)) return Effect{};
    if (a.is(Kind::Shift) || b.is(Kind::Shift)) return {};
    if (b.is(Kind::None)) return a;
    if (a.is(Kind::None)) return with(b, Kind::Factor, sign * b.by);
    return same_place(a, b) ? Found(with(a, Kind::Factor, a.by + sign * b.by)) : std::nullopt;
  }

  static Found scaled(const Effect& shift, const Expr& constant, bool divided) {
    const FloatImm* c = constant.as<FloatImm>();
    if (!c || c->value == 0) return {};
    return with(shift, Kind::Shift, divided ? shift.by / c->value : shift.by * c->value);
  }

  Found of_binary(const Binary& e) {
    const Found a = of(e.a), b = of(e.b);
    if (!a || !b) return {};
    switch (e.op) {
      case BinaryOp::Add: return joined(*a, *b, 1);
      case BinaryOp::Sub: return joined(*a, *b, -1);
      case BinaryOp::Min:
      case BinaryOp::Max: return joined(*a, *b, 0);
      case BinaryOp::Mul:
        if (a->is(Kind::Shift)) return scaled(*a, e.b, false);
        if (b->is(Kind::Shift)) return scaled(*b, e.a, false);
        return product(*a, *b, 1);
      case BinaryOp::Div:
        if (a->is(Kind::Shift)) return scaled(*a, e.b, true);
        return product(*a, *b, -1);
      default: break;
    }
    return a->is(Kind::None) && b->is(Kind::None) ? Found(Effect{}) : std::nullopt;
  }

  Found of_select(const Select& s) {
    const Found c = of(s.condition), a = of(s.on_true), b = of(s.on_false);
    if (!c || !c->is(Kind::None) || !a || !b) return {};
    return joined(*a, *b, 0);
  }

  const Effects& known_;
  std::unordered_map<const ExprNode*, Found> memo_;
};

/// The effect on an output of a stage.
Found effect_on(const Operation& op, size_t output, const Effects& known) {
  Analysis analysis(known);
  const Reduce* r = op.bodies()[output].as<Reduce>();
  if (!r) return analysis.of(op.bodies()[output]);
  if (r->sources.size() != 1) {
    for (const Expr& s : r->sources)
      if (const Found f = analysis.of(s); !f || !f->is(Kind::None)) return {};
    return Effect{};
  }
  const Found f = analysis.of(r->sources[0]);
  if (!f || f->is(Kind::None)) return f;
  const ReduceKind kind = r->combiner->kind;
  const bool chosen = kind == ReduceKind::Max || kind == ReduceKind::Min;
  if (!chosen && !(kind == ReduceKind::Sum && f->is(Kind::Factor))) return {};
  for (const Expr& w : f->where)
    for (const Axis& axis : r->axes)
      if (uses_var(w, axis.var())) return {};
  return f;
}

}  // namespace

CancellingShifts::CancellingShifts(const std::vector<Ref<const Operation>>& stages,
                                   const std::vector<Tensor>& outputs,
                                   FunctionRef<bool(const Tensor&)> is_constant,
                                   FunctionRef<bool(const Operation&)> is_opaque)
    : readers_(stages.size()), ends_(stages.size(), false) {
  for (const Ref<const Operation>& op : stages) {
    place_.emplace(op.get(), stages_.size());
    stages_.push_back(op.get());
    opaque_.push_back(is_opaque(*op));
    for (int i = 0; i < op->num_outputs(); ++i)
      if (is_constant(op->output(i))) constants_.insert({op.get(), i});
  }
  for (size_t s = 0; s < stages_.size(); ++s)
    for (const Tensor& t : stages_[s]->inputs()) readers_[place_.at(t.op())].push_back(s);
  for (const Tensor& t : outputs) ends_[place_.at(t.op())] = true;
}

bool CancellingShifts::cancels(const Operation& stage) const {
  const size_t first = place_.at(&stage);
  if (constants_.contains({&stage, 0})) return true;
  if (stage.num_outputs() != 1 || ends_[first] || opaque_[first]) return false;
  Effects effects;
  effects[&stage] = {{Kind::Shift, 1, {stage.axes().begin(), stage.axes().end()}, false}};
  std::set<size_t> open(readers_[first].begin(), readers_[first].end());
  while (!open.empty()) {
    const size_t s = *open.begin();
    open.erase(open.begin());
    const Operation& op = *stages_[s];
    if (opaque_[s]) return false;
    std::vector<Effect> on;
    bool any = false;
    for (size_t i = 0; i < op.bodies().size(); ++i) {
      const bool constant = constants_.contains({&op, static_cast<int>(i)});
      const Found f = constant ? Found(Effect{}) : effect_on(op, i, effects);
      if (!f) return false;
      any = any || !f->is(Kind::None);
      on.push_back(*f);
    }
    if (!any) continue;
    if (ends_[s]) return false;
    effects[&op] = std::move(on);
    open.insert(readers_[s].begin(), readers_[s].end());
  }
  return true;
}

}  // namespace heddle::autodiff
