// Makes one callable from tasks: a kernel for each node, and one arena for the buffers between
// them.
#include <numeric>

#include "heddle/driver/build.h"
#include "heddle/network/network.h"
#include "heddle/support/error.h"
#include "network/check_network.h"
#include "network/compile_tasks.h"
#include "network/kernel_clones.h"
#include "network/network_impl.h"
#include "network/network_kernel_impl.h"
#include "network/step_plan.h"
#include "network/task_schedules.h"

namespace heddle {

std::vector<NDArray> NetworkKernel::Impl::bound_here() {
  if (!on_gpu) return bound;
  const std::lock_guard lock(mutex);
  if (bound_on_gpu.empty()) {
    for (const NDArray& a : bound) bound_on_gpu.push_back(a.to_device(Device::cuda()));
  }
  return bound_on_gpu;
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

NetworkKernel Network::build(const std::vector<Tensor>& args,
                             const std::vector<Schedule>& schedules) const {
  network::check_tensors(impl_->declared, args);
  if (schedules.empty()) return build(args, network::static_schedules(tasks()));
  network::check_schedules(tasks(), schedules);
  std::vector<size_t> numbers(schedules.size());
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  const network::CompiledTasks compiled =
      network::compile_tasks(schedules, numbers, network::OnDisk::Yes);

  NetworkKernel result;
  result.impl_ = std::make_shared<NetworkKernel::Impl>();
  NetworkKernel::Impl& impl = *result.impl_;
  std::vector<Tensor> tensors = args;
  for (const Tensor& t : impl_->dag.placeholders()) {
    if (network::position_of(args, t) >= 0) continue;
    tensors.push_back(t);
    impl.bound.push_back(*t.op()->data());
  }
  for (const Tensor& t : args) {
    impl.args.push_back({.name = t.name(),
                         .dtype = t.dtype(),
                         .shape = t.extents(),
                         .output = !t.op()->is_placeholder(),
                         .constant = t.op()->is_constant()});
  }
  if (impl_->target.is_cuda()) impl.on_gpu = std::make_unique<cuda::DeviceCalls>();
  std::vector<network::KernelClones> clones(compiled.kernels.begin(), compiled.kernels.end());
  for (const NetworkNode& node : nodes()) {
    impl.steps.push_back(clones[static_cast<size_t>(node.task)].of(node));
    impl.names.push_back(tasks()[node.task].name);
  }
  impl.report = compiled.report;
  impl.plan = network::plan_steps(nodes(), tensors, args.size(), places());
  // No memory of a GPU is allocated before the first call.
  if (!impl.on_gpu) impl.free.push_back(impl.make_frame());
  return result;
}

NetworkKernel Network::build(const std::vector<Tensor>& args, const TuneReport& report) const {
  std::vector<Schedule> schedules;
  for (const TaskResult& task : report.tasks) schedules.push_back(task.schedule);
  network::check_schedules(tasks(), schedules);
  return build(args, schedules);
}

}  // namespace heddle
