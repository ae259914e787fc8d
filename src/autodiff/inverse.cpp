#include "autodiff/inverse.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "autodiff/equations.h"
#include "heddle/ir/simplify.h"
#include "ir/fold.h"
#include "ir/sizes.h"

namespace heddle::autodiff {
namespace {

/// x with a x == 1 modulo m, for gcd(a, m) = 1.
int64_t inverse_modulo(int64_t a, int64_t m) {
  for (int64_t x = 1; x < m; ++x)
    if ((a * x) % m == 1 % m) return x;
  return 0;
}

class Inverter {
 public:
  Inverter(const Shape& shape, const std::vector<Expr>& indices, const std::vector<Axis>& axes,
           const std::vector<Interval>& region)
      : equations_(axes, indices), num_axes_(axes.size()) {
    for (size_t d = 0; d < shape.size(); ++d) {
      const Var x("x" + std::to_string(d));
      result_.indices.push_back(x);
      const Expr at = region.empty() ? all_of(x, shape[d]) : part_of(x, shape[d], region[d]);
      if (!equations_.add(indices[d], at)) result_.conditions.push_back(indices[d] == at);
    }
  }

  Inverse run() {
    while (!equations_.open.empty()) step();
    return finish();
  }

 private:
  using Terms = std::map<int, int64_t>;

  /// The index `x` as a position, whose value is returned.
  Expr all_of(const Var& x, const Expr& extent) {
    result_.positions.push_back({x, extent, x});
    ranges_.set(x, {0, largest_extent(extent) - 1});
    return x;
  }

  /// The indices `x` of an interval as positions.
  Expr part_of(const Var& x, const Expr& extent, const Interval& part) {
    const int64_t* n = as_int(extent);
    if (!n) return all_of(x, extent);
    const int64_t lo = std::max<int64_t>(0, part.min), hi = std::min(*n - 1, part.max);
    if (lo > hi || (lo == 0 && hi == *n - 1)) return all_of(x, extent);
    if (lo > 0) result_.exists.push_back(x >= lo);
    if (hi < *n - 1) result_.exists.push_back(x <= hi);
    ranges_.set(x, {lo, hi});
    result_.split = true;
    return add_position(&result_.positions, "x", lo, hi, x);
  }

  Unknown& unknown(int u) { return equations_.unknowns[static_cast<size_t>(u)]; }

  Equation take(size_t i) {
    Equation e = equations_.open[i];
    equations_.open.erase(equations_.open.begin() + static_cast<std::ptrdiff_t>(i));
    return e;
  }

  /// Eliminates one unknown, or an equation without any.
  void step() {
    std::vector<Equation>& open = equations_.open;
    for (size_t i = 0; i < open.size(); ++i) {
      if (open[i].terms.empty()) return add_condition(take(i).rhs == Expr(0));
      if (open[i].terms.size() == 1 && std::abs(open[i].terms.begin()->second) == 1)
        return eliminate(i, open[i].terms.begin()->first);
    }
    for (size_t i = 0; i < open.size(); ++i)
      if (const int u = radix_of(open[i]); u >= 0) return split_digits(i, u);
    size_t fewest = 0;
    for (size_t i = 1; i < open.size(); ++i)
      if (open[i].terms.size() < open[fewest].terms.size()) fewest = i;
    sum_over(fewest);
  }

  void add_condition(const Expr& c) { result_.conditions.push_back(c); }

  /// a u + rest == rhs with a = 1 or -1.
  void eliminate(size_t i, int u) {
    const Equation e = take(i);
    const int64_t a = e.terms.at(u);
    Terms rest;
    for (const auto& [v, c] : e.terms)
      if (v != u) rest[v] = -c * a;
    equations_.solve(u, simplify(e.rhs * a), rest);
  }

