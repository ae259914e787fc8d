// Network: a declaration with many stages, cut into tasks that are tuned, compiled and run
// separately.
//
//   Network net({logits});                       // fused by the DAG: one task a group of stages
//   TuneReport report = tune(net, {.budget = 60s, .log = "lenet.jsonl"});
//   NetworkKernel run = net.build({image, logits}, report);  // weights: constant(array)
//   run(x, y);
//   std::cout << run.profile({x, y});
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/dag/instance.h"
#include "heddle/dsl/update.h"
#include "heddle/network/passes.h"
#include "heddle/runtime/kernel.h"
#include "heddle/runtime/pick_row.h"
#include "heddle/runtime/pick_store.h"
#include "heddle/search/tune.h"
#include "heddle/support/function_ref.h"

namespace heddle {

class Network;

namespace network {
class TimedNetwork;
class VariantRunner;
class SizeRace;
struct TaskFamily;
struct TaskVariants;
/// What the tasks of a network are over dimensions, one for each of Network::tasks().
const std::vector<TaskFamily>& families_of(const Network& network);
/// The kernels of each task of a network, of which `schedules` has one for each. A task over
/// dimensions has them all at the first of its places.
std::vector<TaskVariants> task_variants(const Network& network,
                                        const std::vector<Schedule>& schedules);
}  // namespace network

/// One call of a task within the network.
struct NetworkNode {
  int task = -1;                        ///< the first of several, in a network over dimensions
  std::vector<Tensor> inputs, outputs;  ///< tensors of the network, in the order of the task
};

/// A tensor between nodes that shares memory with another: its memory begins `offset` bytes into
/// that of `whole`, which is not part of a third one.
struct TensorPlace {
  Tensor tensor, whole;
  int64_t offset = 0;
};

/// A tensor between nodes that lies in the memory of an input which calls update. Its first row is
/// the row `row` of the input; where that is not defined, it is the whole input. With `places`, row q
/// of the tensor is row places(q) of the input (StageRef::scatter_rows).
struct StatePlace {
  Tensor tensor, state;
  Expr row = {};
  Tensor places = {};
};

/// Nodes that a call runs several times, one after the other: a Repeat (dsl/repeat.h).
struct NetworkLoop {
  size_t repeat = 0;          ///< its number in Network::updates().repeats
  size_t begin = 0, end = 0;  ///< its nodes are those from `begin` to `end` - 1
  Expr turns;
};

class NetworkKernel;
struct TaskKernels;
struct NetworkPlan;
struct PlanUse;

/// How a network settles choices that are unsure.
struct SettleOptions {
  /// Where picks are looked up and remembered; null: nowhere.
  std::shared_ptr<const PickStore> store = PickStore::standard();
  /// Times a run of a variant of a step, which is the given function, in seconds. It is for tests.
  /// Empty: the steady clock, or events on a GPU.
  std::function<double(size_t step, size_t variant, FunctionRef<void()> run)> time = {};
};

/// Figures of a build: the kernels of a network and the cache on the disk.
struct NetworkBuildReport {
  int kernels = 0;
  int from_disk = 0;  ///< of these, kernels whose code another process had left on the disk
  /// Bytes of packed weights. Those that several kernels of a node share count once.
  int64_t prepared_bytes = 0;
  int damaged = 0;  ///< of these, kernels whose file on the disk was damaged, and was replaced
};

/// A declaration cut into tasks, one kernel for each node (docs/internals/decisions/networks.md).
class Network {
 public:
  /// `options` apply to every task. The default is those of this thread's scope. `passes` rewrite
  /// the graph before it is cut. Calls write the `next` of each of `updates` into the memory of its
  /// input, after all that reads the old contents. Where no order of the nodes allows that, the
  /// result is copied there at the end of the call, and passes() says so. A User error for an update
  /// of a constant, of an input that another one updates, or of another shape or type. What turns of
  /// loops read and write lies between nodes and is no argument.
  explicit Network(std::vector<Tensor> outputs, const Target& target = Target::host(),
                   const AutoSchedulerOptions& options = current_auto_scheduler_options(),
                   const PassOptions& passes = {}, Updates updates = {});

