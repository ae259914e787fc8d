// How trials are assigned to devices: in rounds, which are trials that a device gets together, and
// when a round is given to a second device. The rounds of a race are others: a race is sent to one
// device as a whole, and its node runs it as a race on one machine (process/race.cpp).
#include <algorithm>
#include <cmath>

#include "measure/fleet/measurer.h"

namespace heddle::measuring {
namespace {

constexpr size_t kLargestRound = 64;
// A device has one round that runs and one that waits.
constexpr size_t kRoundsEach = 2;
// The first round of a task computes its reference.
constexpr double kReferenceSeconds = 60;
// Seconds for a message. A device whose answer takes longer is taken to be lost.
constexpr double kGraceSeconds = 15;
// A round that takes this many times longer than expected is also given to an idle device.
constexpr double kStraggles = 3, kStraggleSeconds = 1;

}  // namespace

/// `left` is the number of trials that are still to be assigned.
size_t FleetMeasurer::round_size(const Batch& batch, size_t left) const {
  const auto devices = static_cast<double>(width());
  double count = std::min(kRoundSeconds, 0.5 * batch.clock.left_s()) / mean_trial_;
  count = std::min(count, std::ceil(static_cast<double>(left) / devices / kRoundsEach));
  return static_cast<size_t>(std::clamp(count, 1.0, static_cast<double>(kLargestRound)));
}

void FleetMeasurer::send_round(const Batch& batch, int task, FleetDevice& device,
                               const std::vector<int64_t>& trials) {
  const Known& known = tasks_[static_cast<size_t>(task)];
  const int64_t id = next_round_++;
  MeasureTrials request{.task = task, .round = id, .device = device.use.name};
  for (const int64_t number : trials) {
    Trial& trial = trials_.at(number);
    ++trial.out;
    request.trials.push_back({.trial = number, .steps = trial.steps});
    if (jobs_.contains(trial.job) && compiles_apart()) request.trials.back().job = trial.job;
  }
  const double timeout = options_.protocol.timeout_seconds;
  const auto bases = device.bases.find(task);
  const double base = bases == device.bases.end() ? 0 : bases->second.back();
  // Any of the candidates may hang, but few will.
  const double most = std::min(batch.clock.left_s(),
                               3 * timeout + 10 * mean_trial_ * static_cast<double>(trials.size()) +
                                   (base == 0 ? kReferenceSeconds : 0));
  request.seconds = most;
  if (task == batch.task && std::isfinite(batch.best)) {
    // The best time is scaled by the speed of this device.
    const bool scaled = base > 0 && known.first_base > 0;
    request.best = scaled ? batch.best * base / known.first_base : batch.best;
  }
  const auto base_code = jobs_.find(base_job(task));
  if (base_code != jobs_.end() && base_code->second.state == Job::State::Compiled)
    request.base_job = base_code->first;
  Round round{.device = device.use.name, .task = task, .trials = trials};
  // The rounds that the device received before come first.
  round.allowed = most + kGraceSeconds;
  for (const int64_t before : device.rounds) {
    const auto at = rounds_.find(before);
    if (at != rounds_.end()) round.allowed += at->second.allowed;
  }
  rounds_[id] = std::move(round);
  devices_.give(device, id);
  bridge_.send(request);
}

/// Whether no device has a trial, its code and that of its static choice are there, and it did not
/// fail to compile.
bool FleetMeasurer::can_begin(int64_t number) {
  const Trial* trial = open_trial(number);
  if (trial == nullptr || trial->out > 0 || !ready(trial->job)) return false;
  const auto job = jobs_.find(trial->job);
  const bool failed = job != jobs_.end() && job->second.state == Job::State::Failed;
  return !failed && ready(base_job(trial->task));  // every round times the static choice
}

/// Gives devices compiled trials that no device has: first those of the batch, then announced ones.
void FleetMeasurer::feed(Batch& batch) {
  std::vector<int64_t> waiting, suspects;
  const auto look_at = [&](int64_t number) {
    if (!can_begin(number)) return;
    (trials_.at(number).deaths > 0 ? suspects : waiting).push_back(number);
  };
  for (const int64_t number : batch.trials) look_at(number);
  const size_t own = waiting.size();
  for (const auto& [key, number] : announced_) {
    if (trials_.at(number).task == batch.task) look_at(number);
  }
  size_t at = 0;
  for (FleetDevice* device : devices_.usable()) {
    while (device->rounds.size() < kRoundsEach) {
      if (device->rounds.empty() &&
          !suspects.empty()) {  // measured alone, so that a death can be attributed
        send_round(batch, batch.task, *device, {suspects.back()});
        suspects.pop_back();
        break;
      }
      const size_t whole = round_size(batch, std::max(batch.left, waiting.size()));
      const size_t left = (at < own ? own : waiting.size()) - at;
      const size_t count = std::min(whole, left);
      // A second round is sent only when it has its full size.
      if (count == 0 || (!device->rounds.empty() && count < whole && at < own)) break;
      send_round(batch, batch.task, *device,
                 {waiting.begin() + static_cast<ptrdiff_t>(at),
                  waiting.begin() + static_cast<ptrdiff_t>(at + count)});
      at += count;
    }
  }
  feed_other_tasks(batch);
}

/// Gives devices that have nothing to do announced trials of other tasks.
void FleetMeasurer::feed_other_tasks(Batch& batch) {
  std::map<int, std::vector<int64_t>> waiting;  // by task
  for (FleetDevice* device : devices_.usable()) {
    if (!device->rounds.empty()) return;  // the devices with the fewest rounds come first
    waiting.clear();
    for (const auto& [key, number] : announced_) {
      const Trial& trial = trials_.at(number);
      if (trial.task != batch.task && trial.deaths == 0 && can_begin(number))
        waiting[trial.task].push_back(number);
    }
    if (waiting.empty()) return;
    auto& [task, trials] = *waiting.begin();
    trials.resize(std::min(trials.size(), round_size(batch, trials.size())));
    send_round(batch, task, *device, trials);
  }
}

/// Gives the oldest round that takes much longer than others also to an idle device. The first
/// answer counts.
void FleetMeasurer::back_up(Batch& batch) {
  std::vector<FleetDevice*> devices = devices_.usable();
  std::erase_if(devices, [](const FleetDevice* d) { return !d->rounds.empty(); });
  for (FleetDevice* device : devices) {
    std::vector<int64_t> which;
    for (const auto& [id, round] : rounds_) {
      const double expected = mean_trial_ * static_cast<double>(round.trials.size());
      const FleetDevice* has = devices_.find(round.device);
      const bool queued = has && !has->rounds.empty() && has->rounds.front() != id;
      const double late = kStraggles * expected * (queued ? 2 : 1) + kStraggleSeconds;
      if (round.race || round.task != batch.task || round.since.elapsed_s() < late) continue;
      for (const int64_t number : round.trials) {
        const Trial* trial = open_trial(number);
        if (trial && trial->index && trial->out == 1 && trial->deaths == 0) which.push_back(number);
      }
      if (!which.empty()) break;
    }
    if (which.empty()) return;
    send_round(batch, batch.task, *device, which);
  }
}

}  // namespace heddle::measuring
