// Makes one callable from tasks: a kernel for each node, and one arena for the buffers between
// them.
#include <algorithm>
#include <span>

#include "codegen/release_compiler.h"
#include "driver/build_cuda.h"
#include "driver/program_args.h"
#include "heddle/driver/build.h"
#include "heddle/network/network.h"
#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "network/cut/check_network.h"
#include "network/cut/compile_tasks.h"
#include "network/cut/horizontal.h"
#include "network/cut/kernel_clones.h"
#include "network/cut/kernel_records.h"
#include "network/cut/loops.h"
#include "network/cut/network_impl.h"
#include "network/cut/scattered_update.h"
#include "network/cut/step_plan.h"
#include "network/cut/task_schedules.h"
#include "network/run/network_kernel_impl.h"

namespace heddle {

const std::vector<network::TaskFamily>& network::families_of(const Network& network) {
  return network.impl_->families;
}

std::vector<network::TaskVariants> network::task_variants(const Network& network,
                                                          const std::vector<Schedule>& schedules) {
  const std::span<const TuneTask> tasks = network.tasks();
  std::vector<TaskVariants> all(tasks.size());
  const std::span<const Schedule> given = schedules;
  for (size_t t = 0; t < tasks.size(); ++t) {
    const TaskFamily& family = network.impl_->families[t];
    if (family.outputs.empty()) {
      if (family.count > 0) all[t].schedules = {given[t]};
    } else {
      all[t] = variants_for_all_sizes(family, given.subspan(t, family.count),
                                      tasks.subspan(t, family.count));
    }
  }
  return all;
}

namespace {

/// The arguments of a network over `sizes`, each of which one of them gives.
std::vector<KernelArg> args_over(const std::vector<Tensor>& args, const std::vector<Var>& sizes) {
  std::vector<KernelArg> out;
  for (const Tensor& t : args) {
    KernelArg a = driver::describe(t.buffer());
    a.name = t.name();
    a.output = !t.op()->is_placeholder();
    a.constant = t.op()->is_constant();
    a.symbolic = driver::symbolic_extents(t.shape(), sizes);
    out.push_back(std::move(a));
  }
  for (const Var& size : sizes) {
    if (!network::give_size(args, size))
      throw_user_error("no argument of the network has the dimension '" + size->name +
                           "', so a call cannot give its size",
                       {}, "add an input with that dimension, or give it one size");
  }
  return out;
}

}  // namespace

NetworkKernel Network::build(const std::vector<Tensor>& args,
                             const std::vector<Schedule>& schedules) const {
  if (schedules.empty()) return build(args, network::usual_variants(*this));
  network::check_schedules(tasks(), schedules);
  return build(args, network::task_variants(*this, schedules));
}

namespace {

/// Compiles the variants of all tasks that some step needs. `task_of` gets the task of each kernel.
network::CompiledTasks compile_needed(const network::NetworkSteps& steps,
                                      const std::vector<network::TaskVariants>& variants,
                                      std::vector<size_t>* task_of) {
  std::vector<Schedule> to_compile;
  std::vector<size_t> numbers;
  for (size_t t = 0; t < variants.size(); ++t) {
    if (!steps.needs(static_cast<int>(t))) continue;
    for (size_t v = 0; v < variants[t].schedules.size(); ++v) {
      to_compile.push_back(variants[t].schedules[v]);
      numbers.push_back(t + v);  // a name; a task over dimensions has several places
      task_of->push_back(t);
    }
  }
  return network::compile_tasks(to_compile, numbers, network::OnDisk::Yes);
}

/// A kernel of the steps of a task, and which of the network's sizes it takes.
struct StepKernel {
  network::KernelClones clones;
  std::vector<size_t> sizes;
};

std::vector<size_t> positions_of(const std::vector<Var>& sizes, const std::vector<Var>& all) {
  std::vector<size_t> positions;
  for (const Var& size : sizes) {
    const auto at = std::find_if(all.begin(), all.end(),
                                 [&](const Var& of_network) { return of_network.same_as(size); });
    HEDDLE_ICHECK(at != all.end(), "a task has sizes of its network");
    positions.push_back(static_cast<size_t>(at - all.begin()));
  }
  return positions;
}

}  // namespace

namespace {

/// Gives the kernels of the steps their places.
void take_plan(network::StepPlan plan, const std::vector<NetworkNode>& steps,
               std::span<const std::span<StepKernel>> kernels, ProgramParts& parts) {
  parts.arena_bytes = plan.arena_bytes;
  parts.views = std::move(plan.views);
  parts.turns = std::move(plan.turns);
  parts.loops = std::move(plan.loops);
  for (size_t s = 0; s < steps.size(); ++s) {
    for (StepKernel& k : kernels[s])
      parts.steps[s].variants.push_back(
          {k.clones.of(steps[s]), plan.places[s], k.sizes, plan.scratch[s]});
  }
}

/// The constants of the graph of a network that are none of its arguments.
std::vector<Tensor> constants_beside(const std::vector<Tensor>& args, const Network& network,
                                     const ComputeDag& dag) {
  std::vector<Tensor> constants = dag.placeholders();
  std::erase_if(constants, [&](const Tensor& t) {
    return network::position_of(args, t) >= 0 || network::position_of(network.states(), t) >= 0 ||
           network::is_bound(network.updates().repeats, t);
  });
  return constants;
}

}  // namespace

NetworkKernel Network::build(const std::vector<Tensor>& args,
                             const std::vector<network::TaskVariants>& given) const {
  network::check_tensors(*this, impl_->declared, args);
  const std::vector<network::TaskVariants> variants = network::with_places(*this, given);
  ProgramParts parts{.name = "network", .args = args_over(args, impl_->sizes)};
  const network::NetworkSteps steps(*this, impl_->target, variants);
  std::vector<size_t> task_of;
  network::CompiledTasks compiled = compile_needed(steps, variants, &task_of);
  network::CompiledTasks joined = network::compile_joined(steps);
  if (!impl_->target.is_cuda()) codegen::release_compiler();
  std::vector<Tensor> tensors = args;
  for (const Tensor& t : constants_beside(args, *this, impl_->cut.dag)) {
    tensors.push_back(t);
    parts.arrays.push_back(*t.op()->data());
  }
  parts.sizes = driver::kernel_sizes(impl_->sizes);
  using Calls = cuda::DeviceCalls;
  parts.graphs = impl_->sizes.empty() ? Calls::kGraphs : Calls::kGraphsOfSizes;
  for (const StateUpdate& u : updates())
    parts.updated.push_back(static_cast<size_t>(network::position_of(args, u.state)));

  // The kernels of each task, and those of tasks that share launches.
  std::vector<std::vector<StepKernel>> alone(tasks().size());
  std::vector<StepKernel> shared;
  for (size_t i = 0; i < task_of.size(); ++i)
    alone[task_of[i]].push_back({network::KernelClones(compiled.kernels[i]),
                                 positions_of(compiled.sizes[i], impl_->sizes)});
  for (size_t k = 0; k < joined.kernels.size(); ++k)
    shared.push_back(
        {network::KernelClones(joined.kernels[k]), positions_of(joined.sizes[k], impl_->sizes)});
  const size_t count = steps.nodes().steps.size();
  std::vector<std::span<StepKernel>> kernels_of(count);
  std::vector<int64_t> scratch(count);
  for (size_t s = 0; s < count; ++s) {
    const NetworkNode& node = steps.nodes().steps[s];
    const auto task = static_cast<size_t>(node.task);
    ProgramStep& step = parts.steps.emplace_back();
    step.name = steps.text(*this, s);
    std::span<StepKernel>& kernels = kernels_of[s];
    kernels = alone[task];
    step.selector = variants[task].tree;
    if (const network::NetworkSteps::Joined* j = steps.joined_of(s)) {
      kernels = std::span(shared).subspan(j->first, j->sizes.combinations.size());
      step.selector = j->sizes.tree;
    }
    for (const StepKernel& k : kernels) scratch[s] = std::max(scratch[s], k.clones.scratch_bytes());
  }
  network::StepPlan plan =
      network::plan_steps(steps.nodes().steps, tensors, args.size(), places(), states(),
                          impl_->sizes, steps.nodes().loops, updates().repeats, scratch);
  take_plan(std::move(plan), steps.nodes().steps, kernels_of, parts);
  NetworkBuildReport report = compiled.report;
  report.kernels += joined.report.kernels;
  report.from_disk += joined.report.from_disk;
  report.damaged += joined.report.damaged;
  NetworkKernel result;
  result.impl_ =
      std::make_shared<NetworkKernel::Impl>(std::move(parts), steps.nodes().nodes, report);
  return result;
}

std::vector<PassApplication> Network::shared_launches(
    const std::vector<Schedule>& schedules) const {
  const std::vector<network::TaskVariants> variants =
      schedules.empty() ? network::usual_variants(*this) : network::task_variants(*this, schedules);
  return network::NetworkSteps(*this, impl_->target, network::with_places(*this, variants))
      .applications(*this);
}

NetworkKernel Network::build(const std::vector<Tensor>& args, const TuneReport& report) const {
  std::vector<Schedule> schedules;
  for (const TaskResult& task : report.tasks) schedules.push_back(task.schedule);
  const Network tuned = as_tuned(report);
  network::check_schedules(tuned.tasks(), schedules);
  return tuned.build(args, schedules);
}

NetworkKernel Network::build(const std::vector<Tensor>& args,
                             const std::vector<TaskKernels>& kernels) const {
  return build(args, network::variants_of(*this, kernels));
}

}  // namespace heddle
