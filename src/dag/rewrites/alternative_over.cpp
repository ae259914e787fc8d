#include <optional>
#include <utility>

#include "dag/sizes/generalizer.h"
#include "heddle/dag/alternatives.h"

namespace heddle::dag {

ComputeDag alternative_over(const ComputeDag& dag, const Var& n, const std::string& name) {
  // The first call is for the largest size, whose tensors `made` knows.
  std::optional<Instance> at_largest;
  std::optional<ComputeDag> largest;
  const Generalized made = generalize_over({n}, [&](int64_t size) {
    const Instance at = at_sizes(dag.outputs(), {{n, size}});
    const ComputeDag rewritten = apply_alternative(ComputeDag(at.outputs), name);
    if (!largest) at_largest = at, largest = rewritten;
    return rewritten.outputs();
  });
  const Instance over_n{{}, made.tensors};
  std::vector<std::pair<Tensor, Tensor>> placeholders;
  for (const Tensor& t : dag.placeholders())
    placeholders.emplace_back(t, over_n.of(largest->counterpart(at_largest->of(t))));
  return ComputeDag(made.outputs).as_alternative(name, dag, std::move(placeholders));
}

}  // namespace heddle::dag
