#include "heddle/network/audit.h"

#include <algorithm>
#include <numeric>

#include "driver/program_args.h"
#include "family/near.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "network/audit/audit_range.h"
#include "network/audit/faster_schedules.h"
#include "network/audit/node_bounds.h"
#include "network/cut/check_network.h"
#include "network/cut/kernel_records.h"
#include "network/race/timed_network.h"
#include "network/run/output_difference.h"
#include "runtime/race/clearly_faster.h"

namespace heddle {
namespace {

using network::TaskSchedule;

void check(const Network& network, const AuditOptions& options) {
  if (network.tasks().empty()) throw_user_error("the network has no nodes to audit");
  const Target& target = network.tasks()[0].tmpl.target();
  if (!target.runs_here())
    throw_user_error("kernels for " + to_string(target) + " do not run on this machine", {},
                     "audit the network for a target that does");
  if (network.sizes().empty() && !options.at.empty())
    throw_user_error("the network has no dimensions, so it has no sizes to be audited at");
}

/// What runs for each task of a network with a plan, which has schedules and no configs.
std::vector<TaskSchedule> what_is_planned(const Network& network) {
  const std::vector<network::TaskVariants> variants = network::usual_variants(network);
  std::vector<TaskSchedule> all;
  for (size_t t = 0; t < variants.size(); ++t) {
    const Schedule& runs = variants[t].schedules.at(0);
    TaskSchedule rules = network::schedule_of_rules(network.tasks()[t]);
    if (runs.to_text() != rules.schedule.to_text())
      rules = {runs,
               Json::object(),
               rules.template_name,
               runs.dag().alternative(),
               AuditBound::Record,
               runs.provenance};
    all.push_back(std::move(rules));
  }
  return all;
}

/// What runs for each task.
std::vector<TaskSchedule> what_runs(const Network& network, bool rules) {
  if (!rules && network.plan() != nullptr) return what_is_planned(network);
  std::vector<TaskSchedule> all;
  for (const TuneTask& task : network.tasks()) {
    std::optional<TaskSchedule> recorded;
    if (!rules) recorded = network::schedule_of_records(task);
    all.push_back(recorded ? *std::move(recorded) : network::schedule_of_rules(task));
  }
  return all;
}

std::vector<AuditRow> rows_of(const Network& network, std::span<const TaskSchedule> running,
                              std::span<const double> node_seconds) {
  std::vector<AuditRow> rows(network.tasks().size());
  for (size_t n = 0; n < network.nodes().size(); ++n) {
    AuditRow& row = rows[static_cast<size_t>(network.nodes()[n].task)];
    row.nodes.push_back(static_cast<int>(n));
    row.seconds += node_seconds[n];
  }
  for (size_t t = 0; t < rows.size(); ++t) {
    const Template& tmpl = network.tasks()[t].tmpl;
    rows[t].name = network.tasks()[t].name;
    rows[t].task = static_cast<int>(t);
    rows[t].template_name = running[t].template_name;
    rows[t].alternative = running[t].alternative;
    rows[t].provenance = running[t].source;
    network::set_work(rows[t], driver::work_of(tmpl.dag(), tmpl.target()));
    if (running[t].from == AuditBound::Rules)
      rows[t].certificate = certify(tmpl.dag(), tmpl.target(), tmpl.options());
  }
  network::set_bounds(rows);
  return rows;
}

void sort_by_loss(std::vector<AuditRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const AuditRow& a, const AuditRow& b) { return a.lost_s() > b.lost_s(); });
}

