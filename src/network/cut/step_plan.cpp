#include "network/cut/step_plan.h"

#include <algorithm>
#include <optional>

#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "network/cut/loops.h"
#include "network/cut/memory/buffer_graph.h"

namespace heddle::network {
Extents largest_extents(const Tensor& t) {
  Extents largest;
  for (const Expr& e : t.shape()) largest.push_back(largest_extent(e));
  return largest;
}

int position_of(const std::vector<Tensor>& list, const Tensor& t) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].same_as(t)) return static_cast<int>(i);
  }
  return -1;
}

int position_of(const std::vector<StatePlace>& states, const Tensor& t) {
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].tensor.same_as(t)) return static_cast<int>(i);
  }
  return -1;
}

SizeSum size_sum(const Expr& e, const std::vector<Var>& sizes) {
  const std::optional<Affine> sum = as_affine(e);
  HEDDLE_ICHECK(sum.has_value(), "rows are counted by sums of sizes");
  SizeSum out{sum->constant, {}};
  for (const Var& size : sizes) out.factors.push_back(sum->coefficient(size));
  return out;
}

std::optional<int64_t> row_bytes(const Tensor& state) {
  int64_t bytes = state.dtype().bytes();
  for (size_t d = 1; d < state.shape().size(); ++d) {
    const int64_t* extent = as_int(state.shape()[d]);
    if (!extent) return std::nullopt;
    bytes *= *extent;
  }
  return bytes;
}

ProgramView view_of(const StatePlace& place, size_t argument, const std::vector<Var>& sizes) {
  const std::optional<int64_t> bytes = row_bytes(place.state);
  HEDDLE_ICHECK(bytes, "a row of a state has a constant shape");
  return {argument, *bytes, size_sum(place.row, sizes), size_sum(place.tensor.shape()[0], sizes),
          size_sum(place.state.shape()[0], sizes)};
}

namespace {

/// The tensors that lie in arguments.
class StatesOfPlan {
 public:
  /// Adds the parts of arguments to `views`.
  StatesOfPlan(const std::vector<StatePlace>& states, const std::vector<Tensor>& tensors,
               const std::vector<Var>& sizes, std::vector<ProgramView>& views)
      : states_(states) {
    for (const StatePlace& s : states) {
      const int argument = position_of(tensors, s.state);
      HEDDLE_ICHECK(argument >= 0, "an updated input is an argument");
      places_.push_back({ProgramPlace::Argument, argument});
      if (!s.row.defined()) continue;
      places_.back() = {ProgramPlace::View, std::ssize(views)};
      views.push_back(view_of(s, static_cast<size_t>(argument), sizes));
    }
  }
  /// Null for all other tensors.
  const ProgramPlace* find(const Tensor& t) const {
    const int at = position_of(states_, t);
    return at < 0 ? nullptr : &places_[static_cast<size_t>(at)];
  }

 private:
  const std::vector<StatePlace>& states_;
  std::vector<ProgramPlace> places_;
};

}  // namespace

StepPlan plan_steps(const std::vector<NetworkNode>& nodes, const std::vector<Tensor>& tensors,
                    size_t num_args, const std::vector<TensorPlace>& inside,
                    const std::vector<StatePlace>& states, const std::vector<Var>& sizes,
                    const std::vector<NetworkLoop>& loops, const std::vector<Repeat>& repeats,
                    const std::vector<int64_t>& scratch) {
  StepPlan plan;
  LoopPlaces of_loops(repeats, loops, sizes);
  const StatesOfPlan in_arguments(states, tensors, sizes, plan.views);
  BufferGraph buffers(inside, [&](const Tensor& t) {
    return position_of(tensors, t) >= 0 || in_arguments.find(t) != nullptr;
  });
  for (const NetworkNode& node : nodes)
    buffers.add_node(of_loops.memory_of(node.inputs), of_loops.memory_of(node.outputs));
  std::vector<BufferLifetime> lifetimes = buffers.lifetimes();
  of_loops.extend(buffers, lifetimes);
  const size_t between = lifetimes.size();
  for (size_t s = 0; s < scratch.size(); ++s)
    lifetimes.push_back({scratch[s], static_cast<int>(s), static_cast<int>(s)});
  const MemoryPlan memory = plan_memory(lifetimes);
  for (size_t s = 0; s < nodes.size(); ++s) {
    const bool any = s < scratch.size() && scratch[s] > 0;
    plan.scratch.push_back(any ? ProgramPlace{ProgramPlace::Scratch, memory.offsets[between + s]}
                               : ProgramPlace{});
  }
  plan.arena_bytes = memory.bytes;
  plan.loops = of_loops.loops();
  const auto place_of = [&](const Tensor& t) -> ProgramPlace {
    if (const ProgramPlace* state = in_arguments.find(t)) return *state;
    if (const int at = position_of(tensors, t); at >= 0) {
      const auto array = static_cast<size_t>(at);
      const bool given = array < num_args;
      return {given ? ProgramPlace::Argument : ProgramPlace::Array,
              static_cast<int64_t>(given ? array : array - num_args)};
    }
    const int b = buffers.find(t);
    HEDDLE_ICHECK(b >= 0, "'" + t.name() + "' is read before any node wrote it");
    return {ProgramPlace::Arena, memory.offsets[b] + buffers.place_of(t).offset};
  };
  for (const NetworkNode& node : nodes) {
    std::vector<Tensor> list = node.inputs;
    list.insert(list.end(), node.outputs.begin(), node.outputs.end());
    std::vector<ProgramPlace>& of_step = plan.places.emplace_back();
    for (const Tensor& t : list) {
      const std::optional<ProgramPlace> of_turn = of_loops.find(t, place_of, plan.turns);
      of_step.push_back(of_turn ? *of_turn : place_of(t));
    }
  }
  return plan;
}

}  // namespace heddle::network
