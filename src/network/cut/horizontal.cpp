#include "network/cut/horizontal.h"

#include <algorithm>

#include "driver/program_args.h"
#include "heddle/driver/build.h"
#include "lower/gpu/memory/join_kernels.h"
#include "network/cut/kernel_records.h"
#include "network/cut/step_plan.h"
#include "network/cut/task_schedules.h"

namespace heddle::network {
namespace {

constexpr size_t kMostParts = 8;
// Registers that a thread of a usual kernel has, and threads that may have all that a thread can.
constexpr int64_t kUsualRegisters = 128, kThreadsOfAllRegisters = 256;

int64_t volume(const std::array<int64_t, 3>& v) { return v[0] * v[1] * v[2]; }

// The blocks of such a launch that the GPU runs at a time.
int64_t wave(int64_t threads, int64_t shared_bytes, const Gpu& gpu) {
  int64_t of_sm = std::min<int64_t>(gpu.blocks_per_sm, gpu.threads_per_sm / threads);
  of_sm = std::min(of_sm, gpu.registers_per_sm / (threads * kUsualRegisters));
  of_sm = std::min(of_sm, gpu.smem_per_sm / (shared_bytes + gpu.smem_reserved));
  return std::max<int64_t>(1, of_sm) * gpu.sms;
}

bool fit_in_one_launch(const std::vector<const GpuKernel*>& kernels, const Gpu& gpu) {
  int64_t blocks = 0, most = 0, least = INT64_MAX, shared = 0;
  for (const GpuKernel* k : kernels) {
    if (!gpu::can_join(*k)) return false;
    blocks += volume(k->grid);
    most = std::max(most, volume(k->block));
    least = std::min(least, volume(k->block));
    shared = std::max(shared, k->shared_bytes);
  }
  if (most > kThreadsOfAllRegisters && most > 2 * least) return false;
  return blocks <= wave(most, shared, gpu);
}

// Whether all launches that these programs would share fit.
bool fit_together(const std::vector<const GpuProgram*>& programs, const Gpu& gpu) {
  size_t launches = 0;
  for (const GpuProgram* p : programs) launches = std::max(launches, p->main.size());
  for (size_t l = 0; l < launches; ++l) {
    std::vector<const GpuKernel*> here;
    for (const GpuProgram* p : programs) {
      if (l < p->main.size()) here.push_back(&p->main[l]);
    }
    if (here.size() > 1 && !fit_in_one_launch(here, gpu)) return false;
  }
  return launches > 0;
}

// The nodes on which each node depends, by the memory that it reads.
std::vector<std::vector<int>> dependencies(const std::vector<NetworkNode>& nodes,
                                           const std::vector<TensorPlace>& places,
                                           const std::vector<StatePlace>& states) {
  const auto memory = [&](const Tensor& t) {
    for (const StatePlace& p : states) {
      if (p.tensor.same_as(t)) return p.state.buffer().get();
    }
    const auto it = std::find_if(places.begin(), places.end(),
                                 [&](const TensorPlace& p) { return p.tensor.same_as(t); });
    return (it == places.end() ? t : it->whole).buffer().get();
  };
  std::map<const BufferNode*, std::vector<int>> writers, readers;
  std::vector<std::vector<int>> out(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (const Tensor& t : nodes[n].inputs) {
      const auto it = writers.find(memory(t));
      if (it != writers.end()) out[n].insert(out[n].end(), it->second.begin(), it->second.end());
    }
    for (const Tensor& t : nodes[n].outputs) {
      const std::vector<int>& read_before = readers[memory(t)];
      out[n].insert(out[n].end(), read_before.begin(), read_before.end());
      writers[memory(t)].push_back(static_cast<int>(n));
    }
    for (const Tensor& t : nodes[n].inputs) readers[memory(t)].push_back(static_cast<int>(n));
  }
  return out;
}

// Takes nodes that are ready until all are steps.
class Scheduler {
 public:
  Scheduler(const std::vector<NetworkNode>& nodes, const std::vector<TensorPlace>& places,
            const std::vector<StatePlace>& states, const Gpu& gpu,
            FunctionRef<const GpuProgram*(int)> program)
      : nodes_(nodes),
        gpu_(gpu),
        program_(program),
        needs_(dependencies(nodes, places, states)),
        after_(nodes.size()),
        done_(nodes.size()) {
    for (size_t n = nodes.size(); n-- > 0;) {
      for (const int p : needs_[n]) {
        int& longest = after_[static_cast<size_t>(p)];
        longest = std::max(longest, after_[n] + 1);
      }
    }
  }

