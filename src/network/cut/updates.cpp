#include "network/cut/updates.h"

#include <algorithm>
#include <utility>

#include "dag/replace_reads.h"
#include "dag/sizes/repeats.h"
#include "dsl/computed_for_loops.h"
#include "heddle/dsl/update.h"
#include "heddle/support/error.h"
#include "network/cut/loops.h"
#include "network/cut/scattered_update.h"
#include "network/cut/step_plan.h"

namespace heddle::network {

bool same_shape(const Tensor& a, const Tensor& b) {
  return std::equal(a.shape().begin(), a.shape().end(), b.shape().begin(), b.shape().end(),
                    [](const Expr& x, const Expr& y) { return equal(x, y); });
}

namespace {

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

/// The bytes of a row of which places are counted.
std::optional<int64_t> row_bytes(const ScatteredUpdate& update) {
  int64_t bytes = update.rows.dtype().bytes();
  for (size_t d = update.places.shape().size(); d < update.rows.shape().size(); ++d) {
    const int64_t* extent = as_int(update.rows.shape()[d]);
    if (!extent) return std::nullopt;
    bytes *= *extent;
  }
  return bytes;
}

}  // namespace

bool rows_are_aligned(int64_t bytes, const Target& target) {
  constexpr int64_t kGpuAlignment = 16;
  return !target.is_cuda() || bytes % kGpuAlignment == 0;
}

Updates needed_updates(const std::vector<Tensor>& outputs, Updates updates) {
  std::vector<Tensor> all = outputs;
  for (const StateUpdate& u : updates) {
    if (u.next) all.push_back(u.next);
  }
  updates.repeats = needed_repeats(all, std::move(updates.repeats));
  return updates;
}

std::vector<Tensor> with_updates(std::vector<Tensor> outputs, const Updates& updates) {
  check_loops(updates.repeats);
  for (size_t u = 0; u < updates.size(); ++u) {
    if (!updates[u].state || !updates[u].next)
      throw_user_error("update " + std::to_string(u) + " names a Tensor that was never assigned");
    check(updates, u);
    if (position_of(outputs, updates[u].next) < 0) outputs.push_back(updates[u].next);
  }
  for (const Tensor& t : computed_for(updates.repeats)) {
    if (position_of(outputs, t) < 0) outputs.push_back(t);
  }
  return outputs;
}

Updates updates_at(const Instance& here, const Updates& updates) {
  Updates there({}, dag::repeats_in(here, updates.repeats));
  for (const StateUpdate& u : updates) {
    const bool read = std::any_of(here.tensors.begin(), here.tensors.end(),
                                  [&](const auto& t) { return t.first.same_as(u.state); });
    const Tensor next = here.of(u.next);
    there.push_back(
        {read ? here.of(u.state) : placeholder(next.shape(), next.dtype(), u.state.name()), next});
  }
  return there;
}

ComputeDag graph_to_cut(const std::vector<Tensor>& outputs, const std::vector<StateUpdate>& updates,
                        const Target& target, const std::vector<size_t>& copied) {
  ComputeDag declared(outputs);
  return updates.empty() ? std::move(declared)
                         : updated_graph(declared, updates, copied, target).graph;
}

UpdatedGraph updated_graph(const ComputeDag& declared, const std::vector<StateUpdate>& updates,
                           const std::vector<size_t>& copied, const Target& target) {
  std::vector<StateWrite> writes;
  std::vector<PassApplication> changes;
  std::vector<Tensor> rows(declared.outputs().size()), all = declared.outputs();
  ScatteredUpdates scattered;
  for (size_t u = 0; u < updates.size(); ++u) {
    const auto& [state, next] = updates[u];
    const int output = position_of(declared.outputs(), next);
    HEDDLE_ICHECK(output >= 0, "an update is an output");
    StateWrite& write = writes.emplace_back(StateWrite{static_cast<size_t>(output), state});
    write.copied = std::find(copied.begin(), copied.end(), write.output) != copied.end();
    if (write.copied) continue;
    const std::optional<RowUpdate> some = as_row_update(next);
    const std::optional<ScatteredUpdate> at_places = some ? std::nullopt : scattered.find(next);
    if (!(some && some->state.same_as(state)) && !(at_places && at_places->state.same_as(state)))
      continue;
    const std::optional<int64_t> bytes = some ? row_bytes(state) : row_bytes(*at_places);
    if (!bytes || !rows_are_aligned(*bytes, target)) {
      changes.push_back({"updates", "all of '" + state.name() +
                                        "' is written, because its rows have no constant number "
                                        "of bytes, on a GPU a multiple of 16"});
      continue;
    }
    if (some) write.row = some->row;
    write.scattered = !some;
    write.after = placeholder(state.shape(), state.dtype(), state.name(), next.op()->where());
    rows[write.output] = some ? some->rows : at_places->rows;
    if (write.scattered) all.push_back(rows[write.output]);
  }
  const ComputeDag dag(std::move(all));
  dag::ReplacedReads graph(dag);
  for (const StateWrite& write : writes) {
    if (write.after) graph.replace(declared.outputs()[write.output].op(), write.after);
  }
  graph.run();
  const auto rows_now = [&](const Tensor& t) {
    for (const StateWrite& write : writes) {
      if (write.after && declared.outputs()[write.output].same_as(t)) return write.after;
    }
    return graph.now(t);
  };
  std::vector<Tensor> outputs;
  for (const Tensor& t : declared.outputs()) outputs.push_back(graph.now(t));
  for (const StateWrite& write : writes) {
    if (!write.after) continue;
    const Tensor& own = rows[write.output];
    // A stage of its own, whatever else reads the rows.
    outputs[write.output] = write.scattered
                                ? graph.now(own)
                                : copy_of(rows_now(own), declared.outputs()[write.output].name());
  }
  return {ComputeDag(std::move(outputs)), std::move(writes), std::move(changes)};
}

void end_nodes_before(const std::vector<StateWrite>& writes, const ComputeDag& graph,
                      FusionPlan& plan) {
  for (const StateWrite& write : writes) {
    const int output = graph.index_of(graph.outputs()[write.output].op());
    if (write.scattered) {
      for (const int p : graph.info(output).producers) {
        if (!graph.stage(p).is_placeholder() && !graph.info(p).precomputable)
          plan.set(p, Place::Stored);
      }
      continue;
    }
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

std::vector<StatePlace> place_writes(const std::vector<StateWrite>& writes, const ComputeDag& graph,
                                     const std::vector<Tensor>& declared,
                                     std::vector<ExtractedNode>& nodes) {
  std::vector<StatePlace> places;
  for (const StateWrite& write : writes) {
    const Tensor& made = graph.outputs()[write.output];
    if (write.row.defined()) {
      places.push_back({made, write.state, write.row});
      places.push_back({write.after, write.state});
    } else if (write.scattered) {
      const auto writer = std::find_if(nodes.begin(), nodes.end(), [&](const ExtractedNode& n) {
        return position_of(n.outputs, made) >= 0;
      });
      const auto input = static_cast<size_t>(places_input(*writer));
      places.push_back({made, write.state, {}, writer->inputs[input]});
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
