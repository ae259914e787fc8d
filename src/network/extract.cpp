#include "network/extract.h"

#include <algorithm>
#include <unordered_map>

#include "dag/map_loads.h"
#include "heddle/runtime/ndarray.h"
#include "heddle/schedule/template.h"

namespace heddle::network {
namespace {

/// The stages that end a node. plan_groups works from the outputs backwards and gives an
/// element-wise stage to its reader. Between kernels that is expensive: two readers compute it
/// twice, a sum of residuals grows with every layer, and equal layers are not recognised. Here a
/// node therefore continues along the element-wise stages that follow, up to the stage where all
/// that depends on it meets:
///
///   conv -> norm -> relu -+-> pad -> conv       conv's node ends at relu, and not at conv: a
///                         +----> add ...        convolution with its epilogue
class Cuts {
 public:
  Cuts(const ComputeDag& dag, const Target& target, const InPlacePlan& in_place)
      : dag_(dag), cut_(static_cast<size_t>(dag.size())), taken_(cut_), whole_(cut_) {
    for (const StageGroup& g : plan_groups(dag, &target)) {
      cut_[g.output_stage] = 1;
      if (g.anchor != g.output_stage) epilogues_.push_back({g.anchor, g.output_stage});
    }
    for (const int s : in_place.wholes) cut_[s] = whole_[s] = 1;
    parts_ = in_place.parts;
  }

  std::vector<char> run() {
    taken_ = cut_;
    for (const auto& [anchor, last] : epilogues_) take_between(anchor, last);
    for (int s = dag_.size() - 1; s >= 0; --s) {
      if (!cut_[s] || whole_[s] || dag_.info(s).is_output || dag_.info(s).precomputable) continue;
      if (dag_.stage(s).num_outputs() == 1) extend(s);
    }
    for (const int s : parts_) cut_[s] = 1;
    return std::move(cut_);
  }

 private:
  /// The stages from a reduction to the output stage of its group are its epilogue and end no other
  /// node. Where two convolutions meet in a sum, one of them takes the sum and the stages after it:
  ///
  ///   conv -> bias -+                      a node that ends at bias
  ///   conv -> bias -+-> add -> relu        a node that ends at relu
  void take_between(int anchor, int last) {
    std::vector<char> depends(cut_.size());
    depends[anchor] = 1;
    for (int u = anchor + 1; u < last; ++u) {
      for (const int p : dag_.info(u).producers) depends[u] |= depends[p];
      if (depends[u]) taken_[u] = 1;  // all its readers lead to `last`
    }
  }

  void extend(int s) {
    std::vector<char> region(cut_.size());
    std::vector<int> members{s};
    region[s] = 1;
    size_t end = 0;
    for (int u = s + 1; u < dag_.size(); ++u) {
      if (!follows(u, region, s)) continue;
      region[u] = 1;
      members.push_back(u);
      if (closed(members, region)) end = members.size() - 1;
    }
    if (end == 0) return;
    cut_[s] = 0;
    cut_[members[end]] = 1;
    for (size_t m = 0; m <= end; ++m) taken_[members[m]] = 1;
  }

  /// Whether `u` reads the results of the region element by element and belongs to no other node.
  bool follows(int u, const std::vector<char>& region, int s) const {
    const Operation& op = dag_.stage(u);
    if (op.is_placeholder() || op.is_reduction() || taken_[u] || op.num_outputs() != 1)
      return false;
    bool reads = false;
    for (const Access& a : dag_.info(u).reads) {
      if (!region[a.producer]) continue;
      reads = true;
      if (a.pattern != AccessPattern::Elementwise) return false;
    }
    return reads && dag_.stage(s).output(0).extents() == op.output(0).extents();
  }

  /// Whether only the last member is read outside of the region.
  bool closed(const std::vector<int>& members, const std::vector<char>& region) const {
    return std::all_of(members.begin(), members.end() - 1, [&](int m) {
      const std::vector<int>& readers = dag_.info(m).consumers;
      return !dag_.info(m).is_output &&
             std::all_of(readers.begin(), readers.end(), [&](int r) { return region[r]; });
    });
  }

  const ComputeDag& dag_;
  std::vector<char> cut_, taken_;
  std::vector<char> whole_;  ///< concats that share memory with their parts
  std::vector<int> parts_;   ///< the parts of these concats
  std::vector<std::pair<int, int>>
      epilogues_;  ///< pairs of a reduction and the output stage of its group
};

/// The stages of one node: those that it reads from memory, and those that it computes.
class NodeBuilder {
 public:
  NodeBuilder(const ComputeDag& dag, const std::vector<char>& external)
      : dag_(dag), external_(external) {}

