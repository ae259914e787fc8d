#include "network/fusion/fusion_cost.h"

#include <algorithm>
#include <map>
#include <utility>

#include "dag/patterns/convolution.h"
#include "heddle/dag/factors.h"
#include "heddle/dag/operations.h"
#include "heddle/schedule/template.h"
#include "network/fusion/lookups.h"
#include "network/fusion/node_traffic.h"
#include "network/fusion/plan_fusion.h"
#include "network/fusion/settle_plan.h"
#include "schedule/groups/image_chain.h"
#include "schedule/groups/recomputation.h"

namespace heddle::network {
namespace {

/// Adds up the nodes of a plan that the outputs need, from the last one backwards.
class Sum {
 public:
  Sum(const FusionPlan& plan, const Target& target, const std::vector<double>& runs)
      : plan_(plan), dag_(plan.dag()), target_(target), runs_(runs), rates_(rates_of(target)) {
    for (int s = 0; s < dag_.size(); ++s) {
      first_.push_back(static_cast<int>(bytes_.size()));
      for (int i = 0; i < dag_.stage(s).num_outputs(); ++i) {
        bytes_.push_back(plan_.stored(s) || dag_.stage(s).is_placeholder() ? bytes_of(s, i) : 0);
      }
    }
    first_.push_back(static_cast<int>(bytes_.size()));
    wanted_.resize(bytes_.size());
    for (const Tensor& t : dag_.outputs()) wanted_[result(dag_.index_of(t.op()), t)] = 1;
  }

  PlanCost run() {
    for (int end = dag_.size() - 1; end >= 0; --end) {
      std::vector<int> written;
      for (int r = first_[end]; r < first_[end + 1]; ++r) {
        if (wanted_[r] != 0) written.push_back(r);
      }
      if (!plan_.stored(end) || written.empty()) continue;
      if (plan_.at(end) == Place::Whole) {
        for (const Access& a : dag_.info(end).reads) wanted_[result(a.producer, a.tensor)] = 1;
      } else {
        add_node(end, std::move(written));
      }
    }
    std::reverse(traffic_.begin(), traffic_.end());
    std::reverse(busy_.begin(), busy_.end());
    std::reverse(sum_.which.begin(), sum_.which.end());
    const std::vector<double> moving = moving_seconds(traffic_, bytes_, rates_);
    for (size_t n = 0; n < moving.size(); ++n) {
      sum_.of_nodes.push_back(runs_of(sum_.which[n].first) *
                              rates_.nest_seconds(std::max(busy_[n], moving[n])));
      sum_.seconds += sum_.of_nodes.back();
    }
    return std::move(sum_);
  }

 private:
  double bytes_of(int s, int i) const {
    const Tensor t = dag_.stage(s).output(i);
    return static_cast<double>(t.size() * t.dtype().bytes());
  }

  /// How often a call runs the node that ends at `s`.
  double runs_of(int s) const { return runs_.empty() ? 1 : runs_[static_cast<size_t>(s)]; }

  /// Operations a second of stage `s`: a product is as fast as the units for its operands are.
  double flops_of(int s) const {
    const Access* operands[2];
    if (!plan_.is_product(s) || !dag::match_contraction(dag_, s, operands).empty())
      return rates_.flops;
    const Expr& term = dag_.stage(s).bodies()[0].as<Reduce>()->sources[0];
    return product_flops(rates_, target_, operands[0]->tensor.dtype(), operands[1]->tensor.dtype(),
                         rounds_factors(term));
  }

  /// The number of a result of stage `s`.
  int result(int s, const Tensor& t) const { return first_[s] + t.index(); }

  void add_node(int end, std::vector<int> written) {
    const std::vector<int> stages = plan_.stages_of_node(end);
    NodeTraffic node{written, std::move(written)};
    for (const int s : stages) {
      for (const Access& a : dag_.info(s).reads) {
        if (plan_.read_from_memory(a.producer)) read(a, node);
      }
    }
    std::sort(node.touched.begin(), node.touched.end());
    node.touched.erase(std::unique(node.touched.begin(), node.touched.end()), node.touched.end());
    for (const int r : node.touched) node.bytes += bytes_[r];
    const double again = flops_done_again(stages);
    double busy = again / rates_.flops, flops = again;  // images of f32
    std::map<int, double> times;                        // that stages are computed, by stage
    for (const int s : stages) {
      if (dag_.info(s).precomputable) continue;
      flops += dag_.info(s).flops;
      busy += operations_of(dag_.info(s)) / flops_of(s);
      const double n = target_.is_cuda() ? times_in_node(s, end, times) : 1;
      times[s] = n;
      flops += (n - 1) * dag_.info(s).flops;
      if (n > 1) busy += recomputation(dag_, s, n, rates_).again_seconds;
      if (s != end && !target_.is_cuda())
        busy += times_looked_up(plan_, s) * static_cast<double>(dag_.info(s).points) /
                rates_.single_flops;
    }
    if (!target_.is_cuda()) busy += selecting_seconds(stages);
    const double runs = runs_of(end);
    sum_.flops += runs * flops;
    sum_.bytes += runs * node.bytes;
    sum_.nodes += runs;
    sum_.which.push_back({end, static_cast<int>(stages.size())});
    traffic_.push_back(std::move(node));
    busy_.push_back(busy);
  }

