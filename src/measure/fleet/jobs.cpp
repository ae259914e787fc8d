// The tasks that nodes know, and the compilation of candidates to machine code.
#include "heddle/support/error.h"
#include "measure/fleet/measurer.h"
#include "measure/process/task.h"
#include "measure/task/measured_task.h"

namespace heddle::measuring {
namespace {

// A job that was lost more often is dropped. Its candidate is then compiled where it is measured.
constexpr int kMostLost = 2;
// Nodes compile in the order that they are asked in, two candidates ahead for each core. One is
// late when so many for each core were overtaken by it, or when nothing is heard of any for so
// long.
constexpr int kOvertaken = 6;
constexpr double kStraggles = 3, kStraggleSeconds = 5;

}  // namespace

int FleetMeasurer::task_number(const TuneTask& task) {
  const uint64_t key = measured_task_key(task);
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_[i].key == key) return static_cast<int>(i);
  }
  if (!(task.tmpl.target() == apply_options(options_.target, task.tmpl.options()))) {
    throw_user_error("the fleet measures for '" + to_string(options_.target) + "', and task '" +
                     task.name + "' is for '" + to_string(task.tmpl.target()) + "'");
  }
  const auto number = static_cast<int>(tasks_.size());
  tasks_.push_back({.key = key, .message = task_message_for_elsewhere(number, task)});
  bridge_.send(tasks_.back().message);
  return number;
}

void FleetMeasurer::ask_for_code(int64_t id) {
  const Job& job = jobs_.at(id);
  bridge_.send(CompileJob{.job = id,
                          .task = job.task,
                          .steps = job.steps,
                          .no_spills = job.no_spills,
                          .urgent = job.urgent || job.again});
}

/// The node that has it may be slow, or out of reach. Another one compiles it too, and whoever
/// answers first is heard.
void FleetMeasurer::ask_again_for_late_code() {
  const double long_ago = kStraggles * mean_compile_ + kStraggleSeconds;
  const bool silence = since_code_.elapsed_s() > long_ago;
  for (auto& [id, job] : jobs_) {
    if (job.state != Job::State::Asked || job.again) continue;
    const bool overtaken = job.later_done > kOvertaken * compilers_;
    if (!overtaken && !(silence && job.since.elapsed_s() > long_ago)) continue;
    job.again = true;
    ask_for_code(id);
  }
}

int64_t FleetMeasurer::job_of(int task, const Json& steps, uint64_t key, bool no_spills,
                              bool urgent) {
  const auto [at, is_new] = job_ids_.try_emplace(key, next_job_);
  if (is_new) {
    jobs_[next_job_] = {
        .task = task, .key = key, .steps = steps, .no_spills = no_spills, .urgent = urgent};
    ask_for_code(next_job_++);
  }
  return at->second;
}

int64_t FleetMeasurer::base_job(int task) {
  Known& known = tasks_[static_cast<size_t>(task)];
  if (!compiles_apart()) return 0;
  if (known.base_job == 0) {
    // The job is not found by its steps, so that it is not dropped together with a candidate that
    // has the same steps.
    known.base_job = next_job_++;
    jobs_[known.base_job] = {.task = task, .steps = known.message.static_choice, .urgent = true};
    ask_for_code(known.base_job);
  }
  return known.base_job;
}

bool FleetMeasurer::ready(int64_t job) const {
  const auto at = jobs_.find(job);
  return at == jobs_.end() || at->second.state != Job::State::Asked || !compiles_apart();
}

void FleetMeasurer::drop_jobs(const std::vector<int64_t>& jobs) {
  Drop dropped;
  for (const int64_t id : jobs) {
    const auto at = jobs_.find(id);
    if (at == jobs_.end()) continue;
    job_ids_.erase(at->second.key);
    jobs_.erase(at);
    dropped.jobs.push_back(id);
  }
  if (!dropped.jobs.empty()) bridge_.send(dropped);
}

void FleetMeasurer::hear(const JobReport& report) {
  const auto at = jobs_.find(report.job);
  if (at == jobs_.end()) return;  // the job was dropped meanwhile
  Job& job = at->second;
  if (report.lost) {
    job.state = Job::State::Asked;
    job.since = Timer();
    if (++job.lost <= kMostLost) return ask_for_code(at->first);
    // The steps of the candidate are sent to a device without code.
    job_ids_.erase(job.key);
    jobs_.erase(at);
    return;
  }
  since_code_ = Timer();
  for (auto before = jobs_.begin(); before != at; ++before)
    before->second.later_done += before->second.state == Job::State::Asked;
  job.seconds = report.seconds;
  if (job.seconds > 0) mean_compile_ = 0.8 * mean_compile_ + 0.2 * job.seconds;
  spent_["compile (all nodes)"] += job.seconds;
  job.state = Job::State::Compiled;
  if (report.error == MeasureError::None) return;
  job.state = Job::State::Failed;
  job.failure = failed(report.error, report.message);
}

}  // namespace heddle::measuring
