// The places of the arrays of a network's steps, planned before they exist.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/network/network.h"

namespace heddle::network {

/// Each step takes its inputs, then its outputs.
struct StepPlan {
  /// An array owned by others: an argument of the network, or a constant that it supplies.
  struct Binding {
    size_t array = 0, step = 0, position = 0;
  };
  /// A buffer between two steps: a place in the arena.
  struct Between {
    size_t step = 0, position = 0;
    int64_t offset = 0;          ///< bytes
    std::vector<int64_t> shape;  ///< the largest
    DataType dtype;
    std::vector<SymbolicExtent> symbolic = {};  ///< what of it depends on the sizes of a call
  };
  std::vector<size_t> step_args;  ///< number of arrays of each step
  std::vector<Binding> bindings;  ///< `array` counts the arguments
  std::vector<Binding> bound;     ///< `array` counts the constants of the network
  std::vector<Between> between;
  int64_t arena_bytes = 0;
};

/// The extents of `t` at the largest sizes.
Extents largest_extents(const Tensor& t);

/// The position of `t` in `list`, or -1.
int position_of(const std::vector<Tensor>& list, const Tensor& t);

/// `tensors` are the `num_args` arguments of the network, then its constants. All other tensors
/// between nodes share an arena, by lifetimes (plan_memory). `places` are tensors that are inside
/// of others. `sizes` are those of a network over dimensions.
StepPlan plan_steps(const std::vector<NetworkNode>& nodes, const std::vector<Tensor>& tensors,
                    size_t num_args, const std::vector<TensorPlace>& places,
                    const std::vector<Var>& sizes = {});

}  // namespace heddle::network
