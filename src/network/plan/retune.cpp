// A race of the schedules of a plan on this machine.
#include <algorithm>
#include <numeric>
#include <set>

#include "family/blocks.h"
#include "heddle/network/tune.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "network/cut/kernel_records.h"
#include "network/plan/planned_schedules.h"

namespace heddle {
namespace {

void check(const Network& planned) {
  if (!planned.plan_use())
    throw_user_error("the network has no plan whose schedules could race", {},
                     "give it one: Network::planned");
  const Target& target = planned.tasks().at(0).tmpl.target();
  if (!target.runs_here())
    throw_user_error("kernels for " + to_string(target) + " do not race on this machine", {},
                     "retune the plan on such a machine, or name the target of this one");
}

/// The rule's choice of each task, and after it those of the plan that are others.
std::vector<std::vector<Schedule>> entrants_of(const Network& planned) {
  std::vector<std::vector<Schedule>> entrants;
  const std::vector<std::optional<Schedule>> chosen = network::planned_schedules(planned);
  for (size_t t = 0; t < planned.tasks().size(); ++t) {
    const Schedule rule = planned.tasks()[t].tmpl.static_schedule();
    entrants.push_back({rule});
    const PlannedNode* node = planned.plan()->find(network::declaration_hash(planned, t));
    if (!node || !chosen[t]) continue;
    std::vector<Schedule> others =
        network::runners_up_of(*planned.plan(), *node, planned.tasks()[t].tmpl);
    others.insert(others.begin(), *chosen[t]);
    std::set<std::string> known = {family::identity(rule)};
    for (const Schedule& other : others) {
      if (known.insert(family::identity(other)).second) entrants.back().push_back(other);
    }
  }
  return entrants;
}

/// The kernels of a network over ranges of sizes, raced at several of them.
TunedNetwork retuned_kernels(const Network& planned, double seconds, const std::vector<Dim>& dims) {
  TunedNetwork tuned{.network = planned, .choices = {planned.pass_options(), {}}};
  std::vector<Schedule> schedules = planned.static_schedules();
  const std::vector<std::optional<Schedule>> chosen = network::planned_schedules(planned);
  for (size_t t = 0; t < schedules.size(); ++t) {
    TaskResult result{.name = planned.tasks()[t].name, .config = {}, .schedule = schedules[t]};
    if (chosen[t]) {
      schedules[t] = *chosen[t];
      result.improved = family::identity(schedules[t]) != family::identity(result.schedule);
      result.schedule = schedules[t];
    }
    tuned.report.tasks.push_back(std::move(result));
  }
  tuned.kernels = choose_kernels(planned, dims, {.race_seconds = seconds}, schedules);
  return tuned;
}

/// The results of a race of `entrants`.
TuneReport report_of(const Network& planned, const std::vector<std::vector<Schedule>>& entrants,
                     const JointRace::Verdict& verdict) {
  TuneReport report;
  const bool proven = verdict.whole.verdict == RaceResult::Faster;
  for (size_t t = 0; t < entrants.size(); ++t) {
    const auto won = static_cast<size_t>(proven ? verdict.winners[t] : 0);
    TaskResult result{.name = planned.tasks()[t].name, .config = {}, .schedule = entrants[t][won]};
    const std::vector<MeasureResult>& times = verdict.results[t];
    if (times[0].ok()) {
      result.static_seconds = times[0].median();
      result.rounds = static_cast<int>(times[0].seconds.size());
    }
    if (times[won].ok()) result.best_seconds = times[won].median();
    result.improved = won > 0;
    report.tasks.push_back(std::move(result));
  }
  report.network = verdict.whole;
  report.problems = verdict.whole.problems;
  return report;
}

/// The tasks, those with the most work first.
std::vector<size_t> by_work(const Network& planned) {
  std::vector<size_t> order(planned.tasks().size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto work = [&](size_t t) {
    return planned.tasks()[t].weight * planned.tasks()[t].tmpl.dag().total_flops();
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return work(a) > work(b); });
  return order;
}

}  // namespace

TunedNetwork retune(const Network& planned, double seconds, const TuneClock& clock,
                    const std::vector<Dim>& dims) {
  check(planned);
  const Timer timer;
  TunedNetwork tuned{.network = planned, .choices = {planned.pass_options(), {}}};
  if (planned.sizes().empty()) {
    const std::vector<std::vector<Schedule>> entrants = entrants_of(planned);
    tuned.report =
        report_of(planned, entrants,
                  make_network_race(planned)->race(entrants, {}, by_work(planned), seconds, clock));
  } else {
    tuned = retuned_kernels(planned, seconds, dims);
  }
  tuned.report.cancelled = clock.cancelled();
  tuned.report.elapsed_seconds = timer.elapsed_s();
  return tuned;
}

}  // namespace heddle
