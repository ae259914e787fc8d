#include "network/cut/horizontal.h"

#include <algorithm>
#include <optional>

#include "driver/program_args.h"
#include "heddle/driver/build.h"
#include "lower/gpu/memory/join_kernels.h"
#include "network/cut/independent_nodes.h"
#include "network/cut/kernel_records.h"
#include "network/cut/loops.h"
#include "network/cut/memory/moved_nodes.h"
#include "network/cut/step_plan.h"
#include "network/cut/task_schedules.h"

namespace heddle::network {
namespace {

// The most kernels of tasks over sizes that share launches.
constexpr size_t kMostCombinations = 12;

// Rounds of blocks of kernels that only move elements for a kernel after them: together they take their sum
// at most.
constexpr int64_t kRoundsOfCopies = 4;

// Whether all launches that these programs would share fit.
bool fit_together(const std::vector<const GpuProgram*>& programs, const Gpu& gpu) {
  size_t launches = 0;
  for (const GpuProgram* p : programs) launches = std::max(launches, p->main.size());
  for (size_t l = 0; l < launches; ++l) {
    std::vector<const GpuKernel*> here;
    bool before_others = true;
    for (const GpuProgram* p : programs) {
      if (l >= p->main.size()) continue;
      here.push_back(&p->main[l]);
      before_others = before_others && l + 1 < p->main.size();
    }
    const int64_t rounds = before_others ? kRoundsOfCopies : 1;
    if (here.size() > 1 && !gpu::fit_in_one_launch(here, gpu, rounds)) return false;
  }
  return launches > 0;
}

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

StepNodes separate_steps(const std::vector<NetworkNode>& nodes) {
  std::vector<std::vector<int>> lists;
  for (size_t n = 0; n < nodes.size(); ++n) lists.push_back({static_cast<int>(n)});
  return steps_of(nodes, std::move(lists));
}

/// The nodes in parts of which each is a loop, or lies between loops.
std::vector<std::vector<int>> independent_in_loops(
    const Network& network, MovedNodes memory,
    FunctionRef<bool(const std::vector<int>& tasks)> fit) {
  std::vector<std::vector<int>> all;
  const auto add = [&](size_t begin, size_t end) {
    for (std::vector<int>& step : independent_nodes(network.nodes(), begin, end, network.places(),
                                                    network.states(), memory, fit))
      all.push_back(std::move(step));
  };
  size_t done = 0;
  for (const NetworkLoop& loop : network.loops()) {
    add(done, loop.begin);
    add(loop.begin, loop.end);
    done = loop.end;
  }
  add(done, network.nodes().size());
  return all;
}

/// The buffers between the steps of a network. Others lie in arguments, or are constants.
BufferGraph buffers_between(const Network& network, const std::vector<NetworkNode>& steps) {
  BufferGraph graph(network.places(), [&](const Tensor& t) {
    return position_of(network.outputs(), t) >= 0 || position_of(network.states(), t) >= 0;
  });
  for (const NetworkNode& step : steps) graph.add_node(step.inputs, step.outputs);
  return graph;
}

/// The steps of a network of which those that `fit` share launches, where the buffers between them take about
/// as much memory as between the nodes one by one, or no more than a call may take, or little.
StepNodes steps_in_memory(const Network& network,
                          FunctionRef<bool(const std::vector<int>& tasks)> fit) {
  constexpr int64_t kLittle = 8 << 20;
  constexpr int64_t kGap = 16;  // an arena has gaps; a share of it is none too many
  constexpr int kMostArenas = 8;
  const BufferGraph graph = buffers_between(network, network.nodes());
  const int64_t alone = plan_memory(graph.lifetimes()).bytes, limit = network.pass_options().memory,
                most = limit > 0 ? limit : std::max(kLittle, alone + alone / kGap);
  int64_t live = limit > 0 ? limit : std::max(kLittle, alone);
  for (int i = 0; i < kMostArenas; ++i) {
    StepNodes steps =
        steps_of(network.nodes(), independent_in_loops(network, MovedNodes(graph, live), fit));
    const int64_t bytes = plan_memory(buffers_between(network, steps.steps).lifetimes()).bytes;
    if (bytes <= most) return steps;
    live -= std::max(bytes - most, most / kGap);
  }
  return separate_steps(network.nodes());
}

/// The combinations of the variants of these tasks, where they are few.
std::optional<JoinedSizes> sizes_of(const std::vector<int>& tasks,
                                    const std::vector<TaskVariants>& variants) {
  std::vector<SizeTree> trees;
  for (const int task : tasks) {
    const TaskVariants& v = variants[static_cast<size_t>(task)];
    if (v.tree.size() < 2 && v.schedules.size() != 1) return std::nullopt;
    trees.push_back(v.tree);
  }
  return join_sizes(trees, kMostCombinations);
}

}  // namespace

NetworkSteps::NetworkSteps(const Network& network, const Target& target,
                           const std::vector<TaskVariants>& variants)
    : target_(target), variants_(&variants) {
  if (!target.is_cuda() || !network.pass_options().horizontal) {
    steps_ = separate_steps(network.nodes());
    steps_.loops = network.loops();
    return;
  }
  std::map<std::vector<int>, bool> known;
  steps_ = steps_in_memory(network, [&](const std::vector<int>& tasks) {
    const auto [it, is_new] = known.try_emplace(tasks);
    if (is_new) it->second = fit(tasks);
    return it->second;
  });
  steps_.loops = loops_of_steps(network.loops(), steps_.nodes);
  for (size_t s = 0; s < steps_.tasks.size(); ++s) {
    if (steps_.tasks[s].size() == 1 || joined_of(s)) continue;
    joined_.push_back({steps_.tasks[s], *sizes_of(steps_.tasks[s], variants), kernels_});
    kernels_ += joined_.back().sizes.combinations.size();
  }
}

const GpuProgram& NetworkSteps::lowered(int task, int variant) {
  const auto it = programs_.find({task, variant});
  if (it != programs_.end()) return it->second;
  const Schedule& schedule =
      (*variants_)[static_cast<size_t>(task)].schedules[static_cast<size_t>(variant)];
  return programs_
      .emplace(std::pair{task, variant},
               driver::lower_for_gpu(schedule, task_args(schedule),
                                     {.name = "network_task" + std::to_string(task)}))
      .first->second;
}

bool NetworkSteps::fit(const std::vector<int>& tasks) {
  const std::optional<JoinedSizes> sizes = sizes_of(tasks, *variants_);
  return sizes && std::ranges::all_of(sizes->combinations, [&](const std::vector<int>& variants) {
           std::vector<const GpuProgram*> programs;
           for (size_t i = 0; i < tasks.size(); ++i)
             programs.push_back(&lowered(tasks[i], variants[i]));
           return fit_together(programs, target_.gpu);
         });
}

bool NetworkSteps::needs(int task) const {
  const std::vector<int> alone{task};
  return std::find(steps_.tasks.begin(), steps_.tasks.end(), alone) != steps_.tasks.end();
}

const NetworkSteps::Joined* NetworkSteps::joined_of(size_t step) const {
  const auto it = std::ranges::find(joined_, steps_.tasks[step], &Joined::tasks);
  return it == joined_.end() ? nullptr : &*it;
}

std::pair<const NetworkSteps::Joined*, size_t> NetworkSteps::joined_kernel(size_t k) const {
  const auto behind = std::ranges::upper_bound(joined_, k, {}, &Joined::first);
  const Joined& joined = *(behind - 1);
  return {&joined, k - joined.first};
}

std::string NetworkSteps::name(size_t k) const {
  const auto [joined, combination] = joined_kernel(k);
  std::string name = "network_tasks";
  for (const int task : joined->tasks) name += "_" + std::to_string(task);
  return joined->sizes.combinations.size() == 1 ? name : name + "_v" + std::to_string(combination);
}

NetworkSteps::Program NetworkSteps::program(size_t k) const {
  const auto [tasks, combination] = joined_kernel(k);
  std::vector<GpuProgram> parts;
  std::vector<Tensor> args;
  KernelWork work;
  for (size_t i = 0; i < tasks->tasks.size(); ++i) {
    const int task = tasks->tasks[i], variant = tasks->sizes.combinations[combination][i];
    const Schedule& schedule =
        (*variants_)[static_cast<size_t>(task)].schedules[static_cast<size_t>(variant)];
    parts.push_back(programs_.at({task, variant}));
    for (const Tensor& t : task_args(schedule)) args.push_back(t);
    const KernelWork of_task = driver::work_of(schedule.dag().direct(), target_);
    work = {work.flops + of_task.flops, work.bytes + of_task.bytes, of_task.roof};
  }
  GpuProgram joined = gpu::join_programs(name(k), parts);
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
