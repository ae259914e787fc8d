// From tasks to one callable: a kernel a node, one arena for what passes between them.
#include <algorithm>
#include <atomic>
#include <mutex>

#include "heddle/driver/build.h"
#include "heddle/network/network.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
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
    if (schedules[i].dag().direct().structural_hash() == tasks[i].tmpl.dag().structural_hash())
      continue;
    throw_user_error("schedule " + std::to_string(i) + " is not for task '" + tasks[i].name + "'",
                     {}, "give one a task, in the order of Network::tasks()");
  }
}

std::vector<Kernel> compile_all(const Target& target, const std::vector<Schedule>& schedules) {
  std::vector<Kernel> kernels(schedules.size());
  const AutoSchedulerOptions options = current_auto_scheduler_options();
  std::atomic<size_t> next{0};
  // Tasks differ in how long they take to compile: whoever is free takes the next.
  parallel_for(
      std::min<int64_t>(num_threads(), static_cast<int64_t>(schedules.size())),
      [&](int64_t, int64_t) {
        const AutoSchedulerOptionsScope scope(options);
        for (size_t i = next++; i < schedules.size(); i = next++) {
          // As declared: arguments correspond by position, whatever the graph was rewritten to.
          const ComputeDag& dag = schedules[i].dag().direct();
          std::vector<Tensor> args = dag.placeholders();
          args.insert(args.end(), dag.outputs().begin(), dag.outputs().end());
          kernels[i] = heddle::build(
              schedules[i], args,
              {.target = target, .name = kName + std::string("_task") + std::to_string(i)});
        }
      });
  return kernels;
}

}  // namespace

struct NetworkKernel::Impl {
  struct Step {
    Kernel kernel;
    std::vector<NDArray> arrays;
  };
  /// Where a caller's array goes.
  struct Binding {
    size_t arg = 0, step = 0, position = 0;
  };
  std::vector<KernelArg> args;
  std::vector<Step> steps;
  std::vector<Binding> bindings;
  NDArray arena;
  std::mutex mutex;  // the arena serves one call at a time

  /// Hands the caller's arrays to the steps; takes them back at the end, so that none is kept alive
  /// until the next call.
  class Bound {
   public:
    Bound(Impl& impl, std::span<const NDArray> arrays) : impl_(impl) {
      for (const Binding& b : impl_.bindings) {
        impl_.steps[b.step].arrays[b.position] = arrays[b.arg];
      }
    }
    ~Bound() {
      for (const Binding& b : impl_.bindings) impl_.steps[b.step].arrays[b.position] = NDArray();
    }
    Bound(const Bound&) = delete;
    Bound& operator=(const Bound&) = delete;

   private:
    Impl& impl_;
  };

  /// The buffers between nodes get their places, everything else a binding.
  void connect(const std::vector<NetworkNode>& nodes, const std::vector<Tensor>& tensors) {
    std::vector<Tensor> between;
    std::vector<network::BufferLifetime> lifetimes;
    for (size_t n = 0; n < nodes.size(); ++n) {
      const int step = static_cast<int>(n);
      for (const Tensor& t : nodes[n].inputs) {
        if (const int b = position_of(between, t); b >= 0) lifetimes[b].last = step;
      }
      for (const Tensor& t : nodes[n].outputs) {
        if (position_of(tensors, t) >= 0) continue;
        between.push_back(t);
        lifetimes.push_back({bytes_of(t), step, step});
      }
    }
    const network::MemoryPlan plan = network::plan_memory(lifetimes);
    if (plan.bytes > 0) arena = NDArray::empty({plan.bytes}, u8);
    for (size_t n = 0; n < nodes.size(); ++n) {
      std::vector<Tensor> list = nodes[n].inputs;
      list.insert(list.end(), nodes[n].outputs.begin(), nodes[n].outputs.end());
      steps[n].arrays.resize(list.size());
      for (size_t p = 0; p < list.size(); ++p) {
        if (const int arg = position_of(tensors, list[p]); arg >= 0) {
          bindings.push_back({static_cast<size_t>(arg), n, p});
          continue;
        }
        const int b = position_of(between, list[p]);
        HEDDLE_ICHECK(b >= 0, "'" + list[p].name() + "' is read before any node wrote it");
        steps[n].arrays[p] = NDArray::wrap(static_cast<char*>(arena.data()) + plan.offsets[b],
                                           list[p].extents(), list[p].dtype());
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
      chosen.push_back(create_schedule(task.tmpl.dag().outputs(), impl_->target));
    }
    return build(args, chosen);
  }
  check_schedules(tasks(), schedules);
  const std::vector<Kernel> kernels = compile_all(impl_->target, schedules);

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
  // A clone a node: nodes that share a task have weights of their own to prepare.
  for (const NetworkNode& node : nodes()) impl.steps.push_back({kernels[node.task].clone(), {}});
  impl.connect(nodes(), args);
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
  check_arguments(kName, impl().args, arrays);
  const std::lock_guard lock(impl_->mutex);
  const Impl::Bound bound(*impl_, arrays);
  for (const Impl::Step& step : impl_->steps) step.kernel.call(step.arrays);
}

void NetworkKernel::refresh() const {
  for (const Impl::Step& step : impl().steps) step.kernel.refresh();
}

const std::vector<KernelArg>& NetworkKernel::args() const { return impl().args; }
int64_t NetworkKernel::workspace_bytes() const {
  return impl().arena.defined() ? impl_->arena.bytes() : 0;
}

}  // namespace heddle
