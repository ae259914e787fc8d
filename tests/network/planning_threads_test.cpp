// Tasks are planned on all threads, and the plan does not depend on their number.
#include "heddle/runtime/thread_pool.h"
#include "heddle/schedule/meta_template.h"
#include "heddle/support/json.h"
#include "network/cut/kernel_records.h"
#include "network/drawn_networks.h"

namespace heddle::testing {
namespace {

/// The nodes and tasks of a network, and the schedules of all its kernels, as text. Nothing is taken
/// from the cache of templates, so that the threads do all of the work.
std::string planned_by(int threads, const std::vector<Tensor>& outputs, const Target& target) {
  clear_template_cache();
  const ScopedThreads scope(threads);
  const Network network(outputs, target);
  std::string text = network.to_text();
  for (const TuneTask& task : network.tasks()) text += task.name + "\n";
  for (const network::TaskVariants& variants : network::usual_variants(network)) {
    for (const Schedule& s : variants.schedules) text += s.to_json().dump() + "\n" + s.provenance;
    for (const TreeNode& n : variants.tree)
      text += std::to_string(n.feature) + "," + std::to_string(n.yes) + "," + std::to_string(n.no);
  }
  return text;
}

std::string depends_on_threads(const std::vector<Tensor>& outputs, const Target& target) {
  const std::string one = planned_by(1, outputs, target), four = planned_by(4, outputs, target);
  return one == four ? "" : "one thread plans\n" + one + "\nfour threads plan\n" + four;
}

TEST(PlanningThreads, TheirNumberDoesNotChangeAPlan) {
  expect_nothing_wrong({}, depends_on_threads);
}

TEST(PlanningThreads, TheirNumberDoesNotChangeAPlanOverARange) {
  for (const char* name : {"llvm -mcpu=emeraldrapids", "cuda -gpu=h100"}) {
    const Dim rows = dim("rows", 1, 200);
    Tensor x = placeholder({rows, 48}, f32, "x");
    int64_t inner = 48;
    for (const int64_t columns : {64, 40, 96, 16}) {  // each layer is a task of its own
      const Tensor from = x, w = constant_placeholder({inner, columns}, f32, "weights");
      const Axis k = reduce_axis(inner, "k");
      const Tensor sums = compute(
          {rows, columns}, [&](Axis i, Axis j) { return sum(from(i, k) * w(k, j), k); }, "sums");
      x = compute({rows, columns}, [&](Axis i, Axis j) { return max(sums(i, j), 0.f); }, "layer");
      inner = columns;
    }
    EXPECT_EQ(depends_on_threads({x}, Target::parse(name)), "") << name;
  }
}

}  // namespace
}  // namespace heddle::testing
