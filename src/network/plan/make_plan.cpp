// The plan that results of tuning make.
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <set>

#include "heddle/network/plan.h"
#include "heddle/records/database.h"
#include "heddle/records/record_log.h"
#include "heddle/support/error.h"
#include "network/cut/kernel_records.h"

namespace heddle {
namespace {

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

/// Adds the result for one task.
void add_result(PlannedNode& node, const TaskResult& result) {
  if (result.improved) node.schedule = steps_of(result.schedule);
  node.seconds = result.best_seconds;
  node.rule_seconds = result.static_seconds;
  node.rounds = result.rounds;
  node.trials = result.trials;
  node.proof = result.rounds > 0   ? PlanProof::Race
               : result.trials > 0 ? PlanProof::Trials
                                   : PlanProof::None;
}

/// Adds the kernels of a task over dimensions. Its times are those at the size that takes longest.
void add_kernels(PlannedNode& node, const FamilyResult& kernels) {
  node.kernels = to_json(kernels);
  node.proof = kernels.rows.empty() ? PlanProof::None : PlanProof::Race;
  for (const FamilyRow& row : kernels.rows)
    node.seconds = std::max(node.seconds, row.seconds[static_cast<size_t>(row.variant)]);
}

}  // namespace

const PlannedNode* NetworkPlan::find(uint64_t node_hash) const {
  const auto at = std::find_if(nodes.begin(), nodes.end(),
                               [&](const PlannedNode& n) { return n.hash == node_hash; });
  return at == nodes.end() ? nullptr : &*at;
}

NetworkPlan plan_of(const Network& given, const TuneReport& report,
                    const std::vector<TaskKernels>& kernels) {
  const Network network = given.as_tuned(report);
  const std::vector<TuneTask>& tasks = network.tasks();
  if (report.tasks.size() != tasks.size())
    throw_user_error("the report has " + std::to_string(report.tasks.size()) +
                         " results, and the network " + std::to_string(tasks.size()) + " tasks",
                     {}, "give the report of tuning this network");
  NetworkPlan plan;
  plan.hash = ComputeDag(network.outputs()).structural_hash();
  if (!tasks.empty()) plan.target = tasks[0].tmpl.target();
  plan.passes = to_string(network.pass_options());
  if (report.network && report.network->rounds > 0) {
    const NetworkTimes& whole = *report.network;
    plan.rule_seconds = whole.static_seconds;
    plan.seconds =
        whole.verdict == RaceResult::Faster ? whole.best_seconds : whole.before_seconds();
    plan.rounds = whole.rounds;
    plan.decided = whole.verdict == RaceResult::Faster;
  }
  plan.decided |= std::any_of(report.tasks.begin(), report.tasks.end(),
                              [](const TaskResult& t) { return t.dropped; });
  const std::string date = date_now();
  for (size_t t = 0; t < tasks.size(); ++t) {
    const network::TaskFamily& family = network::families_of(network)[t];
    if (family.count == 0) continue;
    PlannedNode node{.hash = network::declaration_hash(network, t),
                     .name = network::family_name(network, t),
                     .calls = tasks[t].weight,
                     .date = date,
                     .machine = internal::machine_fingerprint(),
                     .build = internal::build_fingerprint()};
    const auto of_task = std::find_if(kernels.begin(), kernels.end(), [&](const TaskKernels& k) {
      return static_cast<size_t>(k.task) == t;
    });
    if (of_task != kernels.end()) add_kernels(node, of_task->kernels);
    if (family.outputs.empty()) add_result(node, report.tasks[t]);
    plan.nodes.push_back(std::move(node));
  }
  return plan;
}

void record_plan(const Network& network, const NetworkPlan& plan, const std::string& log) {
  std::set<uint64_t> known;
  std::error_code error;
  if (std::filesystem::exists(log, error)) {
    for (const Record& r : read_records(log).records) {
      if (r.ok() && target_matches(r.target, plan.target)) known.insert(r.structural_hash);
    }
  }
  RecordLog records(log);
  for (const TuneTask& task : network.tasks()) {
    const PlannedNode* node = plan.find(task.tmpl.dag().direct().structural_hash());
    if (!node || node->schedule.is_null() || !(node->seconds > 0) || known.contains(node->hash))
      continue;
    Record r = make_record(task.name, task.tmpl, task.tmpl.default_config());
    r.alternative = node->schedule.get_string("alternative", "");
    // No template is called so: the steps are replayed.
    r.template_name = "plan";
    r.template_version = 0;
    r.config = Json::object();
    r.steps = node->schedule;
    r.seconds = {node->seconds};
    r.verdict = Verdict::Chosen;
    r.protocol = "plan";
    records.append(r);
  }
}

}  // namespace heddle
