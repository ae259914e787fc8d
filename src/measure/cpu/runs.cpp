// The runs of a batch: compiled candidates are timed, in one lane or in several at once.
#include <algorithm>

#include "measure/cpu/batch.h"
#include "measure/process/answers.h"
#include "runtime/machine/cpu_topology.h"

namespace heddle::measuring {
namespace {

// A first call is stopped when it takes this many times longer than the cut-off plus the time of a
// cold start. The candidate has lost by then, and its exact time is of no use. Another runner costs
// some milliseconds.
constexpr double kHopeless = 2;
constexpr double kColdSeconds = 0.02;
// kWorthABase: the static choice is timed beside at least this number of candidates. kBases: the
// number of its last times that are kept. kBase: its number in messages.
constexpr size_t kWorthABase = 3;
constexpr size_t kBases = 5;
constexpr int64_t kBase = -1;

/// Adds the CPUs of a lane to a request for its runner. Adds none where the lane is not bound to
/// CPUs.
void name_cpus(const RunLanes& lanes, size_t place, Json& request) {
  const std::span<const int> cpus = lanes.cpus_of(place);
  if (!cpus.empty()) request["cpus"] = Json::array_of(std::vector<int>(cpus.begin(), cpus.end()));
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
Json WorkerMeasurer::base_request(int task) const {
  const TuneTask& of = tasks_[task].task;
  Json request =
      Json::object({{"do", "compile"}, {"task", task}, {"slot", kBase}, {"candidate", kBase}});
  request["steps"] = of.message ? of.message->at("default") : of.tmpl.static_schedule().to_json();
  if (const Json* code = given_code(kStaticChoice)) request["code"] = *code;
  return request;
}

/// Compiles the static choice where it is timed beside candidates, so that candidates are compared
/// with a time of the same moment. If a worker dies of it, the candidates that it had compiled are
/// compiled again. Returns false when the clock expired.
bool WorkerMeasurer::compile_bases(Batch& batch, std::vector<Lane>& lanes) {
  if (batch.base_fails) return true;
  size_t asked = 0;
  for (const Lane& lane : lanes) {
    if (lane.todo.size() < (always_base_ ? 1 : kWorthABase)) continue;
    workers_.ask(lane.worker, base_request(batch.task), options_.protocol.timeout_seconds);
    ++asked;
  }
  for (; asked > 0; --asked) {
    const std::optional<WorkerEvent> event = workers_.next_event(batch.clock);
    if (!event) return false;
    const auto lane = std::find_if(lanes.begin(), lanes.end(),
                                   [&](const Lane& l) { return l.worker == event->worker; });
    lane->has_base = event->answer && !event->answer->contains("error");
    if (lane->has_base) continue;
    batch.base_fails = true;
    if (event->answer) continue;
    workers_.forgive(event->death);
    batch.todo.insert(batch.todo.begin(), lane->todo.begin(), lane->todo.end());
    lanes.erase(lane);
  }
  return true;
}

void WorkerMeasurer::run_base(Batch& batch, Lane& lane) {
  lane.at_base = true;
  Json request = Json::object({{"do", "run"}, {"slot", kBase}, {"candidate", kBase}});
  name_cpus(lanes_.at(batch.task), lane.place, request);
  workers_.ask(lane.worker, request, run_allowance(0));
}

void WorkerMeasurer::hear_of_base(Batch& batch, Lane& lane, const WorkerEvent& event) {
  lane.at_base = false;
  if (!event.answer) workers_.forgive(event.death);
  const Json* samples = event.answer ? event.answer->find("samples") : nullptr;
  if (samples == nullptr) {
    batch.base_fails = true;  // the static choice is not timed again
    return;
  }
  MeasureResult base;
  for (const Json& s : samples->elements()) base.seconds.push_back(s.as_double());
  lane.base_alone = base.median();
  // A single time is noisy. The median of the last few times follows the speed of the machine.
  std::deque<double>& last = bases_[batch.task];
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

void WorkerMeasurer::run_next(Batch& batch, Lane& lane) {
  lane.candidate = lane.todo.front();
  lane.todo.pop_front();
  lane.timer = Timer();
  Json request = Json::object();
  request["do"] = Json("run");
  request["slot"] = Json(lane.candidate);
  request["candidate"] = Json(lane.candidate);
  name_cpus(lanes_.at(batch.task), lane.place, request);
  if (batch.best < std::numeric_limits<double>::infinity()) request["best"] = Json(batch.best);
  workers_.ask(lane.worker, request, run_allowance(batch.compile_seconds[lane.candidate]),
               first_call_allowance(batch.best));
}

/// Reports the candidate that ran.
void WorkerMeasurer::hear_of_run(Batch& batch, Lane& lane, const WorkerEvent& event) {
  const size_t candidate = lane.candidate;
  MeasureResult result;
  if (event.stopped_seconds > 0) {
    result.seconds = {event.stopped_seconds};
    result.cut_off = true;
    result.run_seconds = event.stopped_seconds;
  } else if (!event.answer) {
    result = failed(event.death.error, event.death.message);
  } else if (event.answer->contains("error")) {
    result = failed(*event.answer);
    // A kernel with wrong results may have written to other memory too, so its runner is ended.
    if (result.error == MeasureError::WrongAnswer) workers_.rest(lane.worker);
  } else {
    result = timed(*event.answer, batch.remark);
    spent_["prepare"] += event.answer->at("prepare").as_double();
    if (!result.cut_off) batch.best = std::min(batch.best, result.median());
  }
  result.compile_seconds = batch.compile_seconds[candidate];
  result.base_seconds = lane.base;
  // A failed candidate took time too, and the scheduler must know that.
  const double took = lane.timer.elapsed_s();
  if (!result.ok() && result.run_seconds == 0) result.run_seconds = took;
  spent_["run"] += result.run_seconds;
  spent_["check"] += result.check_seconds;
  mean_run_ = 0.9 * mean_run_ + 0.1 * took;
  // A death that no candidate caused for certain is forgiven once. If the runner dies with this
  // candidate again, the candidate is blamed.
  if (!event.answer && event.death.candidate != static_cast<int>(candidate) &&
      batch.forgiven[candidate]++ == 0) {
    workers_.forgive(event.death);
    batch.todo.push_front(candidate);
  } else {
    finish(batch, candidate, result);
  }
}

/// Handles the result of the lane's request and sends its next one. Returns false when the lane has
/// nothing left to run. If a worker dies, its compiled candidates go back to the front of the
/// queue. If only its runner dies, nothing else is lost.
bool WorkerMeasurer::advance(Batch& batch, Lane& lane, const WorkerEvent& event) {
  if (lane.at_base) {
    hear_of_base(batch, lane, event);
  } else {
    hear_of_run(batch, lane, event);
  }
  if (!event.worker_lives) {
    batch.todo.insert(batch.todo.begin(), lane.todo.begin(), lane.todo.end());
    lane.todo.clear();
  }
  if (lane.todo.empty()) return false;
  run_next(batch, lane);
  return true;
}

/// Runs the compiled candidates in all lanes of the task. The threads of each worker are put to
/// sleep once. Returns false when the clock expired.
bool WorkerMeasurer::run_group(Batch& batch) {
  std::vector<Lane> waiting;
  for (size_t w = 0; w < workers_.size(); ++w) {
    std::vector<size_t> list = std::move(batch.compiled[w]);
    batch.compiled[w].clear();
    std::sort(list.begin(), list.end());
    if (!list.empty()) waiting.push_back({.worker = w, .todo = {list.begin(), list.end()}});
  }
  if (!compile_bases(batch, waiting)) return false;
  RunLanes& lanes = lanes_.at(batch.task);
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
      running.back().has_base ? run_base(batch, running.back()) : run_next(batch, running.back());
    }
    const std::optional<WorkerEvent> event = workers_.next_event(batch.clock);
    if (!event) return false;
    const auto lane = std::find_if(running.begin(), running.end(),
                                   [&](const Lane& l) { return l.worker == event->worker; });
    const bool was_base = lane->at_base;
    const bool goes_on = advance(batch, *lane, *event);
    if (was_base && lane->base_alone > 0) bases.push_back(lane->base_alone);
    if (goes_on) continue;
    workers_.forget(lane->worker);
    places.push_back(lane->place);
    running.erase(lane);
  }
  if (lanes.learn(bases)) bases_[batch.task].clear();
  return true;
}

}  // namespace heddle::measuring
