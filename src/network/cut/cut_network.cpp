#include "network/cut/cut_network.h"

#include <algorithm>

#include "heddle/schedule/template.h"
#include "network/cut/family_graph.h"
#include "network/passes/graph_pass.h"
#include "schedule/image_chain.h"

namespace heddle::network {
namespace {

constexpr double kClock = 3e9;          // cycles a second of a CPU
constexpr double kBytesPerCycle = 8;    // of one core, from a cache that others share
constexpr double kStartSeconds = 2e-6;  // starting the threads of a node, or a kernel
// What matrix units do of two-byte elements more than other units do of floats.
constexpr double kMatrixUnits = 8;

double bytes_of(const std::vector<Tensor>& tensors) {
  double bytes = 0;
  for (const Tensor& t : tensors) bytes += static_cast<double>(t.size() * t.dtype().bytes());
  return bytes;
}

double flops_per_second(const Target& target, int element_bytes) {
  const Gpu& gpu = target.gpu;
  if (target.is_cuda())
    return 2e6 * gpu.sms * gpu.f32_lanes * gpu.clock_mhz * (element_bytes <= 2 ? kMatrixUnits : 1);
  return 2.0 * target.fma_units * target.vector_lanes(element_bytes) * kClock *
         std::max(1, target.cores);
}

double bytes_per_second(const Target& target) {
  if (target.is_cuda()) return target.gpu.bandwidth_gbs * 1e9;
  return kBytesPerCycle * kClock * std::max(1, target.cores);
}

/// The arithmetic that is done again where blocks of rows of a pointwise convolution meet (three
/// convolutions in one node): the rows that the windows of two blocks read in common. Blocks of
/// channels share nothing.
double flops_done_again(const ComputeDag& dag, const Target& target) {
  constexpr int64_t kShareOfL2 = 4;  // of the images of a block
  double flops = 0;
  for (const StageGroup& g : plan_groups(dag, &target)) {
    if (g.images.size() != 2) continue;
    const auto [first, second] = std::minmax(g.images[0].product, g.images[1].product);
    const ImageRead read = image_read(dag, second);
    const auto rows = static_cast<double>(dag.stage(second).axes()[1].extent());
    double row_bytes = 0;
    for (const StageGroup::Part& part : g.images)
      row_bytes += static_cast<double>(dag.info(part.last).points) / rows * 4;
    const double block =
        std::clamp(static_cast<double>(target.l2_bytes / kShareOfL2) / row_bytes, 1.0, rows);
    const auto shared = static_cast<double>(std::max<int64_t>(0, read.window - read.stride));
    flops += dag.info(first).flops * (rows / block - 1) * shared /
             static_cast<double>(read.stride * rows);
  }
  return flops;
}

CutNetwork over_sizes(const ComputeDag& declared, const Target& target, const PassOptions& passes) {
  std::vector<PassApplication> changes;
  FamilyGraph graph = family_graph(declared, target, passes, changes);
  const ComputeDag decide(at_sizes(graph.dag.outputs(), graph.usual).outputs);
  ChoiceList usual_ones{PassOptions()};
  std::vector<ExtractedNode> nodes = extract_nodes(graph.dag, decide, target, {}, usual_ones);
  return {ChoiceList(passes), std::move(changes), std::move(graph.usual), std::move(graph.dag), {},
          std::move(nodes)};
}

}  // namespace

CutNetwork cut_network(const ComputeDag& declared, const Target& target,
                       const PassOptions& passes) {
  if (!sizes_of(declared.outputs()).empty()) return over_sizes(declared, target, passes);
  ChoiceList choices(passes);
  std::vector<PassApplication> changes;
  ComputeDag dag = run_passes(declared, target, passes, choices, changes);
  InPlacePlan in_place;
  if (passes.concat_in_place) in_place = plan_concats(dag);
  if (!in_place.wholes.empty()) {
    changes.push_back({"concat_in_place", "the parts of " + std::to_string(in_place.wholes.size()) +
                                              " concats are written in place"});
  }
  std::vector<ExtractedNode> nodes = extract_nodes(dag, dag, target, in_place, choices);
  return {std::move(choices), std::move(changes),         {},
          std::move(dag),     std::move(in_place.places), std::move(nodes)};
}

std::vector<uint64_t> node_hashes(const CutNetwork& network) {
  std::vector<uint64_t> hashes;
  for (const ExtractedNode& node : network.nodes)
    hashes.push_back(ComputeDag(node.task_outputs).structural_hash());
  return hashes;
}

double estimated_seconds(const CutNetwork& network, const Target& target) {
  double seconds = 0;
  for (const ExtractedNode& node : network.nodes) {
    const ComputeDag dag(node.task_outputs);
    double busy = flops_done_again(dag, target) / flops_per_second(target, 4);  // images of f32
    for (int s = 0; s < dag.size(); ++s) {
      if (dag.stage(s).is_placeholder() || dag.info(s).precomputable) continue;
      const int element = dag.stage(s).output(0).dtype().bytes();
      busy += dag.info(s).flops / flops_per_second(target, element);
    }
    const double bytes = bytes_of(node.task_inputs) + bytes_of(node.task_outputs);
    seconds += kStartSeconds + std::max(busy, bytes / bytes_per_second(target));
  }
  return seconds;
}

}  // namespace heddle::network
