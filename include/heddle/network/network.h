// Network: a declaration with many stages, cut into tasks that are tuned, compiled and run apart.
//
//   Network net({logits});                       // fused by the DAG: one task a group of stages
//   TuneReport report = tune(net, {.budget = 60s, .log = "lenet.jsonl"});
//   NetworkKernel run = net.build({image, logits}, report);  // weights: constant(array)
//   run(x, y);
//   std::cout << run.profile({x, y});
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/runtime/kernel.h"
#include "heddle/search/tune.h"

namespace heddle {

/// One call of a task within the network.
struct NetworkNode {
  int task = -1;
  std::vector<Tensor> inputs, outputs;  ///< of the network's declaration, in the task's order
};

class NetworkKernel;

class Network {
 public:
  /// `options`: of every task; those of this thread's scope, if nothing else is said.
  explicit Network(std::vector<Tensor> outputs, const Target& target = Target::host(),
                   const AutoSchedulerOptions& options = current_auto_scheduler_options());

  /// Distinct tasks (equal structural hashes are one), weights = number of nodes that call them.
  const std::vector<TuneTask>& tasks() const;
  /// In an order in which they can run.
  const std::vector<NetworkNode>& nodes() const;
  const std::vector<Tensor>& outputs() const;
  std::string to_text() const;  ///< a table of nodes: task, shapes, calls

  /// One a task: the analytic rules' choice, whatever was recorded; and the untuned reference.
  std::vector<Schedule> static_schedules() const;
  std::vector<Schedule> naive_schedules() const;

  /// A kernel a task (compiled in parallel), from `schedules` (one a task; empty: what
  /// create_schedule chooses, a record or the rules), and buffers for what passes between nodes,
  /// shared where lifetimes do not overlap. `args`: placeholders and outputs of the network in call
  /// order; those with values (`constant`) may be left out, and the kernel supplies them.
  NetworkKernel build(const std::vector<Tensor>& args,
                      const std::vector<Schedule>& schedules = {}) const;
  NetworkKernel build(const std::vector<Tensor>& args, const TuneReport& report) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// Runs the nodes in turn; outputs are written directly. Arguments are checked as those of a Kernel
/// are. What depends on constant arguments alone is prepared at the first call, for each node its
/// own. Safe from several threads at once, each call with buffers of its own; copies share
/// everything.
///
/// For a CUDA target the arrays live on the GPU, or all on the CPU: then they are copied there and
/// back. From the second call with the same arrays on, a call is the launch of one CUDA graph; the
/// graphs of the last four sets are kept, and the arrays with them. Calls are one after the other
/// on the GPU, whatever their streams: they share the buffers between nodes.
class NetworkKernel {
 public:
  template <class... A>
  void operator()(const A&... arrays) const {
    const std::array<NDArray, sizeof...(A)> list = {NDArray(arrays)...};
    call(list);
  }
  void call(std::span<const NDArray> arrays) const;
  /// Computes what depends on constants alone, so that the first call takes no longer than others.
  /// Arrays that are not constant may be undefined here.
  void prepare(std::span<const NDArray> arrays) const;
  /// The same for a network all of whose constants have values; else a User error.
  void prepare() const;
  /// Where the time of a call with these arrays goes, node by node: runs them for about so many
  /// seconds. Print it, or take its to_json().
  Profile profile(const std::vector<NDArray>& arrays, double seconds = 1) const;
  /// Forget what was derived from constant arguments: the next call computes it anew.
  void refresh() const;
  const std::vector<KernelArg>& args() const;
  int64_t workspace_bytes() const;  ///< of the buffers between nodes; for each call at a time
  explicit operator bool() const { return static_cast<bool>(impl_); }

 private:
  friend class Network;
  struct Impl;
  Impl& impl() const;  // throws when there is none
  std::shared_ptr<Impl> impl_;
};

TuneReport tune(const Network& network, const TuneOptions& options = {});

}  // namespace heddle