  ExtractedNode build(int last, const std::vector<Tensor>& outputs) {
    const Ref<const Operation> output_stage = copy(last);
    node_.outputs = outputs;
    for (const Tensor& t : outputs) node_.task_outputs.push_back(output_stage->output(t.index()));
    sort_inputs();
    return std::move(node_);
  }

 private:
  /// The operation that computes stage `s` from this node's own tensors. It keeps its axes: they
  /// are identities only within a declaration.
  Ref<const Operation> copy(int s) {
    if (const auto it = copies_.find(s); it != copies_.end()) return it->second;
    const Operation& op = dag_.stage(s);
    std::vector<Expr> bodies = dag::map_loads(op.bodies(), [&](const Load& load) {
      return make_load(own(tensor_of(load.buffer)).buffer(), load.indices);
    });
    Ref<const Operation> result =
        Operation::make_compute(op.name(), op.axes(), std::move(bodies), op.tag(), op.where());
    node_.stages.push_back(s);
    return copies_.emplace(s, std::move(result)).first->second;
  }

  /// The tensor of this node that corresponds to `t`.
  Tensor own(const Tensor& t) {
    const int s = dag_.index_of(t.op());
    if (!external_[s]) return copy(s)->output(t.index());
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      if (node_.inputs[i].same_as(t)) return node_.task_inputs[i];
    }
    node_.inputs.push_back(t);
    std::shared_ptr<const NDArray> data;
    if (const NDArray* values = t.op()->data()) data = std::make_shared<const NDArray>(*values);
    node_.task_inputs.push_back(Operation::make_placeholder(t.shape(), t.dtype(), t.name(),
                                                            t.op()->is_constant(), t.op()->where(),
                                                            std::move(data))
                                    ->output(0));
    return node_.task_inputs.back();
  }

  /// Sorts the inputs in the order of the declaration's graph, which is the same for equal
  /// declarations. The inputs of equal nodes then correspond by position.
  void sort_inputs() {
    std::vector<Tensor> inputs, order = ComputeDag(node_.task_outputs).placeholders();
    for (const Tensor& t : order) {
      size_t i = 0;
      while (!node_.task_inputs[i].same_as(t)) ++i;
      inputs.push_back(node_.inputs[i]);
    }
    node_.inputs = std::move(inputs);
    node_.task_inputs = std::move(order);
  }

  const ComputeDag& dag_;
  const std::vector<char>& external_;
  ExtractedNode node_;
  std::unordered_map<int, Ref<const Operation>> copies_;
};

}  // namespace

std::vector<ExtractedNode> extract_nodes(const ComputeDag& dag, const ComputeDag& decide,
                                         const Target& target, const InPlacePlan& in_place) {
  const std::vector<char> cuts = Cuts(decide, target, in_place).run();
  std::vector<char> external(cuts);
  for (int s = 0; s < dag.size(); ++s) {
    if (dag.stage(s).is_placeholder()) external[s] = 1;
    if (dag.info(s).precomputable) external[s] = 0;
  }
  // Nodes are made from the outputs backwards. A stage whose readers all prepare it is not a node.
  std::vector<Tensor> wanted = dag.outputs();
  std::vector<ExtractedNode> nodes;
  for (int output_stage = dag.size() - 1; output_stage >= 0; --output_stage) {
    if (!cuts[output_stage]) continue;
    std::vector<Tensor> outputs;
    for (const Tensor& t : wanted) {
      if (dag.index_of(t.op()) == output_stage) outputs.push_back(t);
    }
    if (outputs.empty()) continue;
    std::sort(outputs.begin(), outputs.end(),
              [](const Tensor& a, const Tensor& b) { return a.index() < b.index(); });
    std::vector<Tensor> inputs;
    if (std::binary_search(in_place.wholes.begin(), in_place.wholes.end(), output_stage)) {
      inputs = dag.stage(output_stage).inputs();
    } else {
      nodes.push_back(NodeBuilder(dag, external).build(output_stage, outputs));
      inputs = nodes.back().inputs;
    }
    for (const Tensor& t : inputs) {
      const bool known =
          std::any_of(wanted.begin(), wanted.end(), [&](const Tensor& w) { return w.same_as(t); });
      if (!known) wanted.push_back(t);
    }
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace heddle::network
