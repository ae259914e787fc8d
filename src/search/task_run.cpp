#include "search/task_run.h"

#include <algorithm>

#include "search/candidate_book.h"

namespace heddle::search {
namespace {

constexpr size_t kLeaders = 16;

}  // namespace

TaskRun::TaskRun(TuneTask t, std::optional<Schedule> stands)
    : task(std::move(t)),
      standing(std::move(stands)),
      shape_class(internal::shape_class_of(task.tmpl.dag())),
      static_key_(measuring::steps_hash(task.tmpl.static_schedule())) {
  progress.name = task.name;
  progress.weight = task.weight;
  progress.flops = task.flops();
  if (standing && measuring::steps_hash(*standing) == static_key_) standing.reset();
}

double TaskRun::adjusted(double seconds, double base) {
  if (base <= 0) return seconds;
  if (reference_ <= 0) reference_ = base;
  return seconds / base * reference_;
}

void TaskRun::add(const Config& config, uint64_t key, double seconds, MeasureError error) {
  if (!measured_.insert(key).second) return;
  add_time(config, key, seconds, error);
  nearness.add(progress.best_seconds);
}

void TaskRun::add_time(const Config& config, uint64_t key, double seconds, MeasureError error) {
  if (key == static_key_) static_error_ = error;
  if (error != MeasureError::None) {
    if (error != MeasureError::Rejected) add_failure(error);
    return;
  }
  const auto branch = static_cast<size_t>(task.tmpl.branch_of(config));
  if (branch >= branches_.size()) branches_.resize(branch + 1);
  Branch& own = branches_[branch];
  ++own.trials;
  if (!own.best || seconds < own.seconds) own.seconds = seconds, own.best = config;
  if (progress.best_seconds <= 0 || seconds < progress.best_seconds)
    progress.best_seconds = seconds;
  if (key == static_key_) {
    if (reference_ <= 0) reference_ = seconds;
    progress.static_seconds = seconds;
    return;
  }
  auto at = std::find_if(leaders_.begin(), leaders_.end(), [&](const Leader& l) {
    return seconds != l.seconds ? seconds < l.seconds : key < l.key;
  });
  leaders_.insert(at, {config, key, seconds});
  if (leaders_.size() > kLeaders) leaders_.pop_back();
}

void TaskRun::add_failure(MeasureError error) {
  ++progress.failures;
  auto at = std::find_if(failures_by_kind.begin(), failures_by_kind.end(),
                         [&](const auto& f) { return f.first == error; });
  if (at == failures_by_kind.end()) at = failures_by_kind.insert(at, {error, 0});
  ++at->second;
}

void TaskRun::reject(const std::string& why) {
  auto at = std::find_if(rejected_.begin(), rejected_.end(),
                         [&](const RejectionCount& r) { return r.reason == why; });
  if (at == rejected_.end()) at = rejected_.insert(at, {why, 0});
  ++at->count;
}

std::vector<RejectionCount> TaskRun::rejections() const {
  std::vector<RejectionCount> out = policy->rejections();
  out.insert(out.end(), rejected_.begin(), rejected_.end());
  return out;
}

void TaskRun::add_cost(const MeasureResult& r) {
  cost_ += r.compile_seconds + r.run_seconds + r.check_seconds;
  compile_ += r.compile_seconds;
  ++costs_;
}

void TaskRun::add_round(double wall_seconds, size_t trials) {
  round_seconds_ += wall_seconds;
  round_trials_ += trials;
}

double TaskRun::seconds_per_trial() const {
  if (round_trials_ > 0) return round_seconds_ / static_cast<double>(round_trials_);
  return costs_ > 0 ? cost_ / costs_ : 0;
}

}  // namespace heddle::search