/// Tries the choices about the graph. Those that were faster are changes of the rows whose nodes
/// they change.
void try_choices(const Network& network, const AuditOptions& options, Audit& found) {
  if (options.progress) options.progress("trying the choices about the graph");
  found.choices = choose_passes(network, options.choice_seconds, TuneClock());
  for (const std::string& problem : found.choices.times.problems) found.problems.push_back(problem);
  for (const ChoiceTrial& trial : found.choices.trials) {
    if (!(trial.after < trial.before)) continue;
    for (AuditRow& row : found.rows) {
      const auto changed = [&](int node) {
        return std::binary_search(trial.nodes.begin(), trial.nodes.end(), node);
      };
      if (std::any_of(row.nodes.begin(), row.nodes.end(), changed))
        row.changes.push_back({AuditBound::Graph,
                               "--passes=" + trial.change,
                               {},
                               trial.text,
                               trial.before,
                               trial.after,
                               trial.verdict == TrialResult::Taken});
    }
  }
}

/// Changes by what they gain, and the reasons for what runs, those first that the best would change.
void explain(const Network& network, std::span<const TaskSchedule> running, AuditRow& row) {
  const auto gain = [](const AuditChange& c) { return c.before - c.after; };
  std::stable_sort(row.changes.begin(), row.changes.end(),
                   [&](const AuditChange& a, const AuditChange& b) {
                     return a.proven != b.proven ? a.proven : gain(a) > gain(b);
                   });
  const TaskSchedule& runs = running[static_cast<size_t>(row.task)];
  if (runs.from != AuditBound::Rules) return;
  const Template& tmpl = network.tasks()[static_cast<size_t>(row.task)].tmpl;
  std::vector<std::string> changed;
  for (const AuditChange& c : row.changes) {
    for (const std::string& knob : c.knobs) changed.push_back(knob);
  }
  row.why = network::reasons_of(tmpl.branch(tmpl.branch_of(tmpl.default_config())), changed);
}

Audit audit_one_size(const Network& network, const AuditOptions& options) {
  const Target& target = network.tasks()[0].tmpl.target();
  const std::vector<TaskSchedule> running = what_runs(network, options.rules);
  std::vector<Schedule> schedules;
  for (const TaskSchedule& s : running) schedules.push_back(s.schedule);
  Audit found;
  {
    if (options.progress) options.progress("timing the nodes in calls of the network");
    const std::vector<Tensor> args = network::call_args(network);
    network::TimedNetwork timed(network, schedules, args,
                                network::random_arrays(args, network::device_of(target)));
    const std::vector<double> nodes = timed.node_seconds(options.profile_seconds);
    found.rows = rows_of(network, running, nodes);
    constexpr int kCalls = 5;
    std::vector<double> calls;
    for (int c = 0; c < kCalls; ++c) calls.push_back(timed.call().total);
    found.call_s = median_of(calls);
  }
  sort_by_loss(found.rows);
  network::find_faster_schedules(network, running, options, found);
  if (options.choice_seconds > 0) try_choices(network, options, found);
  for (AuditRow& row : found.rows) explain(network, running, row);
  return found;
}

}  // namespace

double Audit::lost_s() const {
  return std::accumulate(rows.begin(), rows.end(), 0.0,
                         [](double sum, const AuditRow& row) { return sum + row.lost_s(); });
}

Audit audit(const Network& network, const AuditOptions& options) {
  check(network, options);
  const Target& target = network.tasks()[0].tmpl.target();
  const ScopedThreads threads(network::race_threads(target));
  Audit found;
  if (network.sizes().empty()) {
    found = audit_one_size(network, options);
  } else {
    const Network alone = network.at(options.at);
    if (!network::takes(network, options.at))
      throw_user_error("at " + family::sizes_text(options.at) +
                           " a call updates rows that its state does not have",
                       {}, "audit the network at sizes whose rows fit into its states");
    AuditOptions of_alone = options;
    of_alone.at.clear();
    of_alone.choice_seconds = 0;  // a network over dimensions has no choices
    found = network::audit_range(network, options, alone, audit_one_size(alone, of_alone));
  }
  sort_by_loss(found.rows);
  found.threads = target.is_cuda() ? 1 : num_threads();
  found.target = to_string(target);
  return found;
}

}  // namespace heddle
