#include <algorithm>
#include <cmath>
#include <numeric>

#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "search/tuner.h"

namespace heddle::search {
namespace {

constexpr int kVariants = 4;  // entrants of a task, its static choice included
// The rounds that prove gains of a few per cent: blocks of calls, in which each variant has a turn,
// and rounds of the whole network.
constexpr int kBlocks = 24, kWholeRounds = 24;
// On a GPU the tasks race one after the other. Seconds of a timed call, and calls of a task for
// each of its entrants.
constexpr double kGraphSeconds = 3e-3;
constexpr int kGraphCalls = 15;
// The time of a joint race, as a multiple of the share for the races of single tasks.
constexpr double kShareFactor = 2;
constexpr double kLeastShare = 0.05;

}  // namespace

// A joint race calls the whole network, so the static choice of each task must run.
bool Tuner::races_jointly() const {
  return options_.joint_race && std::all_of(runs_.begin(), runs_.end(), [](const TaskRun& run) {
           return run.static_error() == MeasureError::None && run.progress.static_seconds > 0;
         });
}

// The seconds for compiling in this process, on as many threads as the kernels have, and for the
// calls.
double Tuner::joint_need() const {
  double call = 0, compile = 0;
  size_t entrants = 0;
  for (const TaskRun& run : runs_) {
    call += run.task.weight * run.progress.static_seconds;
    const size_t leaders = entrants_of(run, kVariants).size() - 1;
    compile += static_cast<double>(1 + leaders) * run.compile_seconds();
    if (leaders > 0) entrants += 1 + leaders;
  }
  if (entrants == 0) return 0;
  const Target& target = runs_[0].task.tmpl.target();
  compile /= target.is_cuda() ? default_num_threads() : std::max(1, target.cores);
  // Each call is made twice, because a short call is timed only the second time.
  double calls = 2 * (kVariants * kBlocks + 2 * kWholeRounds);
  if (target.is_cuda()) {
    call = std::max(2 * call, kGraphSeconds);
    calls = static_cast<double>(entrants) * kGraphCalls + 2 * kWholeRounds;
  }
  const double share = std::min(0.5, kShareFactor * options_.final_race_share);
  const double most = std::isfinite(total_) ? share * total_ : total_;
  // A fast network gets more rounds, because they take little time.
  const double least = std::isfinite(total_) ? kLeastShare * total_ : 0;
  return std::min(most, 1.5 * compile + std::max(calls * call, least));
}

// The order of the tasks: largest gains first, as screening measured them.
std::vector<size_t> Tuner::joint_priority() const {
  std::vector<size_t> order(runs_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto gain = [&](size_t i) {
    const TaskProgress& p = runs_[i].progress;
    return p.weight * (p.static_seconds - p.best_seconds);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return gain(a) > gain(b); });
  return order;
}

std::vector<TaskResult> Tuner::finish_jointly() {
  std::vector<std::vector<Entrant>> entrants;
  std::vector<std::vector<Schedule>> schedules;
  std::vector<int> statics;
  for (const TaskRun& run : runs_) {
    statics.push_back(static_cast<int>(static_entrant(run)));
    entrants.push_back(entrants_of(run, run.in_doubt() ? 1 : kVariants));
    schedules.emplace_back();
    for (const Entrant& e : entrants.back()) schedules.back().push_back(e.schedule);
  }
  JointRace::Verdict verdict;
  bool raced = false;
  const bool any = std::any_of(schedules.begin(), schedules.end(),
                               [](const std::vector<Schedule>& list) { return list.size() > 1; });
  if (any && !clock_.expired()) {
    show("race");
    try {
      Timed timed(*this, "race");
      // A search that ended early leaves more time than a race needs.
      const double seconds = std::min(clock_.left_s(), 2 * joint_need());
      verdict = options_.joint_race->race(schedules, statics, joint_priority(), seconds, clock_);
      HEDDLE_ICHECK(
          verdict.results.size() == runs_.size() && verdict.winners.size() == runs_.size(),
          "a race of the network gave results for other tasks");
      raced = true;
    } catch (const Error& e) {
      failed("the final race of the network failed: " + e.message);
    }
  }
  network_ = verdict.whole;
  if (!any) network_->verdict = RaceResult::NothingToRace;
  problems_.insert(problems_.end(), network_->problems.begin(), network_->problems.end());
  std::vector<TaskResult> out;
  for (size_t i = 0; i < runs_.size(); ++i) {
    TaskRun& run = runs_[i];
    out.push_back(raced ? joint_result(run, entrants[i], verdict.results[i], verdict.winners[i],
                                       verdict.whole.verdict == RaceResult::Faster)
                        : without_race(run));
    settle(run, out.back());
  }
  return out;
}

TaskResult Tuner::joint_result(TaskRun& run, const std::vector<Entrant>& entrants,
                               const std::vector<MeasureResult>& results, int winner, bool proven) {
  HEDDLE_ICHECK(results.size() == entrants.size(), "a result for each entrant");
  const MeasureResult& of_static = results[static_entrant(run)];
  const auto won = static_cast<size_t>(proven ? winner : 0);
  for (size_t e = 0; e < entrants.size(); ++e) {
    if (!results[e].ok()) continue;
    MeasureResult result = results[e];
    if (of_static.ok()) result.base_seconds = of_static.median();
    record(run, entrants[e].config ? &*entrants[e].config : nullptr, entrants[e].schedule, result,
           e == won ? Verdict::Won : Verdict::Raced, "network");
  }
  if (!results[0].ok()) return without_race(run);  // there was nothing to race against
  return raced_result(run, entrants, results, won);
}

}  // namespace heddle::search
