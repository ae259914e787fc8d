// Makes one callable from tasks: a kernel for each node, and one arena for the buffers between
// them.
#include <algorithm>

#include "codegen/release_compiler.h"
#include "driver/build_cuda.h"
#include "driver/program_args.h"
#include "heddle/driver/build.h"
#include "heddle/network/network.h"
#include "heddle/support/error.h"
#include "ir/size_line.h"
#include "ir/sizes.h"
#include "network/cut/check_network.h"
#include "network/cut/compile_tasks.h"
#include "network/cut/horizontal.h"
#include "network/cut/kernel_clones.h"
#include "network/cut/kernel_records.h"
#include "network/cut/network_impl.h"
#include "network/cut/step_plan.h"
#include "network/cut/task_schedules.h"
#include "network/run/network_kernel_impl.h"

namespace heddle {

std::vector<NDArray> NetworkKernel::Impl::bound_here() {
  if (!on_gpu) return bound;
  const std::lock_guard lock(mutex);
  if (bound_on_gpu.empty()) {
    for (const NDArray& a : bound) bound_on_gpu.push_back(a.to_device(Device::cuda()));
  }
  return bound_on_gpu;
}

std::vector<double> NetworkKernel::Impl::by_node(std::span<const double> steps) const {
  size_t count = 0;
  for (const std::vector<int>& of_step : nodes) count += of_step.size();
  std::vector<double> seconds(count);
  for (size_t s = 0; s < nodes.size(); ++s) {
    for (const int n : nodes[s])
      seconds[static_cast<size_t>(n)] = steps[s] / static_cast<double>(nodes[s].size());
  }
  return seconds;
}

NetworkKernel::Impl::Frame NetworkKernel::Impl::make_frame() {
  Frame f;
  {
    const std::lock_guard lock(mutex);
    f.refreshes = refreshes;
  }
  const Device device = on_gpu ? Device::cuda() : Device::cpu();
  if (plan.arena_bytes > 0) f.arena = NDArray::empty({plan.arena_bytes}, u8, device);
  for (const size_t count : plan.step_args) f.arrays.emplace_back(count);
  for (const network::StepPlan::Between& b : plan.between) {
    f.arrays[b.step][b.position] =
        NDArray::wrap(static_cast<char*>(f.arena.data()) + b.offset, b.shape, b.dtype, device);
  }
  const std::vector<NDArray> constants = bound_here();
  for (const network::StepPlan::Binding& b : plan.bound)
    f.arrays[b.step][b.position] = constants[b.array];
  return f;
}

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
    KernelArg a = describe(t.buffer());
    a.name = t.name();
    a.output = !t.op()->is_placeholder();
    a.constant = t.op()->is_constant();
    a.symbolic = symbolic_extents(t.shape(), sizes);
    out.push_back(std::move(a));
  }
  for (const Var& size : sizes) {
    const auto gives = [&](const Tensor& t) {
      return std::any_of(t.shape().begin(), t.shape().end(), [&](const Expr& e) {
        const std::optional<SizeLine> s = as_size_line(e);
        return s && s->size.same_as(size);
      });
    };
    if (std::none_of(args.begin(), args.end(), gives))
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

}  // namespace

NetworkKernel Network::build(const std::vector<Tensor>& args,
                             const std::vector<network::TaskVariants>& variants) const {
  network::check_tensors(impl_->declared, args);
  std::vector<KernelArg> described = args_over(args, impl_->sizes);
  const network::NetworkSteps steps(*this, impl_->target, variants);
  std::vector<size_t> task_of;
  const network::CompiledTasks compiled = compile_needed(steps, variants, &task_of);
  const network::CompiledTasks joined = network::compile_joined(steps);
  if (!impl_->target.is_cuda()) codegen::release_compiler();

  NetworkKernel result;
  result.impl_ = std::make_shared<NetworkKernel::Impl>();
  NetworkKernel::Impl& impl = *result.impl_;
  std::vector<Tensor> tensors = args;
  for (const Tensor& t : impl_->cut.dag.placeholders()) {
    if (network::position_of(args, t) >= 0) continue;
    tensors.push_back(t);
    impl.bound.push_back(*t.op()->data());
  }
  impl.args = std::move(described);
  impl.sizes = kernel_sizes(impl_->sizes);
  if (impl_->target.is_cuda()) {
    using Calls = cuda::DeviceCalls;
    impl.on_gpu =
        std::make_unique<Calls>(impl_->sizes.empty() ? Calls::kGraphs : Calls::kGraphsOfSizes);
  }
  // The kernels of each task, then those of tasks that share launches.
  std::vector<std::vector<network::KernelClones>> clones(tasks().size() + steps.joined().size());
  for (size_t i = 0; i < task_of.size(); ++i) clones[task_of[i]].emplace_back(compiled.kernels[i]);
  for (size_t j = 0; j < joined.kernels.size(); ++j)
    clones[tasks().size() + j].emplace_back(joined.kernels[j]);
  const std::vector<NetworkNode>& nodes_of_steps = steps.nodes().steps;
  int64_t prepared_bytes = 0;
  for (size_t s = 0; s < nodes_of_steps.size(); ++s) {
    const auto task = static_cast<size_t>(nodes_of_steps[s].task);
    const int j = steps.joined_of(s);
    network::Step step;
    if (j < 0 && !variants[task].tree.empty()) step.tree = variants[task].tree;
    for (network::KernelClones& c :
         clones[j < 0 ? task : tasks().size() + static_cast<size_t>(j)]) {
      network::KernelClones::Clone clone = c.with(nodes_of_steps[s], step.kernels);
      prepared_bytes += clone.new_bytes;
      step.kernels.push_back(std::move(clone.kernel));
    }
    impl.steps.push_back(std::move(step));
    impl.names.push_back(steps.text(*this, s));
    impl.nodes.push_back(steps.nodes().nodes[s]);
  }
  impl.report = compiled.report;
  impl.report.kernels += joined.report.kernels;
  impl.report.from_disk += joined.report.from_disk;
  impl.report.damaged += joined.report.damaged;
  impl.report.prepared_bytes = prepared_bytes;
  impl.plan = network::plan_steps(nodes_of_steps, tensors, args.size(), places(), impl_->sizes);
  // No memory of a GPU is allocated before the first call.
  if (!impl.on_gpu) impl.free.push_back(impl.make_frame());
  return result;
}

std::vector<PassApplication> Network::shared_launches(
    const std::vector<Schedule>& schedules) const {
  const std::vector<network::TaskVariants> variants =
      schedules.empty() ? network::usual_variants(*this) : network::task_variants(*this, schedules);
  return network::NetworkSteps(*this, impl_->target, variants).applications(*this);
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
