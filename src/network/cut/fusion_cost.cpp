#include "network/cut/fusion_cost.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "heddle/dag/operations.h"
#include "heddle/schedule/template.h"
#include "network/cut/plan_fusion.h"
#include "schedule/groups/image_chain.h"
#include "schedule/groups/recomputation.h"

namespace heddle::network {
namespace {

/// Adds up the nodes of a plan that the outputs need, from the last one backwards.
class Sum {
 public:
  Sum(const FusionPlan& plan, const Target& target)
      : plan_(plan), dag_(plan.dag()), target_(target), rates_(rates_of(target)) {
    for (const Tensor& t : dag_.outputs()) wanted_.insert({dag_.index_of(t.op()), t.index()});
  }

  PlanCost run() {
    for (int end = dag_.size() - 1; end >= 0; --end) {
      const auto first = wanted_.lower_bound({end, 0});
      if (!plan_.stored(end) || first == wanted_.end() || first->first != end) continue;
      if (plan_.at(end) == Place::Whole) {
        for (const Access& a : dag_.info(end).reads) want(a);
      } else {
        add_node(end);
      }
    }
    std::reverse(nodes_.begin(), nodes_.end());
    time_nodes();
    return sum_;
  }

 private:
  using Result = std::pair<int, int>;  ///< a stage, and which of its results

  /// What a node computes, and what it moves between the memory and the processor.
  struct Node {
    double busy = 0;           ///< seconds of arithmetic
    double bytes = 0;          ///< of all that follow
    std::set<Result> touched;  ///< results that it reads or writes
  };

  void add_node(int end) {
    const std::vector<int> stages = plan_.stages_of_node(end);
    Node node;
    for (const int s : stages) {
      for (const Access& a : dag_.info(s).reads) {
        if (plan_.read_from_memory(a.producer)) read(a, node);
      }
    }
    for (auto out = wanted_.lower_bound({end, 0}); out != wanted_.end() && out->first == end; ++out)
      node.touched.insert(*out);
    for (const Result& r : node.touched) node.bytes += bytes_of(r);
    const double again = flops_done_again(stages);
    node.busy = again / rates_.flops;  // images of f32
    std::map<int, double> times;       // that stages are computed, by stage
    sum_.flops += again;
    for (const int s : stages) {
      if (dag_.info(s).precomputable) continue;
      sum_.flops += dag_.info(s).flops;
      const int element = plan_.is_product(s) ? dag_.stage(s).output(0).dtype().bytes() : 4;
      node.busy += operations_of(dag_.info(s)) / rates_.flops_of(element);
      const double n = target_.is_cuda() ? times_in_node(s, end, times) : 1;
      times[s] = n;
      sum_.flops += (n - 1) * dag_.info(s).flops;
      node.busy += recomputation(dag_, s, n, rates_).again_seconds;
    }
    sum_.bytes += node.bytes;
    sum_.nodes += 1;
    nodes_.push_back(std::move(node));
  }

  /// What lies in the memory of a concat is read part by part.
  void read(const Access& a, Node& node) {
    if (plan_.at(a.producer) == Place::Whole) {
      for (const Access& part : dag_.info(a.producer).reads) read(part, node);
      return;
    }
    node.touched.insert({a.producer, a.tensor.index()});
    want(a);
  }

  /// Adds up the seconds of the nodes. What a node touches is in the first level that holds all
  /// that was touched since; for what no node before it touched, that is since the last call.
  void time_nodes() {
    std::map<Result, double> last;  // bytes that had been touched by then
    double passed = 0;
    for (const Node& node : nodes_) {
      double moving = 0;
      for (const Result& r : node.touched) {
        const auto before = last.find(r);
        const double between =
            before == last.end() ? sum_.bytes : passed + node.bytes - before->second;
        moving += rates_.seconds_of(bytes_of(r), between);
      }
      passed += node.bytes;
      for (const Result& r : node.touched) last[r] = passed;
      sum_.of_nodes.push_back(rates_.start_seconds + std::max(node.busy, moving));
      sum_.seconds += sum_.of_nodes.back();
    }
  }

