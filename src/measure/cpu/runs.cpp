// The runs of a batch: compiled candidates are timed, in one lane or in several at once.
#include <algorithm>

#include "measure/cpu/batch.h"
#include "runtime/machine/cpu_topology.h"

namespace heddle::measuring {
namespace {

// A first call is stopped when it takes this many times longer than the cut-off plus the time of a
// cold start. The candidate has lost by then, and its exact time is of no use. Another runner costs
// some milliseconds.
constexpr double kHopeless = 2;
constexpr double kColdSeconds = 0.02;
// kWorthABase: the static choice is timed beside at least this number of candidates. kBases: the
// number of its last times that are kept.
constexpr size_t kWorthABase = 3;
constexpr size_t kBases = 5;

/// The CPUs of a lane; none where it is not bound to CPUs.
std::vector<int> cpus_of(const RunLanes& lanes, size_t place) {
  const std::span<const int> cpus = lanes.cpus_of(place);
  return {cpus.begin(), cpus.end()};
}

}  // namespace

/// Opens lanes for a task that has none yet.
void WorkerMeasurer::open_lanes(int task) {
  if (lanes_.contains(task)) return;
  const TuneTask& of = tasks_[task].task;
  // Calls with cold caches need the whole memory bandwidth, so they run in one lane.
  const bool cold = options_.protocol.cold.value_or(false) || of.network_bytes > 0;
  const internal::CpuTopology& machine = internal::cpu_topology();
  std::vector<int> cpus(machine.cpus().begin(), machine.cpus().end());
  cpus.resize(std::min(cpus.size(), static_cast<size_t>(machine.cores)));
  lanes_.emplace(task,
                 cold ? RunLanes() : RunLanes(cpus, of.tmpl.target().cores, options_.runs_at_once));
}

/// A request to compile the static choice beside candidates.
Compile WorkerMeasurer::base_request(int task) const {
  Compile request{
      .task = task, .candidate = kBaseCandidate, .steps = tasks_[task].default_schedule};
  if (const Json* code = given_code(kStaticChoice)) request.code = *code;
  return request;
}

/// Compiles the static choice where it is timed beside candidates, so that candidates are compared
/// with a time of the same moment. If a worker dies of it, the candidates that it had compiled are
/// compiled again. Returns false when the clock expired.
bool WorkerMeasurer::compile_bases(Groups& groups, std::vector<Lane>& lanes) {
  if (groups.base_fails) return true;
  size_t asked = 0;
  for (const Lane& lane : lanes) {
    if (lane.todo.size() < (always_base_ ? 1 : kWorthABase)) continue;
    workers_.ask(lane.worker, base_request(groups.batch.task), options_.protocol.timeout_seconds);
    ++asked;
  }
  for (; asked > 0; --asked) {
    const std::optional<WorkerEvent> event = workers_.next_event(groups.batch.clock);
    if (!event) return false;
    const auto lane = std::find_if(lanes.begin(), lanes.end(),
                                   [&](const Lane& l) { return l.worker == event->worker; });
    lane->has_base = !event->failure();
    if (lane->has_base) continue;
    groups.base_fails = true;
    if (event->answer) continue;
    workers_.forgive(event->death);
    groups.todo.insert(groups.todo.begin(), lane->todo.begin(), lane->todo.end());
    lanes.erase(lane);
  }
  return true;
}

void WorkerMeasurer::run_base(Groups& groups, Lane& lane) {
  lane.at_base = true;
  workers_.ask(lane.worker,
               Run{.task = groups.batch.task,
                   .candidate = kBaseCandidate,
                   .cpus = cpus_of(lanes_.at(groups.batch.task), lane.place)},
               run_allowance(0));
}

void WorkerMeasurer::hear_of_base(Groups& groups, Lane& lane, const WorkerEvent& event) {
  lane.at_base = false;
  if (!event.answer) workers_.forgive(event.death);
  groups.base_fails = event.failure().has_value();  // and is not timed again
  if (groups.base_fails) return;
  lane.base_alone = timed(event.answer->as<Timed>(), "").median();
  // A single time is noisy. The median of the last few times follows the speed of the machine.
  std::deque<double>& last = bases_[groups.batch.task];
  last.push_back(lane.base_alone);
  if (last.size() > kBases) last.pop_front();
  std::vector<double> sorted(last.begin(), last.end());
  std::sort(sorted.begin(), sorted.end());
  lane.base = sorted[sorted.size() / 2];
}

double WorkerMeasurer::run_allowance(double compile_seconds) const {
  return std::max(0.1 * options_.protocol.timeout_seconds,
                  options_.protocol.timeout_seconds - compile_seconds);
}

double WorkerMeasurer::first_call_allowance(double best_seconds) const {
  if (options_.protocol.cutoff <= 0) return std::numeric_limits<double>::infinity();
  return kHopeless * options_.protocol.cutoff * best_seconds + kColdSeconds;
}

void WorkerMeasurer::run_next(Groups& groups, Lane& lane) {
  lane.candidate = lane.todo.front();
  lane.todo.pop_front();
  lane.timer = Timer();
  Run request{.task = groups.batch.task,
              .candidate = static_cast<int>(lane.candidate),
              .best = groups.batch.known_best(),
              .cpus = cpus_of(lanes_.at(groups.batch.task), lane.place)};
  workers_.ask(lane.worker, request, run_allowance(groups.compile_seconds[lane.candidate]),
               first_call_allowance(groups.batch.best));
}

/// Reports the candidate that ran.
void WorkerMeasurer::hear_of_run(Groups& groups, Lane& lane, const WorkerEvent& event) {
  const double took = lane.timer.elapsed_s();
  mean_run_ = 0.9 * mean_run_ + 0.1 * took;
  std::optional<MeasureResult> result = result_of(groups.batch, lane.candidate, event, took);
  if (!result) return groups.todo.push_front(lane.candidate);
  result->compile_seconds = groups.compile_seconds[lane.candidate];
  result->base_seconds = lane.base;
  finish(groups.batch, lane.candidate, *result);
}

/// Handles the result of the lane's request and sends its next one. Returns false when the lane has
/// nothing left to run. If a worker dies, its compiled candidates go back to the front of the
/// queue. If only its runner dies, nothing else is lost.
bool WorkerMeasurer::advance(Groups& groups, Lane& lane, const WorkerEvent& event) {
  if (lane.at_base) {
    hear_of_base(groups, lane, event);
  } else {
    hear_of_run(groups, lane, event);
  }
  if (!event.worker_lives) {
    groups.todo.insert(groups.todo.begin(), lane.todo.begin(), lane.todo.end());
    lane.todo.clear();
  }
  if (lane.todo.empty()) return false;
  run_next(groups, lane);
  return true;
}

/// Runs the compiled candidates in all lanes of the task. The threads of each worker are put to
/// sleep once. Returns false when the clock expired.
bool WorkerMeasurer::run_group(Groups& groups) {
  std::vector<Lane> waiting;
  for (size_t w = 0; w < workers_.size(); ++w) {
    std::vector<size_t> list = std::move(groups.compiled[w]);
    groups.compiled[w].clear();
    std::sort(list.begin(), list.end());
    if (!list.empty()) waiting.push_back({.worker = w, .todo = {list.begin(), list.end()}});
  }
  if (!compile_bases(groups, waiting)) return false;
  RunLanes& lanes = lanes_.at(groups.batch.task);
  std::vector<size_t> places(lanes.count());
  for (size_t i = 0; i < places.size(); ++i) places[i] = places.size() - 1 - i;
  std::vector<Lane> running;
  std::vector<double> bases;  // times of the static choice in lanes that began together
  size_t next = 0;
  while (next < waiting.size() || !running.empty()) {
    while (next < waiting.size() && !places.empty()) {
      running.push_back(std::move(waiting[next++]));
      running.back().place = places.back();
      places.pop_back();
      running.back().has_base ? run_base(groups, running.back()) : run_next(groups, running.back());
    }
    const std::optional<WorkerEvent> event = workers_.next_event(groups.batch.clock);
    if (!event) return false;
    const auto lane = std::find_if(running.begin(), running.end(),
                                   [&](const Lane& l) { return l.worker == event->worker; });
    const bool was_base = lane->at_base;
    const bool goes_on = advance(groups, *lane, *event);
    if (was_base && lane->base_alone > 0) bases.push_back(lane->base_alone);
    if (goes_on) continue;
    workers_.forget(lane->worker);
    places.push_back(lane->place);
    running.erase(lane);
  }
  if (lanes.learn(bases)) bases_[groups.batch.task].clear();
  return true;
}

}  // namespace heddle::measuring
