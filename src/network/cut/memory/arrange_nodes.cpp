#include "network/cut/memory/arrange_nodes.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "heddle/support/error.h"
#include "network/cut/memory/node_costs.h"
#include "network/cut/memory/order_for_memory.h"
#include "network/cut/memory/recompute.h"
#include "network/cut/step_plan.h"
#include "support/table.h"

namespace heddle::network {
namespace {

/// The buffers of a network that is being cut. Outputs of calls lie elsewhere.
BufferGraph buffers_of(const CutNetwork& network, const std::vector<StateWrite>& writes) {
  std::vector<Tensor> elsewhere = network.dag.outputs();
  for (const StateWrite& write : writes) {
    if (write.copied) elsewhere[write.output] = {};
  }
  std::erase_if(elsewhere, [](const Tensor& t) { return !t; });
  BufferGraph graph(network.places, [elsewhere = std::move(elsewhere)](const Tensor& t) {
    return position_of(elsewhere, t) >= 0;
  });
  for (const ExtractedNode& node : network.nodes) graph.add_node(node.inputs, node.outputs);
  for (const StateWrite& write : writes) {
    const Tensor& made = network.dag.outputs()[write.output];
    if (write.copied && graph.find(made) >= 0) graph.read_at_end(made);
  }
  return graph;
}

/// The nodes that may run a second time: those that write buffers alone, which no other node shares.
std::vector<RepeatedNode> repeated_nodes(const CutNetwork& network, const BufferGraph& graph,
                                         const std::vector<StateWrite>& writes,
                                         const Target& target) {
  const std::vector<double> seconds = seconds_of_nodes(network, target);
  std::vector<RepeatedNode> list;
  for (size_t n = 0; n < network.nodes.size(); ++n) {
    const ExtractedNode& node = network.nodes[n];
    RepeatedNode& r = list.emplace_back(RepeatedNode{seconds[n]});
    r.allowed = std::all_of(node.outputs.begin(), node.outputs.end(), [&](const Tensor& t) {
      return graph.find(t) >= 0 &&
             std::none_of(network.places.begin(), network.places.end(), [&](const TensorPlace& p) {
               return p.tensor.same_as(t) || p.whole.same_as(t);
             });
    });
    for (const StateWrite& write : writes) {
      if (position_of(node.inputs, write.state) < 0) continue;
      const Tensor& made = network.dag.outputs()[write.output];
      for (size_t w = 0; w < network.nodes.size(); ++w) {
        // A copy is made at the end of the call.
        if (!write.copied && position_of(network.nodes[w].outputs, made) >= 0)
          r.until = std::min(r.until, w);
      }
    }
  }
  return list;
}

/// What the options say of each buffer.
class Wishes {
 public:
  Wishes(const CutNetwork& network, const BufferGraph& graph)
      : tensors_(graph.buffers()), kept_(graph.buffers()), repeated_(graph.buffers()) {
    for (const ExtractedNode& node : network.nodes) {
      for (const Tensor& t : node.outputs) {
        const int b = graph.find(t);
        if (b < 0) continue;
        tensors_[b] = t;
        const std::optional<bool> wish =
            network.choices.setting(ChoiceKind::Recompute, place_of(*t.op()));
        kept_[b] = wish && !*wish ? 1 : 0;
        repeated_[b] = wish && *wish ? 1 : 0;
      }
    }
  }

  const std::vector<char>& kept() const { return kept_; }
  const std::vector<char>& repeated() const { return repeated_; }

  /// Lists the choices that were taken.
  void list(const BufferGraph& graph, const Recomputation& made, ChoiceList& choices) const {
    std::vector<char> again(tensors_.size());
    for (const RepeatableStep& step : made.steps) {
      if (!step.again) continue;
      for (const int b : graph.writes(step.node)) again[b] = 1;
    }
    for (size_t b = 0; b < tensors_.size(); ++b) {
      if (again[b] == 0 && kept_[b] == 0 && repeated_[b] == 0) continue;
      (void)choices.on(ChoiceKind::Recompute, place_of(*tensors_[b].op()), repeated_[b] == 0,
                       "'" + tensors_[b].name() + "' is computed again for later readers");
    }
  }

