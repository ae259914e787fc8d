// The places of the arrays of a network's steps, planned before they exist.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heddle/network/network.h"
#include "runtime/program/places.h"

namespace heddle::network {

struct StepPlan {
  /// Of the inputs of each step, then of its outputs: Argument, View, Array (a constant that the
  /// network supplies), or Arena.
  std::vector<std::vector<ProgramPlace>> places;
  std::vector<ProgramPlace> scratch = {};  ///< of each step's workspaces; Nothing where it has none
  int64_t arena_bytes = 0;
  std::vector<ProgramView> views;  ///< that places name, of arguments
  std::vector<TurnPlace> turns = {};
  std::vector<ProgramLoop> loops = {};
};

/// The extents of `t` at the largest sizes.
Extents largest_extents(const Tensor& t);

/// The position of `t` in `list`, or -1.
int position_of(const std::vector<Tensor>& list, const Tensor& t);

/// The position in `states` of the place in which `t` lies, or -1.
int position_of(const std::vector<StatePlace>& states, const Tensor& t);

/// A sum of sizes times constants, which `e` must be.
SizeSum size_sum(const Expr& e, const std::vector<Var>& sizes);

/// The bytes of a row of `state`; nothing where its shape is not constant.
std::optional<int64_t> row_bytes(const Tensor& state);

/// The rows of `argument` where `place` lies, which has a row.
ProgramView view_of(const StatePlace& place, size_t argument, const std::vector<Var>& sizes);

/// `tensors` are the `num_args` arguments of the network, then its constants. All other tensors
/// between nodes share an arena, by lifetimes (plan_memory). `inside` are tensors that are parts of
/// others, and `states` those that lie in arguments. `sizes` are those of a call. `loops` are of
/// `repeats`, over these steps. `scratch` is the bytes of each step's workspaces, which live as long as it
/// runs; empty: none has any.
StepPlan plan_steps(const std::vector<NetworkNode>& nodes, const std::vector<Tensor>& tensors,
                    size_t num_args, const std::vector<TensorPlace>& inside,
                    const std::vector<StatePlace>& states, const std::vector<Var>& sizes,
                    const std::vector<NetworkLoop>& loops = {},
                    const std::vector<Repeat>& repeats = {},
                    const std::vector<int64_t>& scratch = {});

}  // namespace heddle::network
