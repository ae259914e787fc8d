// No stage of a network is computed again and again: in all nodes together, and within each node by
// its static schedule, elements are computed at most twice, unless that costs less than storing
// them.
#include "schedule/groups/recomputation.h"
#include "network/cut/cut_network.h"
#include "network/drawn_networks.h"
#include "schedule/times_computed.h"

namespace heddle::testing {
namespace {

/// How often the elements of each stage of the network are computed in a call.
std::vector<double> times_in_call(const network::CutNetwork& cut, const Target& target) {
  std::vector<double> times(static_cast<size_t>(cut.dag.size()));
  for (const network::ExtractedNode& node : cut.nodes) {
    const Schedule s = create_schedule(node.task_outputs, target, {.use_records = false});
    // An alternative computes other stages.
    const bool declared = s.dag().alternative().empty();
    const std::vector<double> here = declared ? times_computed(s) : std::vector<double>{};
    for (size_t i = 0; i < node.stages.size(); ++i) {
      const int own = declared ? s.dag().index_of(node.operations[i]) : -1;
      times[static_cast<size_t>(node.stages[i])] += own < 0 ? 1 : here[static_cast<size_t>(own)];
    }
  }
  return times;
}

/// The stages that are computed more than twice where storing them would cost less; empty where
/// there are none.
std::string wasteful_stages(const std::vector<Tensor>& outputs, const Target& target) {
  const network::CutNetwork cut = network::cut_network(ComputeDag(outputs), target, {});
  const std::vector<double> times = times_in_call(cut, target);
  std::string text;
  for (int s = 0; s < cut.dag.size(); ++s) {
    const StageInfo& info = cut.dag.info(s);
    if (info.precomputable || info.flops_per_point == 0) continue;
    const double n = times[static_cast<size_t>(s)];
    const Recomputation again = recomputation(cut.dag, s, n, rates_of(target));
    if (again.pays()) continue;
    text += cut.dag.stage(s).name() + " is computed " + std::to_string(n) + " times, which takes " +
            std::to_string(again.again_seconds * 1e6) + " us more and would take " +
            std::to_string(again.store_seconds * 1e6) + " us to store\n";
  }
  return text;
}

class BoundedRecomputation : public ::testing::TestWithParam<DataType> {};

TEST_P(BoundedRecomputation, OfDrawnNetworksIsBounded) {
  expect_nothing_wrong({.type = GetParam()}, wasteful_stages);
}

INSTANTIATE_TEST_SUITE_P(Types, BoundedRecomputation, ::testing::Values(f32, f16),
                         [](const auto& info) { return to_string(info.param); });

}  // namespace
}  // namespace heddle::testing