 private:
  std::vector<Tensor> tensors_;
  std::vector<char> kept_, repeated_;
};

/// Makes the nodes of the steps.
void repeat_nodes(CutNetwork& network, const BufferGraph& graph,
                  const std::vector<RepeatableStep>& steps) {
  std::unordered_map<int, Tensor> again;  // by buffer
  std::vector<ExtractedNode> nodes;
  for (const RepeatableStep& step : steps) {
    ExtractedNode& node = nodes.emplace_back(network.nodes[step.node]);
    size_t read = 0;
    for (Tensor& t : node.inputs) {
      const int b = graph.find(t);
      if (b >= 0 && step.reads_again[read++] != 0) t = again.at(b);
    }
    if (!step.again) continue;
    for (Tensor& t : node.outputs) {
      const Tensor first = t;
      t = placeholder(first.shape(), first.dtype(), first.name(), first.op()->where());
      again[graph.find(first)] = t;
      network.again.emplace_back(t, first);
    }
  }
  network.nodes = std::move(nodes);
}

std::string size_text(int64_t bytes) {
  const bool small = bytes < 1 << 20;
  return format_fixed(static_cast<double>(bytes) / (small ? 1 << 10 : 1 << 20), 2) +
         (small ? " KB" : " MB");
}

/// The smallest buffers of a training step for next to no time, where they take much memory; else
/// nothing. Elements of large results that cost little, such as the powers of an attention, are kept for
/// the backward pass otherwise.
std::optional<Recomputation> nearly_free(const BufferGraph& graph, const Wishes& wishes,
                                         const std::vector<RepeatedNode>& nodes, double seconds) {
  constexpr int64_t kMuch = 8 << 20;
  constexpr double kFree = 0.0125;
  const int64_t bytes = plan_memory(graph.lifetimes()).bytes;
  if (bytes < kMuch) return std::nullopt;
  constexpr int64_t kLeastShare = 70, kMostShare = 90, kStep = 2;  // in hundredths
  for (int64_t share = kLeastShare; share <= kMostShare; share += kStep) {
    const int64_t limit = bytes / 100 * share;
    Recomputation made = recompute(graph, nodes, limit, wishes.kept(), wishes.repeated());
    if (made.fits && made.seconds <= kFree * seconds) return made;
  }
  return std::nullopt;
}

/// What fits into the memory that `passes` allow, with what they say is computed again.
Recomputation within_limit(const BufferGraph& graph, const Wishes& wishes,
                           const std::vector<RepeatedNode>& nodes, const PassOptions& passes) {
  const int64_t limit = passes.memory > 0 ? passes.memory : std::numeric_limits<int64_t>::max() / 2;
  Recomputation made = recompute(graph, nodes, limit, wishes.kept(), wishes.repeated());
  if (!made.fits)
    throw_user_error("the buffers between the nodes of this network do not fit into " +
                         size_text(limit) + ": with all that may be computed again they take " +
                         size_text(made.bytes),
                     {}, "allow at least memory=" + std::to_string(made.bytes));
  return made;
}

void add_second_runs(CutNetwork& network, const std::vector<StateWrite>& writes,
                     const Target& target, const PassOptions& passes) {
  const BufferGraph graph = buffers_of(network, writes);
  const Wishes wishes(network, graph);
  const std::vector<RepeatedNode> nodes = repeated_nodes(network, graph, writes, target);
  double all = 0;
  for (const RepeatedNode& n : nodes) all += n.seconds;
  std::optional<Recomputation> chosen;
  if (passes.memory > 0 || network.choices.any_on(ChoiceKind::Recompute))
    chosen = within_limit(graph, wishes, nodes, passes);
  else
    chosen = nearly_free(graph, wishes, nodes, all);
  if (!chosen) return;
  const Recomputation& made = *chosen;
  wishes.list(graph, made, network.choices);
  if (made.steps.size() == graph.nodes() && made.seconds == 0) return;
  const auto runs = std::count_if(made.steps.begin(), made.steps.end(),
                                  [](const RepeatableStep& s) { return s.again; });
  network.changes.push_back({to_string(ChoiceKind::Recompute),
                             "nodes that run a second time: " + std::to_string(runs) +
                                 "; the buffers between nodes take " + size_text(made.bytes) +
                                 " in place of " + size_text(plan_memory(graph.lifetimes()).bytes) +
                                 ", for " + format_fixed(100 * made.seconds / all, 1) +
                                 " % more time by estimate"});
  repeat_nodes(network, graph, made.steps);
}

}  // namespace

void arrange_nodes(CutNetwork& network, const std::vector<StateWrite>& writes, const Target& target,
                   const PassOptions& passes) {
  const std::vector<size_t> order = order_for_memory(
      buffers_of(network, writes), runs_before(writes, network.dag, network.places, network.nodes));
  std::vector<ExtractedNode> nodes;
  for (const size_t n : order) nodes.push_back(std::move(network.nodes[n]));
  network.nodes = std::move(nodes);
  // Over dimensions buffers have no number of bytes.
  const bool step = !writes.empty() && network.usual.empty();
  if (passes.memory > 0 || step || network.choices.any_on(ChoiceKind::Recompute))
    add_second_runs(network, writes, target, passes);
}

}  // namespace heddle::network
