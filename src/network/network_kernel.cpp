// From tasks to one callable: a kernel a node, one arena for what passes between them.
#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>

#include "heddle/driver/build.h"
#include "heddle/network/network.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "network/memory_plan.h"
#include "network/network_impl.h"
#include "network/network_kernel_impl.h"

namespace heddle {
namespace {

int64_t bytes_of(const Tensor& t) {
  int64_t bytes = t.dtype().bytes();
  for (int64_t e : t.extents()) bytes *= e;
  return bytes;
}

/// The position of `t` in `list`, or -1.
int position_of(const std::vector<Tensor>& list, const Tensor& t) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].same_as(t)) return static_cast<int>(i);
  }
  return -1;
}

// The same rules as for the arguments of build().
void check_tensors(const ComputeDag& dag, const std::vector<Tensor>& args) {
  std::vector<Tensor> needed = dag.placeholders();
  needed.insert(needed.end(), dag.outputs().begin(), dag.outputs().end());
  const std::vector<Tensor> unread = dag.unread_placeholders();
  for (const Tensor& t : args) {
    if (t && (position_of(needed, t) >= 0 || position_of(unread, t) >= 0)) continue;
    throw_user_error(
        "argument '" + (t ? t.name() : "") + "' is neither an input nor an output of the network",
        {}, "pass the placeholders that the outputs read, and the outputs");
  }
  for (const Tensor& t : needed) {
    const auto listed =
        std::count_if(args.begin(), args.end(), [&](const Tensor& a) { return a.same_as(t); });
    if (listed == 0 && t.op()->data() != nullptr) continue;
    if (listed == 0) {
      throw_user_error("'" + t.name() + "' is missing from the arguments", t.op()->where(),
                       "list every input and every output of the network once");
    }
    if (listed > 1) {
      throw_user_error("'" + t.name() + "' is listed twice among the arguments", t.op()->where());
    }
  }
}

void check_schedules(const std::vector<TuneTask>& tasks, const std::vector<Schedule>& schedules) {
  if (schedules.size() != tasks.size()) {
    throw_user_error("the network has " + std::to_string(tasks.size()) + " tasks, but " +
                         std::to_string(schedules.size()) + " schedules were given",
                     {}, "give one a task, in the order of Network::tasks(), or none");
  }
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Target &have = schedules[i].target(), &want = tasks[i].tmpl.target();
    if (have.is_cuda() != want.is_cuda()) {
      throw_user_error("schedule " + std::to_string(i) + " is for '" + to_string(have) +
                           "', and the network for '" + to_string(want) + "'",
                       {}, "make it for the network's target");
    }
    if (schedules[i].dag().direct().structural_hash() == tasks[i].tmpl.dag().structural_hash())
      continue;
    throw_user_error("schedule " + std::to_string(i) + " is not for task '" + tasks[i].name + "'",
                     {}, "give one a task, in the order of Network::tasks()");
  }
}

Kernel compile_task(const Schedule& schedule, size_t task) {
  // As declared: arguments correspond by position, whatever the graph was rewritten to.
  const ComputeDag& dag = schedule.dag().direct();
  std::vector<Tensor> args = dag.placeholders();
  args.insert(args.end(), dag.outputs().begin(), dag.outputs().end());
  return heddle::build(schedule, args, {.name = "network_task" + std::to_string(task)});
}

// On threads of its own: the pool is for kernels, which would have to wait for seconds.
std::vector<Kernel> compile_all(const std::vector<Schedule>& schedules) {
  std::vector<Kernel> kernels(schedules.size());
  std::vector<std::exception_ptr> errors(schedules.size());
  std::atomic<size_t> next{0};
  // Tasks differ in how long they take to compile: whoever is free takes the next.
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
      // The system allows no more threads: those that there are do it.
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
  if (arena_bytes > 0) f.arena = NDArray::empty({arena_bytes}, u8, device);
  for (const size_t count : step_args) f.arrays.emplace_back(count);
  for (const Between& b : between) {
    f.arrays[b.step][b.position] =
        NDArray::wrap(static_cast<char*>(f.arena.data()) + b.offset, b.shape, b.dtype, device);
  }
  const std::vector<NDArray> constants = bound_here();
  for (const Binding& b : bound_bindings) f.arrays[b.step][b.position] = constants[b.array];
  return f;
}

void NetworkKernel::Impl::connect(const std::vector<NetworkNode>& nodes,
                                  const std::vector<Tensor>& tensors) {
  std::vector<Tensor> passed;
  std::vector<network::BufferLifetime> lifetimes;
  for (size_t n = 0; n < nodes.size(); ++n) {
    const int step = static_cast<int>(n);
    for (const Tensor& t : nodes[n].inputs) {
      if (const int b = position_of(passed, t); b >= 0) lifetimes[b].last = step;
    }
    for (const Tensor& t : nodes[n].outputs) {
      if (position_of(tensors, t) >= 0) continue;
      passed.push_back(t);
      lifetimes.push_back({bytes_of(t), step, step});
    }
  }
  const network::MemoryPlan plan = network::plan_memory(lifetimes);
  arena_bytes = plan.bytes;
  for (size_t n = 0; n < nodes.size(); ++n) {
    std::vector<Tensor> list = nodes[n].inputs;
    list.insert(list.end(), nodes[n].outputs.begin(), nodes[n].outputs.end());
    step_args.push_back(list.size());
    for (size_t p = 0; p < list.size(); ++p) {
      if (const int at = position_of(tensors, list[p]); at >= 0) {
        const auto array = static_cast<size_t>(at);
        if (array < args.size()) {
          bindings.push_back({array, n, p});
        } else {
          bound_bindings.push_back({array - args.size(), n, p});
        }
        continue;
      }
      const int b = position_of(passed, list[p]);
      HEDDLE_ICHECK(b >= 0, "'" + list[p].name() + "' is read before any node wrote it");
      between.push_back({n, p, plan.offsets[b], list[p].extents(), list[p].dtype()});
    }
  }
}

NetworkKernel Network::build(const std::vector<Tensor>& args,
                             const std::vector<Schedule>& schedules) const {
  check_tensors(impl_->dag, args);
  if (schedules.empty()) {
    std::vector<Schedule> chosen;
    for (const TuneTask& task : tasks()) {
      chosen.push_back(create_schedule(task.tmpl.dag().outputs(), impl_->target, impl_->options));
    }
    return build(args, chosen);
  }
  check_schedules(tasks(), schedules);
  const std::vector<Kernel> kernels = compile_all(schedules);

  NetworkKernel result;
  result.impl_ = std::make_shared<NetworkKernel::Impl>();
  NetworkKernel::Impl& impl = *result.impl_;
  std::vector<Tensor> tensors = args;
  for (const Tensor& t : impl_->dag.placeholders()) {
    if (position_of(args, t) >= 0) continue;
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
  // A clone a node: nodes that share a task have weights of their own to prepare.
  for (const NetworkNode& node : nodes()) {
    impl.steps.push_back(kernels[node.task].clone());
    impl.names.push_back(tasks()[node.task].name);
  }
  impl.connect(nodes(), tensors);
  // Of a GPU nothing is asked for before the first call.
  if (!impl.on_gpu) impl.free.push_back(impl.make_frame());
  return result;
}

NetworkKernel Network::build(const std::vector<Tensor>& args, const TuneReport& report) const {
  std::vector<Schedule> schedules;
  for (const TaskResult& task : report.tasks) schedules.push_back(task.schedule);
  check_schedules(tasks(), schedules);
  return build(args, schedules);
}

}  // namespace heddle
