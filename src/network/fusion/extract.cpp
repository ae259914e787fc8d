#include "network/fusion/extract.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>

#include "dag/map_loads.h"
#include "heddle/runtime/ndarray.h"

namespace heddle::network {
namespace {

/// The stages of one node: those that it reads from memory, and those that it computes.
class NodeBuilder {
 public:
  NodeBuilder(const ComputeDag& dag, const std::vector<char>& external)
      : dag_(dag), external_(external) {}

  ExtractedNode build(int last, const std::vector<Tensor>& outputs) {
    copy_long_chains(last);
    const Ref<const Operation> output_stage = copy(last);
    node_.outputs = outputs;
    for (const Tensor& t : outputs) node_.task_outputs.push_back(output_stage->output(t.index()));
    node_.dag.emplace(node_.task_outputs);
    sort_inputs();
    return std::move(node_);
  }

 private:
  /// Copies the stages of a very large node one by one, so that copy() does not fill the stack.
  void copy_long_chains(int last) {
    constexpr size_t kMany = 512;
    std::set<int, std::greater<>> open{last};
    std::vector<int> needed;
    while (!open.empty()) {
      needed.push_back(*open.begin());
      open.erase(open.begin());
      for (const int p : dag_.info(needed.back()).producers) {
        if (!external_[p]) open.insert(p);
      }
    }
    if (needed.size() < kMany) return;
    for (size_t n = needed.size(); n-- > 0;) (void)copy(needed[n]);
  }

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
    node_.operations.push_back(result.get());
    return copies_.emplace(s, std::move(result)).first->second;
  }

  /// The tensor of this node that corresponds to `t`.
  Tensor own(const Tensor& t) {
    const int s = dag_.index_of(t.op());
    if (!external_[s]) return copy(s)->output(t.index());
    const auto [known, is_new] =
        inputs_.try_emplace({s, t.index()}, static_cast<int>(node_.inputs.size()));
    if (!is_new) return node_.task_inputs[static_cast<size_t>(known->second)];
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
    std::vector<Tensor> inputs, order = node_.dag->placeholders();
    std::unordered_map<const Operation*, size_t> at;
    for (size_t i = 0; i < node_.task_inputs.size(); ++i) at.emplace(node_.task_inputs[i].op(), i);
    for (const Tensor& t : order) inputs.push_back(node_.inputs[at.at(t.op())]);
    node_.inputs = std::move(inputs);
    node_.task_inputs = std::move(order);
  }

  const ComputeDag& dag_;
  const std::vector<char>& external_;
  ExtractedNode node_;
  std::map<std::pair<int, int>, int> inputs_;  ///< positions by stage and output
  std::unordered_map<int, Ref<const Operation>> copies_;
};

}  // namespace

std::vector<ExtractedNode> extract_nodes(const ComputeDag& dag, const FusionPlan& plan) {
  std::vector<char> external(static_cast<size_t>(dag.size()));
  for (int s = 0; s < dag.size(); ++s) external[s] = plan.read_from_memory(s) ? 1 : 0;
  // Nodes are made from the outputs backwards. A stage whose readers all prepare it is not a node.
  std::vector<std::vector<Tensor>> wanted(static_cast<size_t>(dag.size()));  // by stage
  const auto want = [&](const Tensor& t) {
    std::vector<Tensor>& known = wanted[static_cast<size_t>(dag.index_of(t.op()))];
    if (std::none_of(known.begin(), known.end(), [&](const Tensor& w) { return w.same_as(t); }))
      known.push_back(t);
  };
  for (const Tensor& t : dag.outputs()) want(t);
  std::vector<ExtractedNode> nodes;
  for (int output_stage = dag.size() - 1; output_stage >= 0; --output_stage) {
    if (!plan.stored(output_stage)) continue;
    std::vector<Tensor> outputs = wanted[static_cast<size_t>(output_stage)];
    if (outputs.empty()) continue;
    std::sort(outputs.begin(), outputs.end(),
              [](const Tensor& a, const Tensor& b) { return a.index() < b.index(); });
    std::vector<Tensor> inputs;
    if (plan.at(output_stage) == Place::Whole) {
      inputs = dag.stage(output_stage).inputs();
    } else {
      nodes.push_back(NodeBuilder(dag, external).build(output_stage, outputs));
      inputs = nodes.back().inputs;
    }
    for (const Tensor& t : inputs) want(t);
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace heddle::network
