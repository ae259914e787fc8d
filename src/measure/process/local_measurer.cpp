#include "measure/process/local_measurer.h"

#include <utility>

#include "measure/process/program.h"
#include "support/log.h"

namespace heddle::measuring {

LocalMeasurer::LocalMeasurer(const WorkerOptions& options, const Hello& hello, int workers,
                             Runs where)
    : options_(options),
      workers_(workers,
               {.command = worker_command(options.command),
                .shared_fd = tasks_.memory().fd(),
                .hello = encode(hello)},
               [this](size_t task) { return tasks_.message(task, workers_.size()); }),
      compiling_(workers_, where == Runs::InItsWorker, options.protocol.timeout_seconds),
      where_(where) {}

int LocalMeasurer::register_task(const TuneTask& task) {
  if (const std::optional<int> known = tasks_.find(task)) return *known;
  const Lap lap(spent_, "inputs");
  return tasks_.add(task);
}

void LocalMeasurer::settle() {
  compiling_.stop();
  compiling_.clear();
  workers_.settle();
}

uint64_t LocalMeasurer::add_job(int task, size_t index, const Schedule& schedule, bool no_spills) {
  const uint64_t key = job_key(task, index, schedule);
  Compile request{.task = task,
                  .candidate = static_cast<int>(index),
                  .steps = schedule.to_json(),
                  .no_spills = no_spills};
  const Json* code = given_code(index);
  if (code && where_ == Runs::InItsWorker) request.code = *code;
  CompileQueue::Job& job = compiling_.add(key, std::move(request));
  if (code && where_ == Runs::InTheRunner) job.answer = Compiled{.code = *code};
  return key;
}

/// Makes the reference if it does not exist yet. Returns false when the clock expired. A task
/// without a reference is measured unchecked, and its results say so.
bool LocalMeasurer::make_reference(int task, const TuneClock& clock) {
  MeasuredTask& of = tasks_[task];
  if (!options_.protocol.check_output || of.reference->ready() || of.no_reference) return true;
  const Lap lap(spent_, "reference");
  if (!compute_reference(task, clock)) return false;
  of.no_reference =
      !of.reference->ready();  // not tried again, because it would fail in every round
  return true;
}

bool LocalMeasurer::hear_of_reference(int task, const WorkerEvent& event) {
  if (const std::optional<Failed> why = event.failure()) {
    HEDDLE_LOG_AT("search", 1,
                  "no reference for '" + tasks_[task].task.name + "': " + why->message);
    return false;
  }
  const auto* done = std::get_if<measuring::Done>(&event.answer->says);
  if (done && done->problem) problems_.push_back(*done->problem);
  return true;
}

void LocalMeasurer::finish(Batch& batch, size_t candidate, const MeasureResult& result) {
  batch.finished[candidate] = true;
  batch.done(candidate, result);
}

bool LocalMeasurer::forgives(Batch& batch, size_t candidate, const WorkerEvent& event) {
  if (event.answer || event.death.candidate == static_cast<int>(candidate) ||
      batch.forgiven[candidate]++ > 0)
    return false;
  workers_.forgive(event.death);
  return true;
}

/// Ends a runner that cannot go on: its device is lost, or wrong results mean that the kernel may
/// have written to other memory, too, and another runner costs little. Returns whether it has ended.
bool LocalMeasurer::ends_runner(const WorkerEvent& event) {
  if (!event.answer) return true;
  if (event.answer->envelope.device_lost) {
    workers_.kill(event.worker);
    return true;
  }
  const Failed* why = event.answer->failed();
  if (!why || why->error != MeasureError::WrongAnswer || where_ != Runs::InItsWorker) return false;
  workers_.rest(event.worker);
  return true;
}

std::optional<MeasureResult> LocalMeasurer::result_of(Batch& batch, size_t candidate,
                                                      const WorkerEvent& event, double seconds) {
  ends_runner(event);
  if (forgives(batch, candidate, event)) return std::nullopt;
  MeasureResult result;
  if (event.stopped_seconds > 0) {
    result.seconds = {event.stopped_seconds};
    result.cut_off = true;
    result.run_seconds = event.stopped_seconds;
  } else if (const std::optional<Failed> why = event.failure()) {
    result = failed(*why);
    result.run_seconds = seconds;  // it took time too, and the scheduler must know that
  } else {
    const Timed& answer = event.answer->as<Timed>();
    result = timed(answer, batch.remark);
    if (answer.prepare > 0) spent_["prepare"] += answer.prepare;
    if (!result.cut_off) batch.best = std::min(batch.best, result.median());
  }
  spent_["run"] += result.run_seconds;
  spent_["check"] += result.check_seconds;
  return result;
}

void LocalMeasurer::measure(const TuneTask& task, std::span<const Schedule> schedules,
                            double best_seconds, const TuneClock& clock, const Done& done) {
  struct Settle {
    LocalMeasurer& of;
    bool needed = true;
    ~Settle() {
      if (needed) of.settle();
    }
  } at_end{*this};
  Batch batch{.schedules = schedules,
              .clock = clock,
              .done = done,
              .best = best_seconds > 0 ? best_seconds : std::numeric_limits<double>::infinity()};
  if (!clock.expired() && !schedules.empty()) {
    batch.task = register_task(task);
    const bool in_time = make_reference(batch.task, clock);
    if (options_.protocol.check_output && !tasks_[batch.task].reference->ready())
      batch.remark = kNotChecked;
    if (in_time) run(batch);
  }
  // What is announced for the next batch goes on, if this one is over.
  at_end.needed = !batch.over();
  for (size_t i = 0; i < schedules.size(); ++i) {
    if (!batch.finished[i]) finish(batch, i, out_of_time());
  }
}

}  // namespace heddle::measuring
