#include "network/cut/step_plan.h"

#include <algorithm>

#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "network/memory_plan.h"

namespace heddle::network {
namespace {

int64_t bytes_of(const Tensor& t) {
  int64_t bytes = t.dtype().bytes();
  for (int64_t e : largest_extents(t)) bytes *= e;
  return bytes;
}

}  // namespace

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

StepPlan plan_steps(const std::vector<NetworkNode>& nodes, const std::vector<Tensor>& tensors,
                    size_t num_args, const std::vector<TensorPlace>& inside) {
  const auto place_of = [&](const Tensor& t) {
    const auto it = std::find_if(inside.begin(), inside.end(),
                                 [&](const TensorPlace& p) { return p.tensor.same_as(t); });
    return it == inside.end() ? TensorPlace{t, t, 0} : *it;
  };
  std::vector<Tensor> passed;  // tensors with memory of their own
  std::vector<BufferLifetime> lifetimes;
  for (size_t n = 0; n < nodes.size(); ++n) {
    const int step = static_cast<int>(n);
    for (const Tensor& t : nodes[n].inputs) {
      if (const int b = position_of(passed, place_of(t).whole); b >= 0) lifetimes[b].last = step;
    }
    for (const Tensor& t : nodes[n].outputs) {
      if (position_of(tensors, t) >= 0) continue;
      const Tensor whole = place_of(t).whole;
      if (const int b = position_of(passed, whole); b >= 0) {
        lifetimes[b].last = step;
        continue;
      }
      passed.push_back(whole);
      lifetimes.push_back({bytes_of(whole), step, step});
    }
  }
  const MemoryPlan memory = plan_memory(lifetimes);
  StepPlan plan;
  plan.arena_bytes = memory.bytes;
  for (const NetworkNode& node : nodes) {
    std::vector<Tensor> list = node.inputs;
    list.insert(list.end(), node.outputs.begin(), node.outputs.end());
    std::vector<ProgramPlace>& of_step = plan.places.emplace_back();
    for (const Tensor& t : list) {
      if (const int at = position_of(tensors, t); at >= 0) {
        const auto array = static_cast<size_t>(at);
        const bool given = array < num_args;
        of_step.push_back({given ? ProgramPlace::Argument : ProgramPlace::Array,
                           static_cast<int64_t>(given ? array : array - num_args)});
        continue;
      }
      const TensorPlace place = place_of(t);
      const int b = position_of(passed, place.whole);
      HEDDLE_ICHECK(b >= 0, "'" + t.name() + "' is read before any node wrote it");
      of_step.push_back({ProgramPlace::Arena, memory.offsets[b] + place.offset});
    }
  }
  return plan;
}

}  // namespace heddle::network
