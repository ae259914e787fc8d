#include "dag/patterns/plain_dimension.h"

#include <algorithm>

#include "ir/fold.h"
#include "ir/linear.h"

namespace heddle::dag {

namespace {

/// Whether what `f` adds to `axis` is a multiple of its extent, the same for all of `tile`.
bool begins_at_whole(const Affine& f, const Axis& axis, std::span<const Axis> tile) {
  const int64_t extent = axis.extent();
  return f.constant % extent == 0 &&
         std::ranges::all_of(f.terms,
                             [&](const Affine::Term& term) {
                               return term.var.same_as(axis.var()) ||
                                      term.coefficient % extent == 0;
                             }) &&
         std::ranges::none_of(
             tile, [&](const Axis& a) { return !a.same_as(axis) && f.coefficient(a.var()) != 0; });
}

/// The dimension that `axis` indexes by steps of 1, where `fits` says so of its index; -1 where another
/// one depends on it.
template <typename Fits>
int dimension_of(const Access& operand, const Axis& axis, const Fits& fits) {
  int found = -1;
  for (std::size_t d = 0; d < operand.affine.size(); ++d) {
    if (!operand.affine[d]) {
      if (uses_var(operand.indices[d], axis.var())) return -1;
      continue;
    }
    const Affine& f = *operand.affine[d];
    if (f.coefficient(axis.var()) == 0) continue;
    if (found >= 0 || f.coefficient(axis.var()) != 1 || !fits(f)) return -1;
    found = static_cast<int>(d);
  }
  return found;
}

}  // namespace

int plain_dimension(const Access& operand, const Axis& axis) {
  return dimension_of(operand, axis,
                      [](const Affine& f) { return f.terms.size() == 1 && f.constant == 0; });
}

int plain_dimension(const Access& operand, const Axis& axis, std::span<const Axis> tile) {
  return dimension_of(operand, axis,
                      [&](const Affine& f) { return begins_at_whole(f, axis, tile); });
}

bool lies_along(const Access& operand, const Axis& axis) {
  return plain_dimension(operand, axis) + 1 == static_cast<int>(operand.indices.size());
}

}  // namespace heddle::dag
