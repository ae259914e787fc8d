// Makes tasks, and nodes that call them, of a declaration.
#include "heddle/network/network.h"

#include <algorithm>
#include <map>
#include <utility>

#include "heddle/driver/build.h"
#include "heddle/ir/print.h"
#include "heddle/support/error.h"
#include "network/cut/input_ranges.h"
#include "network/cut/loops.h"
#include "network/cut/network_bytes.h"
#include "network/cut/network_impl.h"
#include "network/cut/recorded_passes.h"
#include "network/cut/scattered_update.h"
#include "network/cut/sizes/family_graph.h"
#include "network/cut/sizes/passes_over_sizes.h"
#include "network/cut/sizes/size_choices.h"
#include "network/cut/step_plan.h"
#include "network/cut/updates.h"
#include "network/passes/concat_in_place.h"
#include "runtime/pool/for_each_task.h"
#include "support/log.h"
#include "support/table.h"

namespace heddle {
namespace {

std::string shape_text(const Tensor& t) {
  std::string text = to_string(t.dtype()) + "[";
  for (int d = 0; d < t.rank(); ++d)
    text += (d ? "," : "") + heddle::to_string(t.shape()[static_cast<size_t>(d)]);
  return text + "]";
}

// Tensors as text: "f32[1,64,56,56] f32[1,64,56,56] + 6 constants".
std::string list_text(const std::vector<Tensor>& tensors) {
  std::string text;
  int constants = 0;
  for (const Tensor& t : tensors) {
    if (t.op()->is_constant()) {
      ++constants;
    } else {
      text += (text.empty() ? "" : " ") + shape_text(t);
    }
  }
  if (constants == 0) return text;
  return text + (text.empty() ? "" : " + ") + std::to_string(constants) +
         (constants == 1 ? " constant" : " constants");
}

// "conv2d+relu f32[1,64,56,56]": the operators that the stages came from, and the result.
std::string task_name(const ComputeDag& network, const network::ExtractedNode& node) {
  std::vector<int> stages = node.stages;
  std::sort(stages.begin(), stages.end());
  std::vector<std::string> operators;
  for (int s : stages) {
    if (network.info(s).precomputable && stages.size() > 1) continue;
    const Operation& op = network.stage(s);
    const std::string& name = op.tag().empty() ? op.name() : op.tag();
    if (std::find(operators.begin(), operators.end(), name) == operators.end()) {
      operators.push_back(name);
    }
  }
  if (operators.empty()) operators.push_back(node.outputs[0].op()->name());
  std::string text;
  for (const std::string& name : operators) text += (text.empty() ? "" : "+") + name;
  return text + " " + shape_text(node.outputs[0]);
}

// Names are for readers but must distinguish tasks: "... (2)" for another stride.
std::string unique_name(const std::vector<TuneTask>& tasks, const std::string& name) {
  std::string unique = name;
  auto taken = [&](const TuneTask& t) { return t.name == unique; };
  for (int n = 2; std::any_of(tasks.begin(), tasks.end(), taken); ++n) {
    unique = name + " (" + std::to_string(n) + ")";
  }
  return unique;
}

}  // namespace

Network::Network(std::vector<Tensor> outputs, const Target& target,
                 const AutoSchedulerOptions& options, const PassOptions& passes, Updates updates) {
  check_options(options);
  updates = network::needed_updates(outputs, std::move(updates));
  outputs = network::with_updates(std::move(outputs), updates);
  std::shared_ptr<Impl> impl;
  PassOptions usual;
  usual.memory = passes.memory;
  if (passes == usual) impl = Impl::of_records(outputs, target, options, passes.memory, updates);
  if (!impl) {
    impl = std::make_shared<Impl>(std::move(outputs), target, options, passes, std::move(updates));
    impl->cut.choices.require_all_known();
  }
  impl->make_tasks();
  impl_ = std::move(impl);
}

Network::Network(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

// Which templates nodes get is the longest part of planning, and no node depends on another.
void Network::Impl::make_tasks() {
  std::vector<size_t> firsts;   // the first node of each kind
  std::vector<size_t> kind_of;  // each node
  // Kernels that store rows at places know the memory that these are of.
  std::map<std::pair<uint64_t, int64_t>, size_t> known;
  for (size_t n = 0; n < cut.nodes.size(); ++n) {
    const int at = network::position_of(cut.states, cut.nodes[n].outputs[0]);
    const StatePlace place = at < 0 ? StatePlace() : cut.states[static_cast<size_t>(at)];
    const int64_t rows =
        place.places ? network::rows_of_state(place.state, place.tensor, place.places) : 0;
    const auto [it, is_new] =
        known.try_emplace({cut.nodes[n].dag->structural_hash(), rows}, firsts.size());
    if (is_new) firsts.push_back(n);
    kind_of.push_back(it->second);
  }
  std::vector<NodeTasks> made(firsts.size());
  for_each_task(made.size(), [&](size_t k) { made[k] = tasks_of(cut.nodes[firsts[k]]); });
  std::vector<int> task_of;
  for (NodeTasks& of_kind : made) {
    task_of.push_back(static_cast<int>(tasks.size()));
    add_tasks(std::move(of_kind));
  }
  const std::vector<double> calls = calls_of_nodes();
  for (size_t n = 0; n < kind_of.size(); ++n) {
    const int task = task_of[kind_of[n]];
    for (size_t i = 0; i < families[task].count; ++i) tasks[task + i].weight += calls[n];
    nodes.push_back({task, std::move(cut.nodes[n].inputs), std::move(cut.nodes[n].outputs)});
  }
  cut.nodes.clear();
  network::set_input_ranges(cut.dag, cut.again, nodes, tasks);
  for (size_t t = 1; t < tasks.size(); ++t) {
    if (families[t].count == 0) tasks[t].input_ranges = tasks[t - 1].input_ranges;
  }
  name_outputs();
}

/// How often a call runs each node, at the usual sizes.
std::vector<double> Network::Impl::calls_of_nodes() const {
  std::vector<double> calls(cut.nodes.size(), 1);
  for (const NetworkLoop& loop : cut.loops) {
    for (size_t n = loop.begin; n < loop.end; ++n)
      calls[n] = cut.runs[static_cast<size_t>(cut.nodes[n].stages.back())];
  }
  return calls;
}

std::shared_ptr<Network::Impl> Network::Impl::of_records(const std::vector<Tensor>& outputs,
                                                         const Target& target,
                                                         const AutoSchedulerOptions& options,
                                                         int64_t memory, const Updates& updates) {
  const std::optional<network::RecordedPasses> found =
      network::recorded_passes(outputs, apply_options(target, options), options, memory);
  if (!found) return nullptr;
  std::shared_ptr<Impl> impl;
  try {
    impl = std::make_shared<Impl>(outputs, target, options, found->options, updates);
    impl->cut.choices.require_all_known();
  } catch (const Error& e) {
    if (e.kind != ErrorKind::User) throw;
    log_line("records", 1, found->source + " skipped: " + e.message);
    return nullptr;
  }
  impl->cut.changes.push_back(
      {"records", to_string(found->options) + ", from the " + found->source});
  return impl;
}

Network::Impl::NodeTasks Network::Impl::tasks_of(const network::ExtractedNode& node) const {
  NodeTasks made;
  const std::string name = task_name(cut.dag, node);
  const auto add = [&](std::vector<Tensor> args, const ComputeDag& dag, const Target& on,
                       const AutoSchedulerOptions& with, const std::string& at) {
    args.insert(args.end(), dag.outputs().begin(), dag.outputs().end());
    made.tasks.push_back(TuneTask{.name = name + at,
                                  .args = std::move(args),
                                  .tmpl = make_template_of_alternatives(dag, on, with),
                                  .weight = 0});
  };
  if (sizes_of(node.task_outputs).empty()) {
    add(node.task_inputs, *node.dag, target, options, "");
    return made;
  }
  auto [points, choices] = network::size_choices(node.task_outputs, sizes, target, options);
  made.family = {.name = name,
                 .outputs = node.task_outputs,
                 .count = points.points.size(),
                 .tree = std::move(points.tree)};
  for (const family::NearChoice& near : choices) {
    const Instance here = at_sizes(node.task_outputs, near.at);
    made.family.chosen_at.push_back(family::sizes_text(near.at));
    made.family.points.push_back(near.at);
    // Where the static choice is the direct form, alternatives may not hold for all sizes.
    AutoSchedulerOptions with = options;
    with.use_alternatives = !near.schedule.dag().alternative().empty();
    add(here.of(node.task_inputs), ComputeDag(here.outputs), near.schedule.target(), with,
        " at " + made.family.chosen_at.back());
  }
  return made;
}

void Network::Impl::add_tasks(NodeTasks made) {
  const size_t first = families.size();
  for (TuneTask& task : made.tasks) {
    task.name = unique_name(tasks, task.name);
    tasks.push_back(std::move(task));
    families.push_back({.count = 0});
  }
  families[first] = std::move(made.family);
}

/// Gives the outputs the names under which they were declared.
void Network::Impl::name_outputs() {
  for (NetworkNode& node : nodes) {
    for (std::vector<Tensor>* list : {&node.inputs, &node.outputs}) {
      for (Tensor& t : *list) {
        const int at = network::position_of(cut.dag.outputs(), t);
        if (at >= 0 && network::position_of(cut.states, t) < 0)
          t = declared.outputs()[static_cast<size_t>(at)];
      }
    }
  }
}

const std::vector<TuneTask>& Network::tasks() const { return impl_->tasks; }

std::vector<TuneTask> Network::tasks_to_tune() const {
  std::vector<TuneTask> tasks = impl_->tasks;
  network::set_network_bytes(impl_->nodes, tasks);
  return tasks;
}

const std::vector<NetworkNode>& Network::nodes() const { return impl_->nodes; }
const std::vector<Tensor>& Network::outputs() const { return impl_->declared.outputs(); }
const Updates& Network::updates() const { return impl_->updates; }
const std::vector<NetworkLoop>& Network::loops() const { return impl_->cut.loops; }
const std::vector<StatePlace>& Network::states() const { return impl_->cut.states; }
const std::vector<Var>& Network::sizes() const { return impl_->sizes; }
const std::vector<TensorPlace>& Network::places() const { return impl_->cut.places; }
const std::vector<NetworkChoice>& Network::choices() const { return impl_->cut.choices.list(); }
const PassOptions& Network::pass_options() const { return impl_->passes; }
Network Network::with_passes(const PassOptions& passes) const {
  return Network(outputs(), impl_->target, impl_->options, passes, updates());
}
Network Network::at(const std::vector<SizeValue>& values) const {
  const Instance here = at_sizes(outputs(), values);
  Updates there = network::updates_at(here, updates());
  const network::CutNetwork& cut = impl_->cut;
  const network::StageTypes& types = cut.choices.types();
  PassOptions passes = impl_->passes;
  passes.choices = network::choices_at(passes.choices, cut.dag, cut.usual, values);
  // Types are those of stages, which other joins would number in another way.
  if (!types.empty()) passes.choices.merge(network::settings_of(choices(), network::is_of_joins));
  if (!types.empty() || !passes.types.empty())
    passes =
        network::passes_at(network::graph_to_cut(here.outputs, there, impl_->target, cut.copied),
                           impl_->target, passes, types);
  if (passes.choices.empty())
    return Network(here.outputs, impl_->target, impl_->options, passes, std::move(there));
  // At these sizes there may be no place for a choice.
  auto impl = std::make_shared<Impl>(here.outputs, impl_->target, impl_->options, passes, there);
  for (const std::string& name : impl->cut.choices.unknown()) {
    passes.choices.erase(name);
    passes.types.erase(name);
  }
  impl->passes = passes;
  impl->make_tasks();
  return Network(std::shared_ptr<const Impl>(std::move(impl)));
}
Network Network::as_tuned(const TuneReport& report) const {
  const PassOptions options = report.passes ? parse_passes(*report.passes) : pass_options();
  return options == pass_options() ? *this : with_passes(options);
}
const std::vector<PassApplication>& Network::passes() const { return impl_->cut.changes; }

std::vector<Schedule> Network::static_schedules() const {
  std::vector<Schedule> schedules;
  for (const TuneTask& task : tasks()) {
    schedules.push_back(task.tmpl.static_schedule());
  }
  return schedules;
}

std::vector<Schedule> Network::naive_schedules() const {
  std::vector<Schedule> schedules;
  for (const TuneTask& task : tasks()) {
    schedules.push_back(naive_schedule(task.tmpl.dag().outputs(), impl_->target));
  }
  return schedules;
}

std::string Network::to_text() const {
  Table table({"node", "task", "calls", "computes", "reads", "writes"});
  for (size_t column : {3, 4, 5}) table.align_left(column);
  for (size_t n = 0; n < nodes().size(); ++n) {
    const NetworkNode& node = nodes()[n];
    const TuneTask& task = tasks()[node.task];
    table.add_row({std::to_string(n), std::to_string(node.task), format_fixed(task.weight, 0),
                   task.name.substr(0, task.name.find(' ')), list_text(node.inputs),
                   list_text(node.outputs)});
  }
  return table.to_string() + impl_->loops_text() + impl_->kernels_text();
}

/// The nodes that a call runs several times.
std::string Network::Impl::loops_text() const {
  std::string text = cut.loops.empty() ? "" : "\nloops, whose nodes run in each turn:\n";
  for (const NetworkLoop& loop : cut.loops) {
    text += "  " + updates.repeats[loop.repeat].name + ": nodes " + std::to_string(loop.begin) +
            " to " + std::to_string(loop.end - 1) + ", " + heddle::to_string(loop.turns) +
            " times\n";
  }
  return text;
}

/// The kernels of each task over dimensions, by the sizes of a call.
std::string Network::Impl::kernels_text() const {
  if (sizes.empty()) return "";
  Table table({"task", "computes", "chosen at", "runs at"});
  for (size_t column : {1, 2, 3}) table.align_left(column);
  for (size_t t = 0; t < tasks.size(); ++t) {
    const network::TaskFamily& family = families[t];
    if (family.outputs.empty()) continue;
    const std::vector<std::string> runs_at = network::sizes_of_leaves(family.tree, sizes);
    for (size_t i = 0; i < family.count; ++i) {
      table.add_row({std::to_string(t + i), tasks[t + i].name.substr(0, tasks[t].name.find(' ')),
                     family.chosen_at[i], runs_at[i]});
    }
  }
  return "\nkernels by sizes, each correct at all of them:\n" + table.to_string();
}

}  // namespace heddle
