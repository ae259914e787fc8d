#include "autodiff/equations.h"

#include <algorithm>

#include "autodiff/derivative.h"
#include "heddle/ir/simplify.h"
#include "ir/fold.h"

namespace heddle::autodiff {

Equations::Equations(const std::vector<Axis>& axes, const std::vector<Expr>& indices) {
  for (const Axis& a : axes) {
    unknowns.push_back({a.var(), 0, a.largest_extent() - 1, a->extent, {}});
    if (as_int(a->extent) && unknowns.back().hi == 0) unknowns.back().value = Expr(0);
  }
  for (const Expr& e : indices) collect(e);
}

int Equations::add_unknown(const char* name, int64_t lo, int64_t hi, Expr extent) {
  unknowns.push_back({Var(name), lo, hi, std::move(extent), {}});
  return static_cast<int>(unknowns.size()) - 1;
}

bool Equations::depends_on_unknown(const Expr& e) const {
  return any_below(e, [&](const Expr& x) {
    return x.kind() == ExprKind::Load ||
           std::any_of(unknowns.begin(), unknowns.end(),
                       [&](const Unknown& u) { return u.var.get() == x.get(); });
  });
}

void Equations::add_scaled(Form* to, const Form& from, int64_t times) {
  for (const auto& [u, c] : from.terms)
    if ((to->terms[u] += c * times) == 0) to->terms.erase(u);
  if (from.known.defined()) to->known = sum_of(to->known, from.known * times);
}

std::optional<Equations::Form> Equations::linear(const Expr& e) {
  Form form;
  if (!depends_on_unknown(e)) {
    form.known = e;
    return form;
  }
  for (size_t i = 0; i < unknowns.size(); ++i) {
    if (unknowns[i].var.get() != e.get()) continue;
    if (unknowns[i].value.defined())
      form.known = unknowns[i].value;  // of an axis of extent 1
    else
      form.terms[static_cast<int>(i)] = 1;
    return form;
  }
  if (const Cast* c = e.as<Cast>(); c && c->dtype == i64 && c->value.dtype() == i64)
    return linear(c->value);
  if (const Unary* u = e.as<Unary>(); u && u->op == UnaryOp::Neg) {
    const std::optional<Form> a = linear(u->a);
    if (!a) return {};
    add_scaled(&form, *a, -1);
    return form;
  }
  const Binary* op = e.as<Binary>();
  if (!op) return {};
  const int64_t *left = as_int(op->a), *right = as_int(op->b);
  switch (op->op) {
    case BinaryOp::Add:
    case BinaryOp::Sub: {
      const std::optional<Form> a = linear(op->a), b = linear(op->b);
      if (!a || !b) return {};
      add_scaled(&form, *a, 1);
      add_scaled(&form, *b, op->op == BinaryOp::Add ? 1 : -1);
      return form;
    }
    case BinaryOp::Mul: {
      if (!left && !right) return {};
      const std::optional<Form> a = linear(left ? op->b : op->a);
      if (!a) return {};
      add_scaled(&form, *a, left ? *left : *right);
      return form;
    }
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod: return form_of(part_of(e));
    default: return {};
  }
}

Equations::Part Equations::part_of(const Expr& e) {
  const Binary* op = e.as<Binary>();
  const int64_t* c = op ? as_int(op->b) : nullptr;
  if (!c || *c <= 0) return {e};
  const Part inner = part_of(op->a);
  const int64_t low = inner.low * *c;
  if (op->op == BinaryOp::FloorDiv) {
    if (inner.high % low == 0) return {inner.of, low, inner.high};
    return {op->a, *c, 0};
  }
  if (op->op != BinaryOp::FloorMod) return {e};
  if (inner.high % low == 0) return {inner.of, inner.low, low};
  if (low % inner.high == 0) return inner;
  return {op->a, 1, *c};
}

void Equations::add_divisor(const Expr& of, int64_t divisor) {
  if (divisor <= 1) return;
  const auto same = [&](const Digits& d) { return equal(d.of, of); };
  auto it = std::find_if(digits_.begin(), digits_.end(), same);
  if (it == digits_.end()) it = digits_.insert(it, {of, {}, {}, {}});
  std::vector<int64_t>& all = it->divisors;
  if (!it->quotients.empty() || std::find(all.begin(), all.end(), divisor) != all.end()) return;
  all.insert(std::upper_bound(all.begin(), all.end(), divisor), divisor);
}

/// Notes all divisors of all numbers below `e`, so that the digits of a number are written once.
void Equations::collect(const Expr& e) {
  const Part part = part_of(e);
  if (!part.of.same_as(e)) {
    add_divisor(part.of, part.low);
    add_divisor(part.of, part.high);
    return collect(part.of);
  }
  for_each_child(e, [&](const Expr& c) { collect(c); });
}

/// Adds the unknowns and equations of the digits. False where the number has no linear form.
bool Equations::write_digits(Digits* digits) {
  const std::optional<Form> of = linear(digits->of);
  if (!of) return false;
  Ranges ranges;
  for (const Unknown& u : unknowns) ranges.set(u.var, {u.lo, u.hi});
  Interval range = range_of(digits->of, ranges);
  if (!range.bounded()) return false;
  Form rest = *of;
  int64_t before = 1;
  for (const int64_t d : digits->divisors) {
    const int64_t by = d / before;
    if (d % before != 0) return false;
    range = {floor_div(range.min, by), floor_div(range.max, by)};
    const int q = add_unknown("q", range.min, range.max, {});
    const int m = add_unknown("m", 0, by - 1, Expr(by));
    add_scaled(&rest, Form{{{q, by}, {m, 1}}, {}}, -1);
    open.push_back({rest.terms, rest.known.defined() ? -rest.known : Expr(0)});
    digits->quotients.push_back(q);
    digits->remainders.push_back(m);
    rest = Form{{{q, 1}}, {}};
    before = d;
  }
  return true;
}

std::optional<Equations::Form> Equations::form_of(const Part& part) {
  if (part.low == 1 && part.high == 0) return {};
  size_t at = 0;
  while (at < digits_.size() && !equal(digits_[at].of, part.of)) ++at;
  if (at == digits_.size()) return {};
  if (digits_[at].quotients.empty()) {
    Digits written = digits_[at];  // writing may use the digits of other numbers
    if (!write_digits(&written)) return {};
    digits_[at] = std::move(written);
  }
  const Digits& d = digits_[at];
  const auto place = [&](int64_t divisor) {
    const auto it = std::find(d.divisors.begin(), d.divisors.end(), divisor);
    return it == d.divisors.end() ? -1 : static_cast<int>(it - d.divisors.begin());
  };
  const int low = part.low == 1 ? -1 : place(part.low), high = place(part.high);
  if ((part.low != 1 && low < 0) || (part.high != 0 && high < 0)) return {};
  if (part.high == 0) return Form{{{d.quotients[static_cast<size_t>(low)], 1}}, {}};
  Form form;
  int64_t weight = 1;
  for (int n = low + 1; n <= high; ++n) {
    const int m = d.remainders[static_cast<size_t>(n)];
    form.terms[m] = weight;
    weight *= unknowns[static_cast<size_t>(m)].count();
  }
  return form;
}

bool Equations::add(const Expr& index, const Expr& known) {
  const Equations before = *this;
  const std::optional<Form> form = linear(index);
  if (!form) {
    *this = before;
    return false;
  }
  open.push_back({form->terms, form->known.defined() ? known - form->known : known});
  return true;
}

void Equations::solve(int u, const Expr& value, const std::map<int, int64_t>& terms) {
  Expr whole = value;
  for (const auto& [v, c] : terms) whole = whole + unknowns[static_cast<size_t>(v)].var * c;
  unknowns[static_cast<size_t>(u)].value = whole;
  for (Equation& e : open) {
    const auto it = e.terms.find(u);
    if (it == e.terms.end()) continue;
    const int64_t times = it->second;
    e.terms.erase(it);
    e.rhs = simplify(e.rhs - value * times);
    for (const auto& [v, c] : terms)
      if ((e.terms[v] += c * times) == 0) e.terms.erase(v);
  }
}

void Equations::keep(int u) {
  for (Equation& e : open) {
    const auto it = e.terms.find(u);
    if (it == e.terms.end()) continue;
    e.rhs = e.rhs - unknowns[static_cast<size_t>(u)].var * it->second;
    e.terms.erase(it);
  }
}

}  // namespace heddle::autodiff
