// The pass "horizontal": nodes of a network for a GPU that do not depend on each other, and that
// each leave most of the GPU idle, share a launch (lower/gpu/memory/join_kernels.h).
//
//   x -> squeeze -+-> conv 1x1 (12 blocks) -+-> ...        4 launches before
//                 +-> conv 3x3 (26 blocks) -+
//
//   x -> squeeze ---> conv 1x1 | conv 3x3 (38 blocks) --> ...        3 launches after
//
// All launches that become one fit on the GPU at once, as far as threads, shared memory and usual numbers of
// registers say; they run in about the time of the longest, where one after the other takes the sum. Copies of
// operands, which only move elements for a launch after them, may have a few rounds of blocks. Blocks of
// a step differ in size by at most a factor of two, or are small, because registers are shared out by the
// largest. Kernels over sizes fit if they do at the smallest ones: their threads work alone and take nothing
// from each other, so large calls take what they take one after the other.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "heddle/lower/gpu_program.h"
#include "heddle/network/network.h"
#include "network/cut/sizes/family_tasks.h"
#include "network/cut/sizes/joined_sizes.h"

namespace heddle::network {

/// The steps of a network: its nodes in an order in which they can run, some of which are one step.
/// Nodes of one step are alive at the same time, so their buffers share no memory.
struct StepNodes {
  /// As nodes of the network: for a step of several its inputs are those of all, then its outputs.
  /// The task is that of the first.
  std::vector<NetworkNode> steps;
  std::vector<std::vector<int>> nodes;  ///< of each step, as positions in Network::nodes()
  std::vector<std::vector<int>> tasks;  ///< of each step, one for each node
  std::vector<NetworkLoop> loops = {};  ///< over the steps
};

/// The steps of a network whose kernels are compiled from `variants`, by its options.
class NetworkSteps {
 public:
  NetworkSteps(const Network& network, const Target& target,
               const std::vector<TaskVariants>& variants);

  /// Tasks whose nodes are one step. It has a kernel for each combination of their variants.
  struct Joined {
    std::vector<int> tasks;
    JoinedSizes sizes;
    size_t first = 0;  ///< the number of its first kernel
  };

  const StepNodes& nodes() const { return steps_; }
  const Gpu& gpu() const { return target_.gpu; }
  /// The tasks of which a node is a step of its own.
  bool needs(int task) const;
  /// That of a step; null for a step of one node.
  const Joined* joined_of(size_t step) const;
  /// The number of kernels of all steps of several nodes.
  size_t joined_kernels() const { return kernels_; }

  /// The program of kernel `k` of these, whose args are in the order of a step: all inputs, then all
  /// outputs.
  struct Program {
    GpuProgram program;
    std::vector<Tensor> args;
    KernelWork work;
  };
  Program program(size_t k) const;
  /// The name of its kernels: "network_tasks_3_5".
  std::string name(size_t k) const;
  /// "conv2d f32[1,8,8,64] | conv2d f32[1,8,8,32]".
  std::string text(const Network& network, size_t step) const;
  /// The launches of all steps that are shared.
  std::vector<PassApplication> applications(const Network& network) const;

 private:
  const GpuProgram& lowered(int task, int variant);
  bool fit(const std::vector<int>& tasks);
  /// The tasks of kernel `k`, and which of its combinations it is.
  std::pair<const Joined*, size_t> joined_kernel(size_t k) const;

  Target target_;
  const std::vector<TaskVariants>* variants_;
  std::map<std::pair<int, int>, GpuProgram> programs_;  ///< by task and variant
  StepNodes steps_;
  std::vector<Joined> joined_;
  size_t kernels_ = 0;
};

}  // namespace heddle::network
