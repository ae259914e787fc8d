#include "dag/patterns/plain_dimension.h"

#include "ir/fold.h"
#include "ir/linear.h"

namespace heddle::dag {

int plain_dimension(const Access& operand, const Axis& axis) {
  int found = -1;
  for (std::size_t d = 0; d < operand.affine.size(); ++d) {
    if (!operand.affine[d]) {
      if (uses_var(operand.indices[d], axis.var())) return -1;
      continue;
    }
    const Affine& f = *operand.affine[d];
    if (f.coefficient(axis.var()) == 0) continue;
    if (found >= 0 || f.terms.size() != 1 || f.coefficient(axis.var()) != 1 || f.constant != 0)
      return -1;
    found = static_cast<int>(d);
  }
  return found;
}

bool lies_along(const Access& operand, const Axis& axis) {
  return plain_dimension(operand, axis) + 1 == static_cast<int>(operand.indices.size());
}

}  // namespace heddle::dag
