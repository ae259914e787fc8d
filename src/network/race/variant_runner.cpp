#include "network/race/variant_runner.h"

#include <algorithm>

#include "heddle/support/error.h"
#include "network/cut/compile_tasks.h"
#include "network/cut/kernel_clones.h"
#include "network/run/output_difference.h"

namespace heddle::network {
namespace {

// The largest share of the free memory for the packed weights of all variants together.
constexpr double kShareOfMemory = 0.3;

int64_t constant_bytes(const TuneTask& task) {
  int64_t bytes = 0;
  for (const Tensor& t : task.args) {
    if (t.op()->is_constant()) bytes += t.size() * t.dtype().bytes();
  }
  return bytes;
}

}  // namespace

VariantRunner::VariantRunner(const Network& network,
                             std::span<const std::vector<Schedule>> schedules,
                             std::span<const size_t> priority, const TuneClock& clock)
    : network_(network) {
  const std::vector<TuneTask>& tasks = network_.tasks();
  HEDDLE_ICHECK(schedules.size() == tasks.size(), "schedules for every task");
  std::vector<Schedule> untuned, others;
  std::vector<size_t> tasks_of_others;
  for (const std::vector<Schedule>& list : schedules) untuned.push_back(list.at(0));
  const std::vector<Tensor> args = call_args(network_);
  kernel_ = network_.build(args, untuned);
  const Target& target = tasks[0].tmpl.target();
  arrays_ = random_arrays(args, device_of(target));
  outputs_ = results_of(kernel_, args, arrays_);
  states_ = StateCopies(kernel_.updated(), arrays_);
  of_steps_ = std::make_unique<Program::StepCalls>(kernel_.impl().program, arrays_);

  // Takes the first variant of each task, then the second of each, and so on, as far as memory
  // allows.
  double bytes = 0;
  const double most_bytes = kShareOfMemory * static_cast<double>(free_bytes(target));
  std::vector<int> positions;
  for (size_t v = 1, any = 1; any != 0; ++v) {
    any = 0;
    for (const size_t t : priority) {
      if (v >= schedules[t].size()) continue;
      any = 1;
      const auto nodes =
          std::ranges::count(network_.nodes(), static_cast<int>(t), &NetworkNode::task);
      const double more = static_cast<double>(constant_bytes(tasks[t]) * nodes);
      if (bytes + more > most_bytes) continue;
      bytes += more;
      others.push_back(schedules[t][v]);
      tasks_of_others.push_back(t);
      positions.push_back(static_cast<int>(v));
    }
  }
  const std::vector<Kernel> kernels =
      compile_tasks(others, tasks_of_others, OnDisk::No, [&] { return clock.expired(); }).kernels;
  available_.assign(tasks.size(), {0});
  for (const ProgramStep& step : kernel_.impl().steps())
    steps_.push_back({step.variants[0].kernel});
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (!kernels[i]) continue;
    available_[tasks_of_others[i]].push_back(positions[i]);
    prepare(tasks_of_others[i], kernels[i]);
  }
  kernel_.prepare(arrays_);
  timer_ = make_call_timer(target, of_steps_->args(), states_);
}

VariantRunner::~VariantRunner() = default;

/// Adds a variant to the nodes of a task.
void VariantRunner::prepare(size_t task, const Kernel& kernel) {
  KernelClones clones(kernel);
  for (size_t n = 0; n < network_.nodes().size(); ++n) {
    if (network_.nodes()[n].task != static_cast<int>(task)) continue;
    steps_[n].push_back(clones.of(network_.nodes()[n]));
    steps_[n].back().prepare(of_steps_->args()[n].arrays);
  }
}

std::vector<StepCall> VariantRunner::parts_of(std::span<const int> variants) const {
  std::vector<StepCall> calls;
  for (size_t n = 0; n < steps_.size(); ++n) {
    const int variant = variants[task_of(n)];
    if (variant == kTwice) calls.push_back({n, &steps_[n][0]});
    calls.push_back({n, &steps_[n][static_cast<size_t>(std::max(variant, 0))]});
  }
  return calls;
}

VariantTimes VariantRunner::call(std::span<const int> variants) {
  const std::vector<StepCall> calls = parts_of(variants);
  const CallTimes call = timer_->time(calls);
  VariantTimes times{{}, call.total};
  if (call.steps.empty()) return times;
  times.tasks.assign(variants.size(), 0);
  for (size_t i = 0; i < calls.size(); ++i) times.tasks[task_of(calls[i].step)] += call.steps[i];
  return times;
}

std::vector<NDArray> VariantRunner::results(std::span<const int> variants, uint64_t seed) const {
  randomise_inputs(kernel_, arrays_, seed);
  states_.restore();
  run_once(parts_of(variants), of_steps_->args());
  return host_copies(outputs_);
}

std::string VariantRunner::difference(std::span<const int> variants) const {
  constexpr uint64_t kSeed = 1, kOtherSeed = 1000;
  const std::vector<int> first(variants.size(), 0);
  const std::vector<NDArray> want = results(first, kSeed);
  results(first, kOtherSeed);
  return output_difference(network_.outputs(), results(variants, kSeed), want);
}

}  // namespace heddle::network
