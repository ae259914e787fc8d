#include "driver/family_alternative.h"

#include <optional>
#include <utility>

#include "heddle/dag/alternatives.h"
#include "heddle/dag/generalize.h"
#include "heddle/dag/instance.h"

namespace heddle::family {

ComputeDag alternative_over(const Dim& n, const std::vector<Tensor>& outputs,
                            const std::string& name) {
  // The first call is for the largest size, whose tensors `made` knows.
  std::optional<Instance> at_largest;
  std::optional<ComputeDag> largest;
  const Generalized made = generalize(n, [&](int64_t size) {
    const Instance at = at_sizes(outputs, {{n, size}});
    const ComputeDag dag = apply_alternative(ComputeDag(at.outputs), name);
    if (!largest) at_largest = at, largest = dag;
    return dag.outputs();
  });
  const ComputeDag direct(outputs);
  const Instance over_n{{}, made.tensors};
  std::vector<std::pair<Tensor, Tensor>> placeholders;
  for (const Tensor& t : direct.placeholders())
    placeholders.emplace_back(t, over_n.of(largest->counterpart(at_largest->of(t))));
  return ComputeDag(made.outputs).as_alternative(name, direct, std::move(placeholders));
}

}  // namespace heddle::family