  /// The unknown whose coefficient exceeds the span of all others together; -1 where there is none.
  int radix_of(const Equation& e) {
    if (e.terms.size() < 2) return -1;
    int largest = e.terms.begin()->first;
    for (const auto& [u, c] : e.terms)
      if (std::abs(c) > std::abs(e.terms.at(largest))) largest = u;
    int64_t span = 0;
    for (const auto& [u, c] : e.terms)
      if (u != largest) span += std::abs(c) * (unknown(u).hi - unknown(u).lo);
    return span < std::abs(e.terms.at(largest)) ? largest : -1;
  }

  void split_digits(size_t i, int u) {
    Equation& e = equations_.open[i];
    if (e.terms.at(u) < 0) negate(&e);
    const int64_t a = e.terms.at(u);
    int64_t lo = 0;
    for (const auto& [v, c] : e.terms)
      if (v != u) lo += c > 0 ? c * unknown(v).lo : c * unknown(v).hi;
    const Expr rhs = e.rhs;
    const Expr digit = simplify(floordiv(rhs - lo, a), ranges_);
    e.terms.erase(u);
    e.rhs = simplify(floormod(rhs - lo, a) + lo, ranges_);
    equations_.solve(u, digit);
  }

  static void negate(Equation* e) {
    for (auto& term : e->terms) term.second = -term.second;
    e->rhs = simplify(-e->rhs);
  }

  /// Solves an equation of which several unknowns may remain to be summed over.
  void sum_over(size_t i) {
    divide_by_gcd(i);
    Equation& e = equations_.open[i];
    if (e.terms.size() == 1) return eliminate(i, e.terms.begin()->first);
    int64_t all = 1;
    for (const auto& term : e.terms) all *= unknown(term.first).count();
    // The unknown with coefficient 1 that has the most values saves the most.
    int best = -1;
    for (const auto& [u, c] : e.terms)
      if (std::abs(c) == 1 && (best < 0 || unknown(u).count() > unknown(best).count())) best = u;
    const int64_t plain = best < 0 ? all : all / unknown(best).count();
    if (e.terms.size() == 2) {
      const int a = e.terms.begin()->first, b = std::next(e.terms.begin())->first;
      const int64_t by_a = steps_of(e, a, b), by_b = steps_of(e, b, a);
      if (std::min(by_a, by_b) < plain || best < 0)
        return by_a <= by_b ? sum_over_steps(i, a, b) : sum_over_steps(i, b, a);
    }
    if (best >= 0) return eliminate(i, best);
    divide_rest(i);
  }

  /// How many m there are in r = t + s m, if u with coefficient s is eliminated.
  int64_t steps_of(const Equation& e, int u, int r) {
    const int64_t s = std::abs(e.terms.at(u));
    return s == 1 ? unknown(r).count() : ceil_div(unknown(r).count(), s);
  }

  /// No coefficient is 1, and there are many unknowns: all but one are summed over.
  void divide_rest(size_t i) {
    Equation& e = equations_.open[i];
    if (e.terms.begin()->second < 0) negate(&e);
    const auto [u, a] = *e.terms.begin();
    while (e.terms.size() > 1) equations_.keep(std::next(e.terms.begin())->first);
    const Expr rest = take(i).rhs;
    add_condition(floormod(rest, a) == Expr(0));
    equations_.solve(u, floordiv(rest, a));
  }

  /// The position that is all that is known of `rhs`, as position + constant: its place among the
  /// positions, or -1. It must not occur elsewhere.
  int only_position(const Equation& e, int64_t* sign, int64_t* constant) {
    const std::optional<Affine> rhs = as_affine(e.rhs);
    if (!rhs || rhs->terms.size() != 1 || std::abs(rhs->terms[0].coefficient) != 1) return -1;
    const Var& v = rhs->terms[0].var;
    int found = -1;
    for (size_t p = 0; p < result_.positions.size(); ++p)
      if (result_.positions[p].var.same_as(v)) found = static_cast<int>(p);
    if (found < 0 || !as_int(result_.positions[static_cast<size_t>(found)].extent)) return -1;
    for (const Equation& other : equations_.open)
      if (&other != &e && uses_var(other.rhs, v)) return -1;
    for (const Unknown& u : equations_.unknowns)
      if (u.value.defined() && uses_var(u.value, v)) return -1;
    for (const Expr& c : result_.conditions)
      if (uses_var(c, v)) return -1;
    *sign = rhs->terms[0].coefficient;
    *constant = rhs->constant;
    return found;
  }

