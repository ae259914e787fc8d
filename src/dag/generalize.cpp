#include "heddle/dag/generalize.h"

#include "dag/generalizer.h"
#include "heddle/support/error.h"

namespace heddle {

Generalized generalize(const Dim& n, const std::function<std::vector<Tensor>(int64_t)>& declare,
                       const std::function<std::string(const Operation&)>& describe) {
  if (n.lo() == n.hi())
    throw_user_error("dimension '" + n.name() + "' has one size only, " + std::to_string(n.hi()),
                     {}, "declare it with that number");
  int64_t large = n.hi(), next = n.hi() - n.multiple();
  // An axis of one element has only the index 0. The two sizes are therefore larger.
  if (next == 1) next = large, large += n.multiple();
  dag::AtSize at_large{large, declare(large)};
  dag::GeneralizeOptions options{.describe = describe};
  const Instance family = dag::generalized(n, at_large, {next, declare(next)}, options);
  if (describe) {
    options.describe = [&](const Operation& op) -> std::string {
      for (const auto& [largest, over_n] : family.tensors) {
        if (over_n.op() == &op) return describe(*largest.op());
      }
      return "";
    };
  }
  // A declaration whose structure differs at small sizes only is found by comparing these sizes.
  const int64_t middle = n.lo() + (n.hi() - n.lo()) / n.multiple() / 2 * n.multiple();
  for (const int64_t size : {n.lo(), middle}) {
    if (size == large || size == next) continue;
    dag::check_at_size({n, size}, family.outputs, declare(size), options);
  }
  return {family.outputs, family.tensors, std::move(at_large.outputs)};
}

}  // namespace heddle
