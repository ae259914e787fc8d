// The pass "horizontal": nodes of a network for a GPU that do not depend on each other, and that
// each leave most of the GPU idle, share a launch (lower/gpu/memory/join_kernels.h).
//
//   x -> squeeze -+-> conv 1x1 (12 blocks) -+-> ...        4 launches before
//                 +-> conv 3x3 (26 blocks) -+
//
//   x -> squeeze ---> conv 1x1 | conv 3x3 (38 blocks) --> ...        3 launches after
#pragma once

#include <map>
#include <string>
#include <vector>

#include "heddle/lower/gpu_program.h"
#include "heddle/network/network.h"
#include "heddle/support/function_ref.h"
#include "network/cut/family_tasks.h"

namespace heddle::network {

/// The steps of a network: its nodes in an order in which they can run, some of which are one step.
/// Nodes of one step are alive at the same time, so their buffers share no memory.
struct StepNodes {
  /// As nodes of the network: for a step of several its inputs are those of all, then its outputs.
  /// The task is that of the first.
  std::vector<NetworkNode> steps;
  std::vector<std::vector<int>> nodes;  ///< of each step, as positions in Network::nodes()
  std::vector<std::vector<int>> tasks;  ///< of each step, one for each node
};

/// Each node is a step.
StepNodes separate_steps(const std::vector<NetworkNode>& nodes);

/// Joins nodes that are ready to run at the same time. All launches that become one fit on the GPU
/// at once, as far as threads, shared memory and usual numbers of registers say; they run in about
/// the time of the longest, where one after the other takes the sum. Blocks of a step differ in
/// size by at most a factor of two, or are small, because registers are shared out by the largest.
/// `program` gives the kernels of a task, or null for one that stays alone.
StepNodes horizontal_steps(const std::vector<NetworkNode>& nodes,
                           const std::vector<TensorPlace>& places,
                           const std::vector<StatePlace>& states, const Gpu& gpu,
                           FunctionRef<const GpuProgram*(int task)> program);

/// The steps of a network whose kernels are compiled from `variants`, by its options.
class NetworkSteps {
 public:
  NetworkSteps(const Network& network, const Target& target,
               const std::vector<TaskVariants>& variants);

  const StepNodes& nodes() const { return steps_; }
  const Gpu& gpu() const { return target_.gpu; }
  /// The tasks of which a node is a step of its own.
  bool needs(int task) const;
  /// The different lists of tasks of steps of several nodes.
  const std::vector<std::vector<int>>& joined() const { return joined_; }
  /// The position of the step's tasks in joined(); -1 for a step of one node.
  int joined_of(size_t step) const;

  /// The program of joined()[j], whose args are in the order of a step: all inputs, then all
  /// outputs.
  struct Program {
    GpuProgram program;
    std::vector<Tensor> args;
    KernelWork work;
  };
  Program program(size_t j) const;
  /// The name of its kernels: "network_tasks_3_5".
  std::string name(size_t j) const;
  /// "conv2d f32[1,8,8,64] | conv2d f32[1,8,8,32]".
  std::string text(const Network& network, size_t step) const;
  /// The launches of all steps that are shared.
  std::vector<PassApplication> applications(const Network& network) const;

 private:
  const GpuProgram* lowered(int task);

  Target target_;
  const std::vector<TaskVariants>* variants_;
  std::map<int, GpuProgram> programs_;
  StepNodes steps_;
  std::vector<std::vector<int>> joined_;
};

}  // namespace heddle::network