  /// A new position with values lo to hi, that lies at `place` (in terms of the position that it
  /// replaces); returns its value.
  Expr add_position(std::vector<Position>* to, const char* name, int64_t lo, int64_t hi,
                    const Expr& place) {
    const Var v(name);
    to->push_back({v, Expr(hi - lo + 1), simplify(place - lo, ranges_)});
    ranges_.set(v, {0, hi - lo});
    return Expr(v) + lo;
  }

  void replace_position(int at, const std::vector<Position>& by) {
    std::vector<Position>& all = result_.positions;
    const Position old = all[static_cast<size_t>(at)];
    all.erase(all.begin() + at);
    for (size_t n = 0; n < by.size(); ++n) {
      Position p = by[n];
      p.place = substitute(p.place, {{old.var, old.place}});
      if (p.place_in_phase.defined())
        p.place_in_phase = substitute(p.place_in_phase, {{old.var, old.place}});
      all.insert(all.begin() + at + static_cast<std::ptrdiff_t>(n), p);
    }
    result_.split = true;
  }

  void require(int at, const Expr& condition) {
    const Position& p = result_.positions[static_cast<size_t>(at)];
    result_.exists.push_back(substitute(condition, {{p.var, p.place}}));
  }

  void divide_by_gcd(size_t i) {
    Equation& e = equations_.open[i];
    int64_t g = 0;
    for (const auto& term : e.terms) g = std::gcd(g, std::abs(term.second));
    if (g == 1) return;
    if (e.terms.begin()->second < 0) negate(&e);
    for (auto& term : e.terms) term.second /= g;
    const Expr divides = floormod(e.rhs, g) == Expr(0), quotient = floordiv(e.rhs, g);
    int64_t sign = 0, constant = 0;
    const int at = only_position(e, &sign, &constant);
    if (at < 0) {
      add_condition(divides);
      e.rhs = simplify(quotient, ranges_);
      return;
    }
    require(at, divides);
    const Interval range = range_of(quotient, ranges_);
    std::vector<Position> by;
    e.rhs = add_position(&by, "x", range.min, range.max, quotient);
    replace_position(at, by);
  }

  /// s u + d r == rhs with gcd(s, d) = 1: r = t + s m, u = (rhs - d t) / s - d m.
  void sum_over_steps(size_t i, int u, int r) {
    Equation e = equations_.open[i];
    if (e.terms.at(u) < 0) negate(&e);
    const int64_t s = e.terms.at(u), d = e.terms.at(r), first = unknown(r).lo;
    const int64_t inverse = s == 1 ? 0 : inverse_modulo(((d % s) + s) % s, s);
    const Expr rhs = simplify(e.rhs - d * first);
    equations_.open[i].rhs = rhs;
    Expr t = floormod(rhs * inverse, s), q;
    if (inverse == 1)
      q = floordiv(rhs, s) - t * ((d - 1) / s);  // d is 1 + a multiple of s, and so is rhs - t
    else
      q = floordiv(rhs - t * d, s);
    int64_t sign = 0, constant = 0;
    if (const int at = only_position(equations_.open[i], &sign, &constant); at >= 0 && s > 1) {
      // The phase t and the quotient q become positions of their own.
      const int64_t phases = std::min(s, unknown(r).count());
      if (phases < s) require(at, t < Expr(phases));
      const Interval known = range_of(rhs, ranges_), range = quotients_of(known, s, d, inverse);
      std::vector<Position> by;
      const Expr exact = add_position(&by, "q", range.min, range.max, q);
      by.back().place_in_phase = floordiv(simplify(rhs - known.min), s);
      const Expr phase = phases == 1 ? Expr(0) : add_position(&by, "t", 0, phases - 1, t);
      if (phases > 1) by.back().phase = true;
      replace_position(at, by);
      result_.elements.push_back(
          {exact * s + phase * d - known.min, Expr(known.max - known.min + 1)});
      q = exact;
      t = phase;
    }
    take(i);
    const int64_t steps = ceil_div(unknown(r).count(), s);
    std::map<int, int64_t> by_r, by_u;
    if (steps > 1) {
      const int m = equations_.add_unknown("m", 0, steps - 1, Expr(steps));
      by_r[m] = s;
      by_u[m] = -d;
    }
    equations_.solve(r, simplify(t + first), by_r);
    equations_.solve(u, simplify(q), by_u);
  }