  std::vector<std::vector<int>> run() {
    std::vector<std::vector<int>> steps;
    for (size_t first = 0; first < nodes_.size();) {
      // Nodes are in an order in which they can run, so the first that is left is ready.
      if (done_[first]) {
        ++first;
        continue;
      }
      steps.push_back(step_of(static_cast<int>(first)));
      for (const int n : steps.back()) done_[static_cast<size_t>(n)] = 1;
    }
    return steps;
  }

 private:
  bool ready(size_t n) const {
    return !done_[n] && std::all_of(needs_[n].begin(), needs_[n].end(),
                                    [&](int p) { return done_[static_cast<size_t>(p)] != 0; });
  }

  /// The nodes that run with `first`; or a node before it, because more nodes wait for that one, and
  /// `first` leaves room for what comes behind it.
  std::vector<int> step_of(int first) {
    std::vector<int> step{first};
    std::vector<const GpuProgram*> programs;
    int longest = first;
    for (size_t n = static_cast<size_t>(first) + 1; n < nodes_.size(); ++n) {
      if (step.size() == kMostParts) break;
      if (!ready(n)) continue;
      if (programs.empty()) programs.push_back(program_(nodes_[static_cast<size_t>(first)].task));
      if (programs[0] == nullptr) break;
      const GpuProgram* other = program_(nodes_[n].task);
      if (other == nullptr) continue;
      programs.push_back(other);
      if (fit_together(programs, gpu_)) {
        step.push_back(static_cast<int>(n));
      } else {
        programs.pop_back();
        if (after(static_cast<int>(n)) > after(longest)) longest = static_cast<int>(n);
      }
    }
    const bool waits =
        step.size() == 1 && longest != first && fit_together({programs[0], programs[0]}, gpu_);
    return waits ? std::vector<int>{longest} : step;
  }
  /// The number of nodes that run one after the other behind `n`.
  int after(int n) const { return after_[static_cast<size_t>(n)]; }