  /// The distinct tasks; nodes of equal structural hash are one task. The weight is the number of
  /// nodes that call it. In a network over dimensions (dsl/dim.h) a node that depends on them has
  /// several tasks, one after the other: the same declaration at up to six sizes. A schedule for
  /// one of them is used at its sizes and at those below, down to the sizes of the one before.
  const std::vector<TuneTask>& tasks() const;
  /// The tasks for tuning: they know how much memory the weights of all nodes take
  /// (TuneTask::network_bytes).
  std::vector<TuneTask> tasks_to_tune() const;
  /// The calls, in an order in which they can run. Their inputs and outputs are those of the
  /// network, and between them tensors of the graph as the passes rewrote it.
  const std::vector<NetworkNode>& nodes() const;
  /// As declared, then those of the updates, then what loops read and write.
  const std::vector<Tensor>& outputs() const;
  const Updates& updates() const;
  /// The nodes of each loop, in the order of nodes().
  const std::vector<NetworkLoop>& loops() const;
  /// The tensors that lie in the memory of updated inputs.
  const std::vector<StatePlace>& states() const;
  /// The sizes that calls give, for a network over dimensions.
  const std::vector<Var>& sizes() const;
  /// Tensors between nodes that share memory with others.
  const std::vector<TensorPlace>& places() const;
  /// The requested passes, and what they changed.
  const PassOptions& pass_options() const;
  const std::vector<PassApplication>& passes() const;
  /// The nodes of a network for a GPU that share launches (the pass "horizontal"), with these
  /// schedules or, where there are none, with those that build() chooses. Lowers the schedules.
  std::vector<PassApplication> shared_launches(const std::vector<Schedule>& schedules = {}) const;
  /// The choices about parts of this network that can be made the other way: by
  /// PassOptions::choices, or by tuning.
  const std::vector<NetworkChoice>& choices() const;
  /// The same declaration, for the same target, after other passes.
  Network with_passes(const PassOptions& passes) const;
  /// The network of a declaration with the choices of a plan (network/plan.h), in place of those of
  /// records and rules: those about the graph, and the kernels that build() and export_network() use
  /// where they are given none. What does not hold here is left out: choices about the graph that
  /// this declaration does not have, nodes of other declarations, and steps that are not legal for
  /// this target. plan_use() tells.
  static Network planned(std::vector<Tensor> outputs, const NetworkPlan& plan,
                         const Target& target = Target::host(),
                         const AutoSchedulerOptions& options = current_auto_scheduler_options(),
                         Updates updates = {});
  /// The same for this declaration, target and options.
  Network with_plan(const NetworkPlan& plan) const;
  /// The plan, and what was taken from it; null without one.
  const NetworkPlan* plan() const;
  const PlanUse* plan_use() const;
  /// The same declaration with constants for its sizes, after the same passes. Throws a User error
  /// where a size has no value.
  Network at(const std::vector<SizeValue>& values) const;
  /// The network that the tasks of a report of tune(Network) are of: this one, or with the choices
  /// about its graph that tuning took.
  Network as_tuned(const TuneReport& report) const;
  std::string to_text() const;  ///< a table of nodes: task, shapes, calls

  /// One schedule for each task: the static choice, without records; and the naive reference.
  std::vector<Schedule> static_schedules() const;
  std::vector<Schedule> naive_schedules() const;