  /// What lies in the memory of a concat is read part by part.
  void read(const Access& a, NodeTraffic& node) {
    if (plan_.at(a.producer) == Place::Whole) {
      for (const Access& part : dag_.info(a.producer).reads) read(part, node);
      return;
    }
    node.touched.push_back(result(a.producer, a.tensor));
    wanted_[node.touched.back()] = 1;
  }

  /// What stages that select (concats, padding) cost within others that do. Loops are cut where two
  /// selects change sides, so that vectors go on. For further ones the elements are told apart one by
  /// one, for each tap of a window that reads them. `stages` are those of a node, the last first.
  double selecting_seconds(const std::vector<int>& stages) const {
    constexpr int kCut = 2;
    struct Behind {
      double taps = 1;  ///< how often what is behind the stage reads an element
      int selects = 0;  ///< before it computes with it
    };
    std::map<int, Behind> known;
    double seconds = 0;
    for (const int s : stages) {
      const StageInfo& info = dag_.info(s);
      Behind behind;
      for (const int r : info.consumers) {
        const auto reader = known.find(r);
        if (reader == known.end()) continue;
        const auto& [taps, selecting] = reader->second;
        const bool ends = dag_.stage(r).is_reduction();
        behind.taps = std::max(behind.taps, ends ? plan_.times_in_product(r, s) : taps);
        if (!ends) behind.selects = std::max(behind.selects, selecting + (selects(r) ? 1 : 0));
      }
      known[s] = behind;
      if (behind.selects >= kCut && selects(s) && !info.precomputable)
        seconds += static_cast<double>(info.points) * behind.taps / rates_.single_flops;
    }
    return seconds;
  }

  bool selects(int s) const {
    const std::vector<Access>& reads = dag_.info(s).reads;
    return std::any_of(reads.begin(), reads.end(), [](const Access& a) { return a.guarded; });
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

  /// The arithmetic that is done again where blocks of rows of a pointwise convolution meet (three
  /// convolutions in one node): the rows that the windows of two blocks read in common. Blocks of
  /// channels share nothing. `stages` are those of a node, the last first.
  double flops_done_again(const std::vector<int>& stages) const {
    constexpr int64_t kShareOfL2 = 4;  // of the images of a block
    const auto is_product = [&](int s) { return plan_.is_product(s); };
    if (target_.is_cuda() || std::count_if(stages.begin(), stages.end(), is_product) != 3) return 0;
    const auto product = std::find_if(stages.begin(), stages.end(), is_product);
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
      row_bytes += static_cast<double>(dag_.info(part.last).points) / rows *
                   dag_.stage(part.last).output(0).dtype().bytes();
    const double block =
        std::clamp(static_cast<double>(target_.l2_bytes / kShareOfL2) / row_bytes, 1.0, rows);
    const auto shared = static_cast<double>(std::max<int64_t>(0, read.window - read.stride));
    return dag_.info(first).flops * (rows / block - 1) * shared /
           static_cast<double>(read.stride * rows);
  }

  const FusionPlan& plan_;
  const ComputeDag& dag_;
  const Target& target_;
  const std::vector<double>& runs_;
  const MachineRates rates_;
  std::vector<int> first_;            ///< the number of the first result of each stage, and of all
  std::vector<double> bytes_;         ///< of each result
  std::vector<char> wanted_;          ///< results that nodes write
  std::vector<NodeTraffic> traffic_;  ///< of each node; the last first, until all are known
  std::vector<double> busy_;          ///< likewise: seconds of arithmetic
  PlanCost sum_;
};

}  // namespace

PlanCost cost_of(const FusionPlan& plan, const Target& target, const std::vector<double>& runs) {
  return Sum(plan, target, runs).run();
}

}  // namespace heddle::network
