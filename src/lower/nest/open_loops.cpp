#include "lower/nest/open_loops.h"

#include <algorithm>

#include "ir/linear.h"
#include "ir/sizes.h"

namespace heddle::lowering {

void OpenLoops::open(const Var& v, const Expr& extent, const Expr& most) {
  imagine(v, extent);
  if (!sizes_in(most).empty()) end_at(v, most - Expr(1));
  if (!equal(extent, most) && !sizes_in(extent).empty())
    lasts_.push_back({v, extent - Expr(1), true});
}

void OpenLoops::imagine(const Var& v, const Expr& extent) {
  narrow(v, {0, std::max<int64_t>(0, range_of(extent, ranges_).max - 1)});
}

void OpenLoops::narrow(const Var& v, Interval range) {
  const bool known = ranges_.known(v.get());
  changed_.emplace_back(v, known ? std::optional(ranges_.get(v.get())) : std::nullopt);
  ranges_.set(v, range);
}

OpenLoops::Scope::~Scope() {
  for (auto& changed = of_.changed_; changed.size() > changed_; changed.pop_back()) {
    const auto& [v, before] = changed.back();
    if (before) {
      of_.ranges_.set(v, *before);
    } else {
      of_.ranges_.erase(v);
    }
  }
  of_.lasts_.resize(lasts_);
}

bool OpenLoops::at_most(const Expr& a, const Expr& b) const {
  if (proves(a <= b)) return true;
  return !lasts_.empty() && (at_most_at_ends(a, b, true) || at_most_at_ends(a, b, false));
}

bool OpenLoops::at_most_at_ends(const Expr& a, const Expr& b, bool own) const {
  // The difference is smallest where each loop is at its first or last iteration. There, sizes
  // cancel.
  Expr room = simple(b - a);
  for (size_t i = lasts_.size(); i-- > 0;) {
    const auto& [v, last, of_loop] = lasts_[i];
    if ((of_loop && !own) || !uses_var(room, v)) continue;
    const Linear sum = canonical_linear(room);
    const bool elsewhere = std::ranges::any_of(sum.terms, [&](const LinearTerm& t) {
      return !equal(t.expr, v.expr()) && uses_var(t.expr, v);
    });
    if (sum.overflow || elsewhere) return false;
    room = simple(substitute(room, {{v, sum.coefficient(v.expr()) < 0 ? last : Expr(0)}}));
  }
  return range_of(room, ranges_).min >= 0;
}

}  // namespace heddle::lowering