  /// Compiles a kernel for each task, in parallel, from `schedules` (one for each task; empty: the
  /// choice of the plan, or of create_schedule, which is a record or the rules, and the recorded
  /// kernels of tasks over dimensions). Buffers between nodes share memory
  /// where their lifetimes do not overlap. Code is kept on the disk for the next process
  /// (support/disk_cache.h; the environment variable HEDDLE_CACHE=off turns that off). `args` are
  /// the placeholders and outputs of the network in call order. Constants with values may be left
  /// out: the kernel supplies them. Outputs that lie in the memory of an input are left out. An
  /// input that nothing reads may be listed where its shape gives a size.
  NetworkKernel build(const std::vector<Tensor>& args,
                      const std::vector<Schedule>& schedules = {}) const;
  /// The same of as_tuned(report), with its schedules.
  NetworkKernel build(const std::vector<Tensor>& args, const TuneReport& report) const;
  /// The same with the kernels of a race (network/size_kernels.h), for a network over dimensions.
  NetworkKernel build(const std::vector<Tensor>& args,
                      const std::vector<TaskKernels>& kernels) const;
  /// The same with what holds of a plan: with_plan(plan).build(args).
  NetworkKernel build(const std::vector<Tensor>& args, const NetworkPlan& plan) const;
  /// As build(args), with a second kernel for each node whose choice is unsure: one that a plan has
  /// without a race on this machine, one of the record of a near case, and one whose graph is by
  /// estimate within a tenth of another. Both run in turns in the first calls, each in its place in
  /// a call, and the faster one from then on, in later processes too (PickStore). A kernel that
  /// computes something else beyond rounding, in a call on random inputs here, is dropped. On a GPU
  /// calls are no CUDA graphs until all is settled. Throws a User error for a network over
  /// dimensions.
  NetworkKernel build_settling(const std::vector<Tensor>& args,
                               const SettleOptions& options = {}) const;

