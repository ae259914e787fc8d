#include "lower/nest/open_loops.h"

#include <algorithm>

#include "ir/sizes.h"

namespace heddle::lowering {

void OpenLoops::open(const Var& v, const Expr& extent) {
  imagine(v, extent);
  if (!sizes_in(extent).empty()) end_at(v, extent - Expr(1));
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
  if (lasts_.empty()) return false;
  // The difference is smallest where each loop is at its first or last iteration. There, sizes
  // cancel.
  Expr room = simple(b - a);
  for (size_t i = lasts_.size(); i-- > 0;) {
    const auto& [v, last] = lasts_[i];
    if (!uses_var(room, v)) continue;
    const std::optional<Affine> affine = as_affine(room);
    if (!affine) return false;
    room = simple(substitute(room, {{v, affine->coefficient(v) < 0 ? last : Expr(0)}}));
  }
  return range_of(room, ranges_).min >= 0;
}

}  // namespace heddle::lowering