  /// The least and the largest q = (rhs - d t) / s, where t = inverse * rhs modulo s.
  static Interval quotients_of(Interval rhs, int64_t s, int64_t d, int64_t inverse) {
    Interval q{Interval::kPosInf, Interval::kNegInf};
    const auto take = [&](int64_t v) {
      const int64_t t = ((v * inverse) % s + s) % s, exact = (v - d * t) / s;
      q = {std::min(q.min, exact), std::max(q.max, exact)};
    };
    // Within a period of s, all phases occur; q grows by 1 from one period to the next.
    for (int64_t v = rhs.min; v <= std::min(rhs.max, rhs.min + s - 1); ++v) take(v);
    for (int64_t v = rhs.max; v >= std::max(rhs.min, rhs.max - s + 1); --v) take(v);
    return q;
  }

  /// What is left is summed over, and every value is written in terms of positions and loops.
  Inverse finish() {
    std::vector<VarBinding> loops;
    for (Unknown& u : equations_.unknowns) {
      if (u.value.defined()) continue;
      const Var v(u.var->name);
      ranges_.set(v, {0, u.hi - u.lo});
      result_.loops.push_back({v, u.extent.defined() ? u.extent : Expr(u.count())});
      loops.push_back({u.var, Expr(v) + u.lo});
    }
    const auto known = [&](Expr e) {
      // A value may be in terms of unknowns that were solved later.
      for (size_t round = 0; round <= equations_.unknowns.size(); ++round) {
        std::vector<VarBinding> solved;
        for (const Unknown& u : equations_.unknowns)
          if (u.value.defined() && uses_var(e, u.var)) solved.push_back({u.var, u.value});
        if (solved.empty()) break;
        e = substitute(e, solved);
      }
      return simplify(substitute(e, loops), ranges_);
    };
    for (size_t n = 0; n < equations_.unknowns.size(); ++n) {
      const Unknown& u = equations_.unknowns[n];
      const Expr value = known(u.value.defined() ? u.value : Expr(u.var));
      if (n < num_axes_) result_.points.push_back({u.var, value});
      if (u.value.defined() && u.extent.defined()) result_.bounds.push_back({value, u.extent});
    }
    for (Expr& c : result_.conditions) c = known(c);
    return std::move(result_);
  }

  Equations equations_;
  size_t num_axes_;
  Ranges ranges_;
  Inverse result_;
};

}  // namespace

Ranges ranges_of(const std::vector<Axis>& axes) {
  Ranges ranges;
  for (const Axis& a : axes) ranges.set(a.var(), {0, a.largest_extent() - 1});
  return ranges;
}

Inverse invert(const Shape& shape, const std::vector<Expr>& indices, const std::vector<Axis>& axes,
               const std::vector<Interval>& region) {
  const Ranges ranges = ranges_of(axes);
  std::vector<Expr> simple;
  for (const Expr& e : indices) simple.push_back(simplify(e, ranges));
  return Inverter(shape, simple, axes, region).run();
}

}  // namespace heddle::autodiff
