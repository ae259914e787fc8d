#include "network/cut/updates.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "dag/replace_reads.h"
#include "heddle/dsl/update.h"
#include "heddle/support/error.h"
#include "network/cut/step_plan.h"

namespace heddle::network {
namespace {

bool same_shape(const Tensor& a, const Tensor& b) {
  return std::equal(a.shape().begin(), a.shape().end(), b.shape().begin(), b.shape().end(),
                    [](const Expr& x, const Expr& y) { return equal(x, y); });
}

void check(const std::vector<StateUpdate>& updates, size_t u) {
  const auto& [state, next] = updates[u];
  const auto fail = [&](const std::string& what, const std::string& help) {
    throw_user_error("'" + state.name() + "' cannot be updated: " + what, next.op()->where(), help);
  };
  if (!state.op()->is_placeholder() || state.op()->is_constant())
    fail("it is no input that may change", "update a placeholder");
  if (next.op()->is_placeholder())
    fail("'" + next.name() + "' is an input", "give a result of the network");
  if (state.dtype() != next.dtype() || !same_shape(state, next))
    fail("'" + next.name() + "' has another type or shape",
         "the result takes the place of the input: give both one type and one shape");
  for (size_t v = 0; v < u; ++v) {
    if (updates[v].state.same_as(state))
      fail("'" + updates[v].next.name() + "' updates it, too", "update an input once");
    if (updates[v].next.same_as(next))
      fail("'" + next.name() + "' updates '" + updates[v].state.name() + "', too",
           "give each input a result of its own");
  }
}

Tensor copy_of(const Tensor& t, const std::string& name) {
  return compute(
      t.shape(), [&](const std::vector<Axis>& at) { return t(at); }, name, "copy", t.op()->where());
}

/// Whether kernels can write rows of `state` from any row on: vectors of a GPU are aligned.
bool rows_are_aligned(const Tensor& state, const Target& target) {
  constexpr int64_t kGpuAlignment = 16;
  const std::optional<int64_t> bytes = row_bytes(state);
  return bytes && (!target.is_cuda() || *bytes % kGpuAlignment == 0);
}

}  // namespace

std::vector<Tensor> with_updates(std::vector<Tensor> outputs,
                                 const std::vector<StateUpdate>& updates) {
  for (size_t u = 0; u < updates.size(); ++u) {
    if (!updates[u].state || !updates[u].next)
      throw_user_error("update " + std::to_string(u) + " names a Tensor that was never assigned");
    check(updates, u);
    if (position_of(outputs, updates[u].next) < 0) outputs.push_back(updates[u].next);
  }
  return outputs;
}

std::vector<StateUpdate> updates_at(const Instance& here, const std::vector<StateUpdate>& updates) {
  std::vector<StateUpdate> there;
  for (const StateUpdate& u : updates) {
    const bool read = std::any_of(here.tensors.begin(), here.tensors.end(),
                                  [&](const auto& t) { return t.first.same_as(u.state); });
    const Tensor next = here.of(u.next);
    there.push_back(
        {read ? here.of(u.state) : placeholder(next.shape(), next.dtype(), u.state.name()), next});
  }
  return there;
}

UpdatedGraph updated_graph(const ComputeDag& declared, const std::vector<StateUpdate>& updates,
                           const std::vector<size_t>& copied, const Target& target) {
  dag::ReplacedReads graph(declared);
  std::vector<StateWrite> writes;
  std::vector<PassApplication> changes;
  std::vector<Tensor> rows(declared.outputs().size());
  for (size_t u = 0; u < updates.size(); ++u) {
    const auto& [state, next] = updates[u];
    const int output = position_of(declared.outputs(), next);
    HEDDLE_ICHECK(output >= 0, "an update is an output");
    StateWrite& write = writes.emplace_back(StateWrite{static_cast<size_t>(output), state});
    write.copied = std::find(copied.begin(), copied.end(), write.output) != copied.end();
    const std::optional<RowUpdate> some = as_row_update(next);
    if (write.copied || !some || !some->state.same_as(state)) continue;
    if (!rows_are_aligned(state, target)) {
      changes.push_back({"updates", "all of '" + state.name() +
                                        "' is written, because its rows have no constant number "
                                        "of bytes, on a GPU a multiple of 16"});
      continue;
    }
    write.row = some->row;
    write.after = placeholder(state.shape(), state.dtype(), state.name(), next.op()->where());
    rows[write.output] = some->rows;
    graph.replace(next.op(), write.after);
  }
  graph.run();
  const auto rows_now = [&](const Tensor& t) {
    for (const StateWrite& write : writes) {
      if (write.after && declared.outputs()[write.output].same_as(t)) return write.after;
    }
    return graph.now(t);
  };
  std::vector<Tensor> outputs;
  for (size_t o = 0; o < rows.size(); ++o) {
    // A stage of its own, whatever else reads the rows.
    outputs.push_back(rows[o] ? copy_of(rows_now(rows[o]), declared.outputs()[o].name())
                              : graph.now(declared.outputs()[o]));
  }
  return {ComputeDag(std::move(outputs)), std::move(writes), std::move(changes)};
}

void end_products_before(const std::vector<StateWrite>& writes, const ComputeDag& graph,
                         FusionPlan& plan) {
  for (const StateWrite& write : writes) {
    const int output = graph.index_of(graph.outputs()[write.output].op());
    const std::vector<int> stages = plan.stages_of_node(plan.end_of_node(output));
    const bool reads = std::any_of(stages.begin(), stages.end(), [&](int s) {
      return position_of(graph.stage(s).inputs(), write.state) >= 0;
    });
    if (write.copied || write.row.defined() || !reads) continue;
    std::vector<int> open{output};
    while (!open.empty()) {
      const int s = open.back();
      open.pop_back();
      for (const int p : graph.info(s).producers) {
        if (plan.read_from_memory(p) || graph.info(p).precomputable) continue;
        if (graph.stage(p).is_reduction()) {
          plan.set(p, Place::ClosedByChoice);
        } else {
          open.push_back(p);
        }
      }
    }
  }
}

namespace {

/// Whether the node reads `state` only where it writes the same element, which it does once.
bool replaces_elements(const ExtractedNode& node, const Tensor& state) {
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
    // The first output of a stage is stored before the next one is computed.
    if (op.is_reduction() || op.num_outputs() > 1 || dag.info(s).scan ||
        !same_shape(op.output(0), read))
      return false;
    for (const Access& a : dag.info(s).reads) {
      if (!depends[a.producer]) continue;
      if (a.pattern != AccessPattern::Elementwise) return false;
      depends[s] = 1;
    }
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
      if (!write.copied) add(write, writers_.at(graph.outputs()[write.output].op()).front());
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
  void add(const StateWrite& write, size_t writer) {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const bool reads = position_of(nodes_[n].inputs, write.state) >= 0;
      if (write.after && position_of(nodes_[n].inputs, write.after) >= 0) before_[n].insert(writer);
      if (reads && n != writer) before_[writer].insert(n);
      if (reads && n == writer && (write.after || !replaces_elements(nodes_[n], write.state)))
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
  if (!order.impossible().empty()) return order.impossible();
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

std::vector<StatePlace> place_writes(const std::vector<StateWrite>& writes, const ComputeDag& graph,
                                     const std::vector<Tensor>& declared,
                                     std::vector<ExtractedNode>& nodes) {
  std::vector<StatePlace> places;
  for (const StateWrite& write : writes) {
    const Tensor& made = graph.outputs()[write.output];
    if (write.row.defined()) {
      places.push_back({made, write.state, write.row});
      places.push_back({write.after, write.state});
    } else if (!write.copied) {
      places.push_back({declared[write.output], write.state});
    } else {
      ExtractedNode& node = nodes.emplace_back();
      const Tensor from = placeholder(made.shape(), made.dtype(), made.name(), made.op()->where());
      node.inputs = {made};
      node.task_inputs = {from};
      node.task_outputs = {copy_of(from, write.state.name())};
      node.outputs = {copy_of(made, write.state.name())};
      node.dag.emplace(node.task_outputs);
      places.push_back({node.outputs[0], write.state});
    }
  }
  return places;
}

}  // namespace heddle::network
