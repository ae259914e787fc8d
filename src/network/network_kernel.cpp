// From tasks to one callable: a kernel a node, one arena for what passes between them.
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "heddle/driver/build.h"
#include "heddle/network/network.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "network/device_calls.h"
#include "network/memory_plan.h"
#include "network/network_impl.h"
#include "runtime/check_arguments.h"

namespace heddle {
namespace {

constexpr const char* kName = "network";  // in messages

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
  for (const Tensor& t : args) {
    if (t && position_of(needed, t) >= 0) continue;
    throw_user_error(
        "argument '" + (t ? t.name() : "") + "' is neither an input nor an output of the network",
        {}, "pass the placeholders that the outputs read, and the outputs");
  }
  for (const Tensor& t : needed) {
    const auto listed =
        std::count_if(args.begin(), args.end(), [&](const Tensor& a) { return a.same_as(t); });
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
  return heddle::build(schedule, args,
                       {.name = kName + std::string("_task") + std::to_string(task)});
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

struct NetworkKernel::Impl {
  /// Where a caller's array goes.
  struct Binding {
    size_t arg = 0, step = 0, position = 0;
  };
  /// What lies between two nodes: a place in the arena.
  struct Between {
    size_t step = 0, position = 0;
    int64_t offset = 0;
    std::vector<int64_t> shape;
    DataType dtype;
  };
  /// What one call works in.
  struct Frame {
    NDArray arena;
    std::vector<std::vector<NDArray>> arrays;  ///< by step
  };
  std::vector<KernelArg> args;
  std::vector<Kernel> steps;
  std::vector<size_t> step_args;  ///< how many arrays each takes
  std::vector<Binding> bindings;
  std::unique_ptr<network::DeviceCalls> on_gpu;  ///< null: a network for the CPU
  std::vector<Between> between;
  int64_t arena_bytes = 0;
  // Never held while a kernel runs: that may wait for a parallel region whose body calls us.
  std::mutex mutex;
  std::vector<Frame> free;  ///< as many as there were calls at the same time

  Frame make_frame() const {
    Frame f;
    const Device device = on_gpu ? Device::cuda() : Device::cpu();
    if (arena_bytes > 0) f.arena = NDArray::empty({arena_bytes}, u8, device);
    for (const size_t count : step_args) f.arrays.emplace_back(count);
    for (const Between& b : between) {
      f.arrays[b.step][b.position] =
          NDArray::wrap(static_cast<char*>(f.arena.data()) + b.offset, b.shape, b.dtype, device);
    }
    return f;
  }

  /// A frame with the caller's arrays in it. They are taken out again at the end, so that none is
  /// kept alive until the next call.
  class Call {
   public:
    Call(Impl& impl, std::span<const NDArray> arrays) : impl_(impl) {
      {
        const std::lock_guard lock(impl_.mutex);
        if (!impl_.free.empty()) {
          frame_ = std::move(impl_.free.back());
          impl_.free.pop_back();
        }
      }
      if (frame_.arrays.empty()) frame_ = impl_.make_frame();
      for (const Binding& b : impl_.bindings) frame_.arrays[b.step][b.position] = arrays[b.arg];
    }
    ~Call() {
      for (const Binding& b : impl_.bindings) frame_.arrays[b.step][b.position] = NDArray();
      const std::lock_guard lock(impl_.mutex);
      impl_.free.push_back(std::move(frame_));
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    void run() const {
      for (size_t i = 0; i < impl_.steps.size(); ++i) impl_.steps[i].call(frame_.arrays[i]);
    }

   private:
    Impl& impl_;
    Frame frame_;
  };

  /// The buffers between nodes get their places, everything else a binding.
  void connect(const std::vector<NetworkNode>& nodes, const std::vector<Tensor>& tensors) {
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
        if (const int arg = position_of(tensors, list[p]); arg >= 0) {
          bindings.push_back({static_cast<size_t>(arg), n, p});
          continue;
        }
        const int b = position_of(passed, list[p]);
        HEDDLE_ICHECK(b >= 0, "'" + list[p].name() + "' is read before any node wrote it");
        between.push_back({n, p, plan.offsets[b], list[p].extents(), list[p].dtype()});
      }
    }
  }
};

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
  for (const Tensor& t : args) {
    impl.args.push_back({.name = t.name(),
                         .dtype = t.dtype(),
                         .shape = t.extents(),
                         .output = !t.op()->is_placeholder(),
                         .constant = t.op()->is_constant()});
  }
  if (impl_->target.is_cuda()) impl.on_gpu = std::make_unique<network::DeviceCalls>();
  // A clone a node: nodes that share a task have weights of their own to prepare.
  for (const NetworkNode& node : nodes()) impl.steps.push_back(kernels[node.task].clone());
  impl.connect(nodes(), args);
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

NetworkKernel::Impl& NetworkKernel::impl() const {
  if (!impl_) throw_runtime_error("this network was never built");
  return *impl_;
}

void NetworkKernel::call(std::span<const NDArray> arrays) const {
  check_arguments(kName, impl().args, arrays, impl().on_gpu != nullptr);
  const auto run = [&](std::span<const NDArray> given) { Impl::Call(*impl_, given).run(); };
  impl_->on_gpu ? impl_->on_gpu->call(impl_->args, arrays, run) : run(arrays);
}

void NetworkKernel::refresh() const {
  if (impl().on_gpu) impl_->on_gpu->forget();
  for (const Kernel& step : impl_->steps) step.refresh();
}

const std::vector<KernelArg>& NetworkKernel::args() const { return impl().args; }
int64_t NetworkKernel::workspace_bytes() const { return impl().arena_bytes; }

}  // namespace heddle
