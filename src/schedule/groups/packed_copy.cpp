#include "schedule/groups/packed_copy.h"

#include <algorithm>

#include "heddle/target/narrow_strips.h"

namespace heddle {
namespace {

/// The elements between what neighbours along `axis` read of a tensor; 0 where that is not known.
int64_t step_of(const Access& a, const Var& axis) {
  int64_t step = 0, inner = 1;
  if (std::ssize(a.affine) != a.tensor.rank()) return 0;
  for (size_t d = a.affine.size(); d-- > 0;) {
    const int64_t* extent = as_int(a.tensor.shape()[d]);
    if (!a.affine[d] || (!extent && d > 0)) return 0;
    step += a.affine[d]->coefficient(axis) * inner;
    if (extent) inner *= *extent;
  }
  return step;
}

/// Whether `c` is a product of one row with the matrix `s`.
bool sums_narrow_strips(const ComputeDag& dag, int c, int s, const Target& target) {
  const Operation& product = dag.stage(c);
  const Tensor matrix = dag.stage(s).output(0);
  if (product.axes().empty() || dag.info(c).points != product.axes().back().largest_extent())
    return false;
  const int64_t row = product.axes().back().largest_extent() * matrix.dtype().bytes();
  return has_narrow_strips(row, matrix.size() * matrix.dtype().bytes(), target);
}

}  // namespace

bool brings_together(const ComputeDag& dag, int s, const Target& target) {
  const std::vector<Access>& copied = dag.info(s).reads;
  if (copied.size() != 1) return false;
  const std::vector<Axis>& axes = dag.stage(s).axes();
  return std::ranges::any_of(dag.info(s).consumers, [&](int c) {
    const Operation& op = dag.stage(c);
    const std::vector<Access>& reads = dag.info(c).reads;
    const auto of_copy = std::ranges::count(reads, s, &Access::producer);
    const bool packs = dag.info(c).stage_class == StageClass::ComplexReduction && of_copy == 1 &&
                       !sums_narrow_strips(dag, c, s, target);
    if (packs || op.reduce_axes().empty()) return false;
    const Var along = op.reduce_axes().back().var();
    return std::ranges::any_of(reads, [&](const Access& a) {
      const int64_t near = a.producer == s ? step_of(a, along) : 0;
      int64_t far = 0;
      for (size_t d = 0; d < axes.size() && near > 0; ++d)
        far += a.affine[d]->coefficient(along) * step_of(copied[0], axes[d].var());
      return far > near;
    });
  });
}

}  // namespace heddle
