// What of a plan holds for a network.
#include <algorithm>
#include <exception>
#include <optional>

#include "driver/program_args.h"
#include "driver/records_may_answer.h"
#include "family/json.h"
#include "heddle/network/plan.h"
#include "heddle/records/database.h"
#include "heddle/support/error.h"
#include "network/cut/kernel_records.h"
#include "network/cut/network_impl.h"
#include "network/cut/updates.h"
#include "network/plan/planned_schedules.h"
#include "support/log.h"

namespace heddle {
namespace network {
namespace {

/// Whether targets differ in nothing that the steps of a schedule depend on.
bool same_but_threads(Target have, const Target& want) {
  have.cores = want.cores;
  return target_matches(have, want);
}

/// Makes kernels of the nodes of a plan.
class PlanReader {
 public:
  /// `options` are those of the network. Those of a task over dimensions may exclude alternatives
  /// that the kernels of others may use.
  PlanReader(const NetworkPlan& plan, const AutoSchedulerOptions& options)
      : plan_(plan), options_(options) {}

  /// The kernels of a task, `own` being its places. Where the node does not hold here, there are
  /// none, and `why_not` says why.
  std::optional<TaskVariants> read(const PlannedNode& node, const TaskFamily& family,
                                   std::span<const TuneTask> own, const std::vector<Var>& sizes,
                                   std::string* why_not) const {
    try {
      return made(node, family, own, sizes);
    } catch (const Error& e) {
      *why_not = e.message;
    } catch (const std::exception& e) {  // a file may contain anything
      *why_not = e.what();
    }
    return std::nullopt;
  }

  /// A schedule of a plan for the declaration of a template. Throws where it does not hold there.
  Schedule schedule(const Json& steps, const Template& t) const {
    return checked(schedule_of_steps(steps, t));
  }

 private:
  TaskVariants made(const PlannedNode& node, const TaskFamily& family,
                    std::span<const TuneTask> own, const std::vector<Var>& sizes) const {
    const bool over_sizes = !family.outputs.empty();
    if (node.is_rule()) return rule(family, own);
    if (node.schedule.is_null() != over_sizes)
      throw_user_error(over_sizes ? "it has steps for one size" : "it has kernels by size");
    if (!over_sizes) return {{schedule(node.schedule, own[0].tmpl)}, {}};
    const Template& t = own[0].tmpl;
    TaskVariants made{{}, family::size_tree_from_json(node.kernels, sizes)};
    for (const Schedule& s :
         family::schedules_from_json(node.kernels, ComputeDag(family.outputs))) {
      allow(s.dag().alternative(), ComputeDag(family.outputs));
      made.schedules.push_back(checked(s.for_target(t.target(), options_)));
      made.schedules.back().provenance = s.provenance;
    }
    return made;
  }

  static TaskVariants rule(const TaskFamily& family, std::span<const TuneTask> own) {
    std::vector<Schedule> rules;
    for (const TuneTask& task : own) rules.push_back(task.tmpl.static_schedule());
    if (family.outputs.empty()) return {std::move(rules), {}};
    return variants_for_all_sizes(family, rules, own);
  }

  void allow(const std::string& alternative, const ComputeDag& dag) const {
    const std::string why = driver::why_alternative_forbidden(alternative, dag, options_);
    if (!why.empty()) throw_user_error(why);
  }

  Schedule schedule_of_steps(const Json& steps, const Template& t) const {
    Record record;
    record.steps = steps;
    record.target = plan_.target;
    const ComputeDag& dag = t.dag().direct();
    allow(steps.get_string("alternative", ""), dag);
    Schedule made = replay(record, dag, t.target(), options_);
    if (!made.provenance.starts_with("plan: ")) made.provenance = "plan: " + made.provenance;
    return made;
  }

  /// The schedule, which compiles where the plan was made for this machine.
  Schedule checked(Schedule s) const {
    if (!same_but_threads(plan_.target, s.target())) driver::check_lowers(s);
    return s;
  }