 private:
  friend class network::SizeRace;
  friend const std::vector<network::TaskFamily>& network::families_of(const Network& network);
  friend std::vector<network::TaskVariants> network::task_variants(
      const Network& network, const std::vector<Schedule>& schedules);
  NetworkKernel build(const std::vector<Tensor>& args,
                      const std::vector<network::TaskVariants>& variants) const;
  struct Impl;
  explicit Network(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

/// Runs the nodes one after the other. Outputs are written directly. Arguments are checked as those
/// of a Kernel. Values that depend on constant arguments alone are prepared at the first call,
/// separately for each node. Concurrent calls from several threads are safe, and each call has its
/// own buffers. Copies of the handle share everything.
///
/// For a CUDA target the arrays are on the GPU, or all on the CPU, in which case they are copied to
/// the GPU and back. From the second call with the same arrays on, a call is one CUDA graph. Those
/// of the last four sets are kept (over dimensions: sixteen). Calls run one after the other on the
/// GPU, on any streams, because they share the buffers between nodes.
class NetworkKernel {
 public:
  template <class... A>
  void operator()(const A&... arrays) const {
    const std::array<NDArray, sizeof...(A)> list = {NDArray(arrays)...};
    call(list);
  }
  void call(std::span<const NDArray> arrays) const;
  /// Announces a call with arrays at these addresses and of these shapes, which is likely to come
  /// next in the current stream. On a GPU what its launch needs is made ready now, while the work
  /// before it runs, and the call itself is the launch of a CUDA graph. Reads and writes no elements.
  /// Another call may come in its place, at no cost but the preparation. Does nothing for arrays on
  /// the CPU and in captures. Throws what the call would throw.
  void expect(std::span<const NDArray> arrays) const;
  /// Computes the values that depend on constants alone, so that the first call takes no longer
  /// than others. Arrays that are not constant may be undefined handles.
  void prepare(std::span<const NDArray> arrays) const;
  /// The same for a network whose constants all have values. Throws a User error for others.
  void prepare() const;
  /// Measures where the time of a call with these arrays is spent, node by node. It runs for about
  /// `seconds`. Print the result, or use its to_json().
  Profile profile(const std::vector<NDArray>& arrays, double seconds = 1) const;
  /// Discards the values that were derived from constant arguments. The next call computes them
  /// anew.
  void refresh() const;
  const std::vector<KernelArg>& args() const;
  /// The positions of the arguments that calls update: inputs that are results, too.
  const std::vector<size_t>& updated() const;
  /// The sizes that the shapes of a call's arrays give, for a network over dimensions.
  const std::vector<KernelSize>& sizes() const;
  const NetworkBuildReport& build_report() const;
  /// The nodes of build_settling() that have two kernels, by step. The reason of one that is not
  /// settled yet is PickReason::Static.
  std::vector<PickRow> picks() const;
  int64_t workspace_bytes() const;  ///< the buffers and kernels' workspaces of each concurrent call
  explicit operator bool() const { return static_cast<bool>(impl_); }

 private:
  friend class Network;
  friend class network::TimedNetwork;
  friend class network::VariantRunner;
  friend class network::SizeRace;
  struct Impl;
  Impl& impl() const;  // throws when there is none
  std::shared_ptr<Impl> impl_;
};

/// Tunes a network: first the choices about its graph (tune_passes), then the tasks of the network
/// with what was taken, which all race in it (make_network_race). The report is of the tasks of
/// Network::as_tuned. Their schedules together are never slower than the static ones: where the
/// race does not prove a gain, the static ones are returned. If the caller provides a measurer or a
/// race, the graph stays as it is, and a measurer races each task.
TuneReport tune(const Network& network, const TuneOptions& options = {});

/// What came of a choice that choose_passes tried.
enum class TrialResult : uint8_t {
  NoTime,  ///< it was not tried
  Taken,   ///< it was proven to be faster
  NotProven,
  Slower,
  ChangesNothing,  ///< the nodes are the same
  AnswersDiffer,
  NoLongerPossible,  ///< after what was taken before
  CannotBeBuilt,
};
const char* to_string(TrialResult result);

/// A choice that choose_passes tried.
struct ChoiceTrial {
  std::string change;  ///< as parse_passes reads it: "-join_products", "store@mul:1x56x56x96"
  std::string text;    ///< what it is about
  int places = 0;
  /// Seconds of a call that it may gain: what the nodes that it changes take now, less what those
  /// in their place would take if they were as far from their arithmetic and bytes as the nodes of
  /// the network usually are.
  double estimated_gain = 0;
  std::vector<int> nodes = {};  ///< of the network, those that it changes, as far as estimated
  /// Seconds in one call of the nodes that differ, and of the whole network, medians of calls in
  /// turns; before: with all that was taken until then.
  double before = 0, after = 0, whole_before = 0, whole_after = 0;
  TrialResult verdict = TrialResult::NoTime;
};

/// The result of choose_passes.
struct PassChoice {
  PassOptions options;
  NetworkTimes times;  ///< static_seconds: the given network; best_seconds: with `options`
  std::vector<ChoiceTrial> trials = {};  ///< in the order in which they are tried
};

/// Tries the choices of a network that are not certain: each pass that is not sure to gain
/// (PassDescription::sure) as a whole, and each of Network::choices(), where to cut, what to join,
/// and the layout of images by their size. Those whose nodes lose most time are tried first
/// (ChoiceTrial::estimated_gain). Each is tried the other way, on top of those taken before: both
/// networks are called in turns, with their static schedules and random inputs, and the nodes that
/// differ are compared, in the state of the caches that they will have. At the end the network with
/// all that was taken races the given one. Another choice is returned only where that proves a gain
/// and both compute the same. All of it takes about `seconds`, and the weights of up to three
/// networks.
/// A network for a GPU races where that GPU is here; only its whole calls are timed.
PassChoice choose_passes(const Network& network, double seconds, const TuneClock& clock);

/// choose_passes as a part of tuning: for 0.15 of the time that `clock` has left, a minute at most.
/// What is taken is recorded in `log` (record_passes) as that of `subject`, unless that is empty.
PassChoice tune_passes(const Network& network, const std::string& subject, const std::string& log,
                       const TuneClock& clock);

/// The final race of tuning, for TuneOptions::joint_race. The leaders of all tasks race in calls of
/// the whole network, then the winners together against the static choice. Null for a network over
/// dimensions, whose kernels choose_kernels races, and for a GPU that is not here.
std::unique_ptr<JointRace> make_network_race(const Network& network);

}  // namespace heddle
