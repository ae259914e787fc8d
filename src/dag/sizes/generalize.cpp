#include "heddle/dag/generalize.h"

#include "dag/sizes/generalizer.h"
#include "heddle/support/error.h"

namespace heddle {

Generalized dag::generalize_over(const ScaledVar& n,
                                 const std::function<std::vector<Tensor>(int64_t)>& declare,
                                 const std::function<std::string(const Operation&)>& describe) {
  const SizeRange& range = *n.variable->size;
  const int64_t step = n.multiple, smallest = range.lo * step, largest = range.hi * step;
  int64_t large = largest, next = largest - step;
  // An axis of one element has only the index 0. The two sizes are therefore larger.
  if (next == 1) next = large, large += step;
  // Numbers are lines over the variable: half of a multiple of 32 is 16 for each unit.
  AtSize at_large{large / step, declare(large)};
  GeneralizeOptions options{.describe = describe, .multiple = step};
  const Instance family =
      generalized(n.variable.expr(), at_large, {next / step, declare(next)}, options);
  if (describe) {
    options.describe = [&](const Operation& op) -> std::string {
      for (const auto& [at_largest, over_n] : family.tensors) {
        if (over_n.op() == &op) return describe(*at_largest.op());
      }
      return "";
    };
  }
  // A declaration whose structure differs at small sizes only is found by comparing these sizes.
  const int64_t middle = smallest + (range.hi - range.lo) / 2 * step;
  for (const int64_t s : {smallest, middle}) {
    if (s == large || s == next) continue;
    check_at_size({n.variable, s / step}, family.outputs, declare(s), options);
  }
  return {family.outputs, family.tensors, std::move(at_large.outputs)};
}

Generalized generalize(const Dim& n, const std::function<std::vector<Tensor>(int64_t)>& declare,
                       const std::function<std::string(const Operation&)>& describe) {
  if (n.lo() == n.hi())
    throw_user_error("dimension '" + n.name() + "' has one size only, " + std::to_string(n.hi()),
                     {}, "declare it with that number");
  return dag::generalize_over({n.variable(), n.multiple()}, declare, describe);
}

}  // namespace heddle
