// The order of nodes around those that write states.
#include <algorithm>
#include <set>
#include <unordered_map>

#include "heddle/support/error.h"
#include "ir/replace.h"
#include "network/cut/scattered_update.h"
#include "network/cut/step_plan.h"
#include "network/cut/updates.h"

namespace heddle::network {
namespace {

/// Whether output `own` of a stage may be stored in the memory of what it reads where `depends` says so: other
/// outputs read that only as a part of this one, or this one needs them, so that no compiler reads it afterwards.
bool reads_before_storing(const ComputeDag& dag, int s, size_t own,
                          const std::vector<char>& depends) {
  const std::vector<Expr>& bodies = dag.stage(s).bodies();
  for (size_t c = 0; c < bodies.size(); ++c) {
    if (c == own) continue;
    Expr rest = bodies[c];
    for (size_t k = 0; k < c; ++k)
      rest = replace_equal(rest, bodies[k], make_const(bodies[k].dtype(), 0));
    bool reads = false;
    visit(rest, [&](const Expr& e) {
      const Load* load = e.as<Load>();
      const int from = load ? dag.index_of(tensor_of(load->buffer).op()) : -1;
      reads = reads || (from >= 0 && depends[static_cast<size_t>(from)]);
    });
    const Expr without = replace_equal(bodies[own], bodies[c], make_const(bodies[c].dtype(), 0));
    const bool needed = c < own && !equal(without, bodies[own]);
    if (reads && !needed) return false;
  }
  return true;
}

/// Whether the node reads `state` only where it writes the same element, which it does once, as output `own`.
bool replaces_elements(const ExtractedNode& node, const Tensor& state, size_t own) {
  const ComputeDag& dag = *node.dag;
  const Tensor read = node.task_inputs[static_cast<size_t>(position_of(node.inputs, state))];
  std::vector<char> depends(static_cast<size_t>(dag.size()));
  for (int s = 0; s < dag.size(); ++s) {
    const Operation& op = dag.stage(s);
    if (op.is_placeholder()) {
      depends[s] = op.output(0).same_as(read);
      continue;
    }
    if (dag.info(s).precomputable) continue;
    if (op.is_reduction() || dag.info(s).scan || !same_shape(op.output(0), read)) return false;
    for (const Access& a : dag.info(s).reads) {
      if (!depends[a.producer]) continue;
      if (a.pattern != AccessPattern::Elementwise) return false;
      depends[s] = 1;
    }
    if (op.num_outputs() > 1 && !reads_before_storing(dag, s, own, depends)) return false;
  }
  return true;
}

/// Which nodes run before which.
class WriteOrder {
 public:
  WriteOrder(const std::vector<StateWrite>& writes, const ComputeDag& graph,
             const std::vector<TensorPlace>& inside, const std::vector<ExtractedNode>& nodes)
      : nodes_(nodes), before_(nodes.size()) {
    std::unordered_map<const Operation*, const Operation*> whole_of;
    for (const TensorPlace& p : inside) whole_of[p.tensor.op()] = p.whole.op();
    for (size_t n = 0; n < nodes.size(); ++n) {
      for (const Tensor& t : nodes[n].outputs) {
        writers_[t.op()].push_back(n);
        if (const auto it = whole_of.find(t.op()); it != whole_of.end())
          writers_[it->second].push_back(n);
      }
    }
    for (size_t n = 0; n < nodes.size(); ++n) {
      for (const Tensor& t : nodes[n].inputs) {
        auto it = writers_.find(t.op());
        // A slice is written with the whole.
        if (const auto whole = whole_of.find(t.op());
            it == writers_.end() && whole != whole_of.end())
          it = writers_.find(whole->second);
        if (it != writers_.end()) before_[n].insert(it->second.begin(), it->second.end());
      }
    }
    for (const StateWrite& write : writes) {
      const Tensor& made = graph.outputs()[write.output];
      if (!write.copied)
        add(write, writers_.at(made.op()).front(), static_cast<size_t>(made.index()));
    }
  }

  /// The order; where there is none, the nodes that can run.
  std::vector<size_t> run() const {
    std::vector<size_t> waits(nodes_.size());
    std::vector<std::vector<size_t>> then(nodes_.size());
    std::set<size_t> ready;
    for (size_t n = 0; n < nodes_.size(); ++n) {
      waits[n] = before_[n].size();
      if (waits[n] == 0) ready.insert(n);
      for (const size_t b : before_[n]) then[b].push_back(n);
    }
    std::vector<size_t> order;
    while (!ready.empty()) {
      order.push_back(*ready.begin());
      ready.erase(ready.begin());
      for (const size_t t : then[order.back()]) {
        if (--waits[t] == 0) ready.insert(t);
      }
    }
    return order;
  }

  const std::vector<size_t>& impossible() const { return impossible_; }
  const std::vector<std::set<size_t>>& before() const { return before_; }

 private:
  void add(const StateWrite& write, size_t writer, size_t own) {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const bool reads = position_of(nodes_[n].inputs, write.state) >= 0;
      if (write.after && position_of(nodes_[n].inputs, write.after) >= 0) before_[n].insert(writer);
      if (reads && n != writer) before_[writer].insert(n);
      if (reads && n == writer && (write.after || !replaces_elements(nodes_[n], write.state, own)))
        impossible_.push_back(write.output);
    }
  }

  const std::vector<ExtractedNode>& nodes_;
  std::unordered_map<const Operation*, std::vector<size_t>>
      writers_;  ///< nodes, by what they write
  std::vector<std::set<size_t>> before_;
  std::vector<size_t> impossible_;
};

}  // namespace

std::vector<std::set<size_t>> runs_before(const std::vector<StateWrite>& writes,
                                          const ComputeDag& graph,
                                          const std::vector<TensorPlace>& inside,
                                          const std::vector<ExtractedNode>& nodes) {
  return WriteOrder(writes, graph, inside, nodes).before();
}

std::vector<size_t> order_by_writes(const std::vector<StateWrite>& writes, const ComputeDag& graph,
                                    const std::vector<TensorPlace>& inside,
                                    std::vector<ExtractedNode>& nodes) {
  const WriteOrder order(writes, graph, inside, nodes);
  std::vector<size_t> impossible = order.impossible();
  for (const StateWrite& write : writes) {
    if (!write.scattered) continue;
    const auto writer = std::find_if(nodes.begin(), nodes.end(), [&](const ExtractedNode& n) {
      return position_of(n.outputs, graph.outputs()[write.output]) >= 0;
    });
    if (writer == nodes.end() || places_input(*writer) < 0) impossible.push_back(write.output);
  }
  if (!impossible.empty()) return impossible;
  const std::vector<size_t> sorted = order.run();
  if (sorted.size() < nodes.size()) {
    // What is left waits in a circle. A write of it is copied, which takes its edges away.
    const std::set<size_t> done(sorted.begin(), sorted.end());
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (done.contains(n)) continue;
      for (const StateWrite& write : writes) {
        if (!write.copied && position_of(nodes[n].outputs, graph.outputs()[write.output]) >= 0)
          return {write.output};
      }
    }
    HEDDLE_ICHECK(false, "nodes wait for each other, and none of them updates an input");
  }
  std::vector<ExtractedNode> in_order;
  for (const size_t n : sorted) in_order.push_back(std::move(nodes[n]));
  nodes = std::move(in_order);
  return {};
}

}  // namespace heddle::network