  const std::vector<NetworkNode>& nodes_;
  const Gpu& gpu_;
  FunctionRef<const GpuProgram*(int)> program_;
  const std::vector<std::vector<int>> needs_;
  std::vector<int> after_;
  std::vector<char> done_;
};

StepNodes steps_of(const std::vector<NetworkNode>& nodes, std::vector<std::vector<int>> lists) {
  StepNodes out;
  for (std::vector<int>& list : lists) {
    NetworkNode step{nodes[static_cast<size_t>(list[0])].task, {}, {}};
    std::vector<int> tasks;
    for (const int n : list) {
      const NetworkNode& node = nodes[static_cast<size_t>(n)];
      tasks.push_back(node.task);
      step.inputs.insert(step.inputs.end(), node.inputs.begin(), node.inputs.end());
      step.outputs.insert(step.outputs.end(), node.outputs.begin(), node.outputs.end());
    }
    out.steps.push_back(std::move(step));
    out.tasks.push_back(std::move(tasks));
    out.nodes.push_back(std::move(list));
  }
  return out;
}

}  // namespace

StepNodes separate_steps(const std::vector<NetworkNode>& nodes) {
  std::vector<std::vector<int>> lists;
  for (size_t n = 0; n < nodes.size(); ++n) lists.push_back({static_cast<int>(n)});
  return steps_of(nodes, std::move(lists));
}

StepNodes horizontal_steps(const std::vector<NetworkNode>& nodes,
                           const std::vector<TensorPlace>& places,
                           const std::vector<StatePlace>& states, const Gpu& gpu,
                           FunctionRef<const GpuProgram*(int task)> program) {
  return steps_of(nodes, Scheduler(nodes, places, states, gpu, program).run());
}

NetworkSteps::NetworkSteps(const Network& network, const Target& target,
                           const std::vector<TaskVariants>& variants)
    : target_(target), variants_(&variants) {
  if (!target.is_cuda() || !network.pass_options().horizontal || !network.sizes().empty()) {
    steps_ = separate_steps(network.nodes());
    return;
  }
  steps_ = horizontal_steps(network.nodes(), network.places(), network.states(), target.gpu,
                            [&](int task) { return lowered(task); });
  for (const std::vector<int>& tasks : steps_.tasks) {
    const bool known = std::find(joined_.begin(), joined_.end(), tasks) != joined_.end();
    if (tasks.size() > 1 && !known) joined_.push_back(tasks);
  }
}

const GpuProgram* NetworkSteps::lowered(int task) {
  const auto it = programs_.find(task);
  if (it != programs_.end()) return &it->second;
  const std::vector<Schedule>& schedules = (*variants_)[static_cast<size_t>(task)].schedules;
  if (schedules.size() != 1) return nullptr;
  return &programs_
              .emplace(task, driver::lower_for_gpu(schedules[0], task_args(schedules[0]),
                                                   {.name = "network_task" + std::to_string(task)}))
              .first->second;
}

bool NetworkSteps::needs(int task) const {
  const std::vector<int> alone{task};
  return std::find(steps_.tasks.begin(), steps_.tasks.end(), alone) != steps_.tasks.end();
}

int NetworkSteps::joined_of(size_t step) const {
  const auto it = std::find(joined_.begin(), joined_.end(), steps_.tasks[step]);
  return it == joined_.end() ? -1 : static_cast<int>(it - joined_.begin());
}

std::string NetworkSteps::name(size_t j) const {
  std::string name = "network_tasks";
  for (const int task : joined_[j]) name += "_" + std::to_string(task);
  return name;
}

NetworkSteps::Program NetworkSteps::program(size_t j) const {
  std::vector<GpuProgram> parts;
  std::vector<Tensor> args;
  KernelWork work;
  for (const int task : joined_[j]) {
    const Schedule& schedule = (*variants_)[static_cast<size_t>(task)].schedules[0];
    parts.push_back(programs_.at(task));
    for (const Tensor& t : task_args(schedule)) args.push_back(t);
    const KernelWork of_task = driver::work_of(schedule.dag().direct(), target_);
    work = {work.flops + of_task.flops, work.bytes + of_task.bytes, of_task.roof};
  }
  GpuProgram joined = gpu::join_programs(name(j), parts);
  // Inputs first, as in a step.
  std::vector<size_t> order;
  for (const bool outputs : {false, true}) {
    for (size_t i = 0; i < args.size(); ++i) {
      if (args[i].op()->is_placeholder() != outputs) order.push_back(i);
    }
  }
  Program out{joined, {}, std::move(work)};
  out.program.args.clear();
  out.program.constant_args.clear();
  for (const size_t i : order) {
    const std::vector<int>& constant = joined.constant_args;
    if (std::find(constant.begin(), constant.end(), static_cast<int>(i)) != constant.end())
      out.program.constant_args.push_back(static_cast<int>(out.args.size()));
    out.program.args.push_back(joined.args[i]);
    out.args.push_back(args[i]);
  }
  return out;
}

std::string NetworkSteps::text(const Network& network, size_t step) const {
  std::string text;
  for (const int task : steps_.tasks[step])
    text += (text.empty() ? "" : " | ") + family_name(network, static_cast<size_t>(task));
  return text;
}

std::vector<PassApplication> NetworkSteps::applications(const Network& network) const {
  std::vector<PassApplication> out;
  for (size_t s = 0; s < steps_.steps.size(); ++s) {
    if (steps_.tasks[s].size() > 1)
      out.push_back({"horizontal", text(network, s) + " share their launches"});
  }
  return out;
}

}  // namespace heddle::network