  const NetworkPlan& plan_;
  const AutoSchedulerOptions& options_;
};

}  // namespace

std::vector<std::optional<Schedule>> planned_schedules(const Network& network) {
  std::vector<std::optional<Schedule>> schedules;
  for (const TaskFamily& f : families_of(network)) {
    const bool one = f.outputs.empty() && f.count > 0 && f.planned;
    schedules.push_back(one ? std::optional(f.planned->schedules[0]) : std::nullopt);
  }
  return schedules;
}

std::vector<Schedule> runners_up_of(const NetworkPlan& plan, const PlannedNode& node,
                                    const Template& tmpl) {
  const PlanReader reader(plan, tmpl.options());
  std::vector<Schedule> made;
  for (const Json& steps : node.runners_up) {
    try {
      made.push_back(reader.schedule(steps, tmpl));
    } catch (const std::exception& e) {  // a file may contain anything
      log_line("records", 1, "a runner-up of '" + node.name + "' is left out: " + e.what());
    }
  }
  return made;
}

namespace {

/// What a plan was made for that this network is not.
std::vector<std::string> mismatches(const NetworkPlan& plan, uint64_t hash, const Target& target) {
  std::vector<std::string> remarks;
  if (plan.hash != hash) remarks.emplace_back("it was made for another declaration");
  if (!same_but_threads(plan.target, target)) {
    remarks.push_back("it was made for '" + to_string(plan.target) + "', and this is for '" +
                      to_string(target) + "'");
  } else if (!target.is_cuda() && plan.target.cores != target.cores) {
    remarks.push_back("it was made for " + std::to_string(plan.target.cores) +
                      (plan.target.cores == 1 ? " thread" : " threads") + ", and this is for " +
                      std::to_string(target.cores));
  }
  return remarks;
}

/// Why no node of a plan is taken; empty where nodes may be.
std::string why_none(const NetworkPlan& plan, const Target& target,
                     const AutoSchedulerOptions& options) {
  if (plan.target.kind != target.kind) return "the plan is for another kind of machine";
  AutoSchedulerOptions with_records = options;
  with_records.use_records = true;
  return driver::records_may_answer(with_records) ? ""
                                                  : "options are set that plans are not made with";
}

}  // namespace
}  // namespace network

std::shared_ptr<Network::Impl> Network::Impl::of_plan(const std::vector<Tensor>& outputs,
                                                      const Target& target,
                                                      const AutoSchedulerOptions& options,
                                                      const Updates& updates,
                                                      const std::string& passes, PlanUse& use) {
  try {
    auto impl = std::make_shared<Impl>(outputs, target, options, parse_passes(passes), updates);
    impl->cut.choices.require_all_known();
    return impl;
  } catch (const Error& e) {
    if (e.kind != ErrorKind::User) throw;
    use.remarks.push_back("its choices about the graph do not fit: " + e.message);
  }
  return std::make_shared<Impl>(outputs, target, options, PassOptions(), updates);
}

Network Network::planned(std::vector<Tensor> outputs, const NetworkPlan& plan, const Target& target,
                         const AutoSchedulerOptions& options, Updates updates) {
  check_options(options);
  updates = network::needed_updates(outputs, std::move(updates));
  outputs = network::with_updates(std::move(outputs), updates);
  PlanUse use;
  const std::shared_ptr<Impl> impl =
      Impl::of_plan(outputs, target, options, updates, plan.passes, use);
  impl->make_tasks();
  std::vector<std::string> remarks =
      network::mismatches(plan, impl->declared.structural_hash(), impl->target);
  use.remarks.insert(use.remarks.begin(), remarks.begin(), remarks.end());
  const std::string none = network::why_none(plan, impl->target, options);
  const Network made(impl);
  const network::PlanReader reader(plan, options);
  const std::span<const TuneTask> tasks = impl->tasks;
  for (size_t t = 0; t < tasks.size(); ++t) {
    network::TaskFamily& family = impl->families[t];
    if (family.count == 0) continue;
    PlanUse::Node node{.name = network::family_name(made, t), .why_not = none};
    const PlannedNode* found = plan.find(network::declaration_hash(made, t));
    if (node.why_not.empty() && !found) node.why_not = "it is not in the plan";
    if (node.why_not.empty()) {
      family.planned =
          reader.read(*found, family, tasks.subspan(t, family.count), impl->sizes, &node.why_not);
      node.planned = family.planned.has_value();
      node.rule = found->is_rule();
    }
    use.nodes.push_back(std::move(node));
  }
  impl->plan = std::make_shared<const NetworkPlan>(plan);
  impl->plan_use = std::make_shared<const PlanUse>(std::move(use));
  return made;
}

Network Network::with_plan(const NetworkPlan& plan) const {
  return planned(outputs(), plan, impl_->target, impl_->options, updates());
}

const NetworkPlan* Network::plan() const { return impl_->plan.get(); }
const PlanUse* Network::plan_use() const { return impl_->plan_use.get(); }

NetworkKernel Network::build(const std::vector<Tensor>& args, const NetworkPlan& plan) const {
  return with_plan(plan).build(args);
}

int PlanUse::planned() const {
  return static_cast<int>(
      std::count_if(nodes.begin(), nodes.end(), [](const Node& n) { return n.planned; }));
}

int PlanUse::rules() const {
  return static_cast<int>(
      std::count_if(nodes.begin(), nodes.end(), [](const Node& n) { return n.planned && n.rule; }));
}

bool PlanUse::whole() const {
  return remarks.empty() && planned() == static_cast<int>(nodes.size());
}

std::string to_string(const PlanUse& use) {
  const size_t planned = static_cast<size_t>(use.planned());
  std::string text = std::to_string(planned) + " of " + std::to_string(use.nodes.size()) +
                     (use.nodes.size() == 1 ? " node" : " nodes");
  if (use.rules() > 0) text += ", " + std::to_string(use.rules()) + " by rule";
  for (const std::string& remark : use.remarks) text += "; " + remark;
  for (const PlanUse::Node& n : use.nodes) {
    if (n.planned) continue;
    text += "; not '" + n.name + "': " + n.why_not;
    const size_t more = use.nodes.size() - planned - 1;
    if (more > 0) text += " (and " + std::to_string(more) + " more)";
    break;
  }
  return text;
}

}  // namespace heddle
