#include "runtime/program/step_trials.h"

#include "heddle/runtime/cuda.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "runtime/cuda/callers_capture.h"
#include "runtime/cuda/capture.h"
#include "runtime/kernel/kernel_impl.h"
#include "runtime/program/program.h"
#include "runtime/race/race.h"

namespace heddle {

StepTrials::StepTrials(std::vector<ProgramStep>& steps, const std::vector<size_t>& open,
                       TrialOptions options)
    : steps_(steps), options_(std::move(options)), seconds_(steps.size()), open_(!open.empty()) {
  for (const size_t step : open) seconds_[step].resize(2);
}

double StepTrials::timed(size_t step, size_t variant, Device where, FunctionRef<void()> run) const {
  if (options_.time) return options_.time(step, variant, run);
  if (!where.is_cuda()) {
    const Timer timer;
    run();
    return timer.elapsed_s();
  }
  const cuda::Event begin(where.index), end(where.index);
  begin.record();
  run();
  end.record();
  end.synchronize();
  return end.seconds_since(begin);
}

bool StepTrials::run(Device where, FunctionRef<void(size_t step, size_t variant)> run_step) {
  if (!open()) return false;
  if (where.is_cuda() &&
      (cuda::capture_of(where.index) != nullptr || cuda::caller_captures(where.index)))
    return false;
  const std::unique_lock turn(mutex_, std::try_to_lock);
  if (!turn || !open()) return false;
  // Pairs of calls begin with each variant in turn: 0 1, 1 0, 0 1, ...
  const auto variant = static_cast<size_t>((calls_ + calls_ / 2) % 2);
  for (size_t s = 0; s < steps_.size(); ++s) {
    if (seconds_[s].empty() || steps_[s].selector.forced() >= 0) {
      run_step(s, steps_[s].selector.at({}));
      continue;
    }
    const double seconds = timed(s, variant, where, [&] { run_step(s, variant); });
    if (calls_ >= 2 * kWarm) seconds_[s][variant].push_back(seconds);
  }
  if (++calls_ == 2 * (kWarm + kRounds)) decide();
  return true;
}

void StepTrials::decide() {
  for (size_t s = 0; s < steps_.size(); ++s) {
    if (seconds_[s].empty()) continue;
    const auto winner = static_cast<size_t>(std::max(0, racing::winner_of(seconds_[s])));
    ProgramStep& step = steps_[s];
    step.selector.pick({}, static_cast<int>(winner));
    // What the other one prepared is not needed any more, unless both share it.
    const Kernel& other = step.variants[1 - winner].kernel;
    if (runtime_of(other).prepared != runtime_of(step.variants[winner].kernel).prepared)
      other.refresh();
    if (options_.settled) options_.settled(s, winner, seconds_[s]);
  }
  open_ = false;
}

void Program::force(int variant) {
  for (size_t s = 0; s < parts_.steps.size(); ++s)
    force(s, variant < std::ssize(parts_.steps[s].variants) ? variant : -1);
}

void Program::force(size_t step, int variant) {
  parts_.steps[step].selector.force(variant);
  if (on_gpu_) calls_->forget();  // graphs of other variants
}

void Program::pick(size_t step, size_t variant) {
  parts_.steps[step].selector.pick({}, static_cast<int>(variant));
  if (on_gpu_) calls_->forget();
}

void Program::settle(const std::vector<size_t>& steps, TrialOptions options) {
  HEDDLE_ICHECK(parts_.sizes.empty() && !parts_.direct, "steps settle at constant extents");
  trials_ = std::make_unique<StepTrials>(parts_.steps, steps, std::move(options));
  if (on_gpu_) calls_->forget();
}

}  // namespace heddle
