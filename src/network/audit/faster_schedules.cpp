#include "network/audit/faster_schedules.h"

#include <algorithm>
#include <numeric>

#include "heddle/support/error.h"
#include "measure/task/race.h"
#include "network/audit/node_bounds.h"
#include "records/nearest_config.h"
#include "support/table.h"

namespace heddle::network {
namespace {

class FasterSchedules {
 public:
  FasterSchedules(const Network& network, std::span<const TaskSchedule> running,
                  const AuditOptions& options, Audit& found)
      : network_(network), running_(running), options_(options), found_(found) {}

  void find() {
    const size_t worst =
        std::min(found_.rows.size(), static_cast<size_t>(std::max(options_.worst, 0)));
    others_.resize(network_.tasks().size());
    for (size_t r = 0; r < worst; ++r) {
      if (found_.rows[r].lost_s() > 0) collect(r);
    }
    const auto empty = [](const std::vector<TaskSchedule>& list) { return list.empty(); };
    if (!std::all_of(others_.begin(), others_.end(), empty)) race(worst);
  }

 private:
  static size_t task_of(const AuditRow& row) { return static_cast<size_t>(row.task); }

  void collect(size_t r) {
    const AuditRow& row = found_.rows[r];
    const TuneTask& task = network_.tasks()[task_of(row)];
    if (running_[task_of(row)].from != AuditBound::Rules) add(row, schedule_of_rules(task));
    if (options_.rules) {
      if (const std::optional<TaskSchedule> recorded = schedule_of_records(task))
        add(row, *recorded);
    }
    const size_t like = best_of_like(found_.rows, r);
    if (like != r) add_like(row, found_.rows[like]);
    if (options_.tune_seconds > 0) add_tuned(row);
  }

  /// Adds a schedule that is no other yet.
  void add(const AuditRow& row, TaskSchedule other) {
    const std::string text = other.schedule.to_text();
    std::vector<TaskSchedule>& list = others_[task_of(row)];
    const auto same = [&](const TaskSchedule& s) { return s.schedule.to_text() == text; };
    if (same(running_[task_of(row)]) || std::any_of(list.begin(), list.end(), same)) return;
    list.push_back(std::move(other));
  }

  /// The knobs of a kernel of like shape, as far as they are legal here.
  void add_like(const AuditRow& row, const AuditRow& like) {
    const TuneTask& task = network_.tasks()[task_of(row)];
    const int branch = task.tmpl.find_branch(like.alternative);
    if (branch < 0) return;
    const Config own =
        records::nearest_config(task.tmpl.branch(branch), running_[task_of(like)].config);
    const Config config = task.tmpl.config_of_branch(branch, own);
    if (!task.tmpl.why_invalid(config).empty()) return;
    add(row, schedule_of_config(task, config, AuditBound::Like, "as " + like.name));
  }

  void add_tuned(const AuditRow& row) {
    if (options_.progress)
      options_.progress("tuning " + row.name + " for " + format_time(options_.tune_seconds));
    const TuneTask task = network_.tasks_to_tune()[task_of(row)];
    TuneOptions how;
    how.budget = std::chrono::duration<double>(options_.tune_seconds);
    how.measurer = options_.measurer;
    try {
      const TuneReport report = tune_tasks({task}, how);
      const TaskResult& best = report.tasks[0];
      if (!best.improved || !best.config) return;
      TaskSchedule tuned = schedule_of_config(task, *best.config, AuditBound::Tuned,
                                              std::to_string(best.trials) + " trials");
      tuned.schedule = best.schedule;
      add(row, std::move(tuned));
    } catch (const Error& e) {
      if (e.kind != ErrorKind::Runtime) throw;
      found_.problems.push_back(row.name + " was not tuned: " + e.message);
    }
  }

  void race(size_t worst) {
    const std::unique_ptr<JointRace> race = make_network_race(network_);
    HEDDLE_ICHECK(race, "a network of one size, for this machine");
    std::vector<std::vector<Schedule>> schedules;
    for (size_t t = 0; t < others_.size(); ++t) {
      schedules.push_back({running_[t].schedule});
      for (const TaskSchedule& other : others_[t]) schedules[t].push_back(other.schedule);
    }
    if (options_.progress) options_.progress("racing other schedules in calls of the network");
    JointRace::Verdict verdict;
    try {
      verdict = race->race(schedules, {}, priority(), options_.race_seconds, TuneClock());
    } catch (const Error& e) {
      if (e.kind != ErrorKind::Runtime) throw;
      found_.problems.push_back("other schedules did not race: " + e.message);
      return;
    }
    for (const std::string& problem : verdict.whole.problems) found_.problems.push_back(problem);
    for (size_t r = 0; r < worst; ++r)
      judge(found_.rows[r], verdict.results[task_of(found_.rows[r])]);
  }

  /// The tasks, those of the first rows first.
  std::vector<size_t> priority() const {
    std::vector<size_t> tasks;
    for (const AuditRow& row : found_.rows) tasks.push_back(task_of(row));
    for (size_t t = 0; t < others_.size(); ++t) {
      if (std::find(tasks.begin(), tasks.end(), t) == tasks.end()) tasks.push_back(t);
    }
    return tasks;
  }

  /// `results` are of what runs, then of the others.
  void judge(AuditRow& row, std::span<const MeasureResult> results) {
    const auto nodes = static_cast<double>(row.nodes.size());
    for (size_t i = 1; i < results.size(); ++i) {
      const TaskSchedule& other = others_[task_of(row)][i - 1];
      if (results[0].seconds.empty() || results[i].seconds.empty()) continue;
      const double before = median_of(results[0].seconds), after = median_of(results[i].seconds);
      if (after >= before) continue;
      const std::vector<MeasureResult> two = {results[0], results[i]};
      const Json& runs = running_[task_of(row)].config;
      row.changes.push_back({other.from, config_difference(runs, other.config),
                             knobs_that_differ(runs, other.config), other.source, nodes * before,
                             nodes * after, measuring::race_winner(two) == 1});
      add_bound(row, {other.from, row.seconds * after / before, other.source});
    }
  }

  const Network& network_;
  const std::span<const TaskSchedule> running_;
  const AuditOptions& options_;
  Audit& found_;
  std::vector<std::vector<TaskSchedule>> others_;  ///< by task
};

}  // namespace

void find_faster_schedules(const Network& network, std::span<const TaskSchedule> running,
                           const AuditOptions& options, Audit& found) {
  FasterSchedules(network, running, options, found).find();
}

}  // namespace heddle::network