  /// How often the node that ends at `end` computes stage `s`, if `known` has those behind it.
  /// Kernels of GPUs compute what a window reads for each of its taps.
  double times_in_node(int s, int end, const std::map<int, double>& known) const {
    double times = 1;
    if (s == end || dag_.stage(s).is_reduction()) return times;
    for (const int r : dag_.info(s).consumers) {
      const auto reader = known.find(r);
      if (reader == known.end()) continue;
      if (plan_.is_product(r)) times = std::max(times, plan_.times_in_product(r, s));
      if (!dag_.stage(r).is_reduction()) times = std::max(times, reader->second);
    }
    return times;
  }

  void want(const Access& a) { wanted_.insert({a.producer, a.tensor.index()}); }

  double bytes_of(const Result& r) const {
    const Tensor t = dag_.stage(r.first).output(r.second);
    return static_cast<double>(t.size() * t.dtype().bytes());
  }

  /// The arithmetic that is done again where blocks of rows of a pointwise convolution meet (three
  /// convolutions in one node): the rows that the windows of two blocks read in common. Blocks of
  /// channels share nothing. `stages` are those of a node, the last first.
  double flops_done_again(const std::vector<int>& stages) const {
    constexpr int64_t kShareOfL2 = 4;  // of the images of a block
    const auto product = std::find_if(stages.begin(), stages.end(), [&](int s) {
      return dag_.info(s).stage_class == StageClass::ComplexReduction;
    });
    if (target_.is_cuda() || product == stages.end()) return 0;
    const ImageChain chain(dag_, *product);
    std::vector<StageGroup::Part> images;
    for (const int s : stages) {
      const StageGroup::Part* part = chain.part_of(s);
      if (part != nullptr && part->product == s) images.push_back(*part);
    }
    if (images.size() != 2) return 0;
    const auto [second, first] = std::pair(images[0].product, images[1].product);
    const ImageRead read = image_read(dag_, second);
    const auto rows = static_cast<double>(dag_.stage(second).axes()[1].extent());
    double row_bytes = 0;
    for (const StageGroup::Part& part : images)
      row_bytes += static_cast<double>(dag_.info(part.last).points) / rows * 4;
    const double block =
        std::clamp(static_cast<double>(target_.l2_bytes / kShareOfL2) / row_bytes, 1.0, rows);
    const auto shared = static_cast<double>(std::max<int64_t>(0, read.window - read.stride));
    return dag_.info(first).flops * (rows / block - 1) * shared /
           static_cast<double>(read.stride * rows);
  }

  const FusionPlan& plan_;
  const ComputeDag& dag_;
  const Target& target_;
  const MachineRates rates_;
  std::set<Result> wanted_;  ///< results that nodes write
  std::vector<Node> nodes_;  ///< the last first, until all are known
  PlanCost sum_;
};

}  // namespace

PlanCost cost_of(const FusionPlan& plan, const Target& target) { return Sum(plan, target).run(); }

std::vector<ChoiceCost> choice_costs(const CutNetwork& network, const ComputeDag& declared,
                                     const Target& target, const PassOptions& passes) {
  const ComputeDag& dag = network.plan.dag();
  InPlacePlan in_place;
  if (passes.concat_in_place) in_place = plan_concats(dag);
  const std::vector<StageGroup> groups = plan_groups(dag, &target, Chains::Expected);
  std::vector<ChoiceCost> costs;
  for (const NetworkChoice& choice : network.choices.list()) {
    PassOptions flipped = passes;
    flipped.choices[choice.name] = !choice.on;
    ChoiceList choices(flipped);
    // Choices of passes change the graph.
    FusionPlan plan = is_fusion_choice(choice.name)
                          ? plan_fusion(dag, groups, target, in_place, choices)
                          : cut_network(declared, target, flipped).plan;
    (void)settle(plan, target);
    costs.push_back({choice, cost_of(plan, target)});
  }
  return costs;
}

}  // namespace heddle::network
