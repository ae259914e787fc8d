// Makes one callable from tasks: a kernel for each node, and one arena for the buffers between
// them.
#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>

#include "heddle/driver/build.h"
#include "heddle/network/network.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "network/check_network.h"
#include "network/network_impl.h"
#include "network/network_kernel_impl.h"
#include "network/step_plan.h"
#include "network/task_schedules.h"

namespace heddle {
namespace {

Kernel compile_task(const Schedule& schedule, size_t task) {
  return heddle::build(schedule, network::task_args(schedule),
                       {.name = "network_task" + std::to_string(task)});
}

// Compiles on separate threads, because kernels would have to wait for the pool for seconds.
std::vector<Kernel> compile_all(const std::vector<Schedule>& schedules) {
  std::vector<Kernel> kernels(schedules.size());
  std::vector<std::exception_ptr> errors(schedules.size());
  std::atomic<size_t> next{0};
  // Tasks take different times to compile, so a free thread takes the next one.
  const auto work = [&] {
    for (size_t i = next++; i < schedules.size(); i = next++) {
      try {
        kernels[i] = compile_task(schedules[i], i);
      } catch (...) {
        errors[i] = std::current_exception();
        next = schedules.size();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    const size_t most = std::min(static_cast<size_t>(num_threads()), schedules.size());
    try {
      while (threads.size() + 1 < most) threads.emplace_back(work);
    } catch (const std::system_error&) {
      // The system allows no more threads, so the existing ones do the work.
    }
    work();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return kernels;
}

}  // namespace

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
  network::check_tensors(impl_->dag, args);
  if (schedules.empty()) return build(args, network::static_schedules(tasks()));
  network::check_schedules(tasks(), schedules);
  const std::vector<Kernel> kernels = compile_all(schedules);

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
  if (impl_->target.is_cuda()) impl.on_gpu = std::make_unique<network::DeviceCalls>();
  // One clone for each node, because nodes that share a task prepare different weights.
  for (const NetworkNode& node : nodes()) {
    impl.steps.push_back(kernels[node.task].clone());
    impl.names.push_back(tasks()[node.task].name);
  }
  impl.plan = network::plan_steps(nodes(), tensors, args.size());
  // Of a GPU nothing is asked for before the first call.
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
