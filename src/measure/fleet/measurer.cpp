#include "measure/fleet/measurer.h"

#include <algorithm>
#include <cmath>

#include "heddle/support/error.h"
#include "measure/process/program.h"

namespace heddle::measuring {
namespace {

constexpr int kUselessRounds = 3;
constexpr double kGlance = 0.05;
// The most messages that are read at the end of a search.
constexpr int kLastMessages = 64;
// For the look-ahead: how many times the mean the compilation of a candidate takes that is slow,
// and the most candidates for each device and each compiler.
constexpr double kSlowCompilation = 2;
constexpr double kDeviceAhead = 8, kCompilerAhead = 3;

Json hello_of(const FleetOptions& options) {
  const Hello plain{.kind = options.target.is_cuda() ? WorkerKind::Cuda : WorkerKind::Cpu,
                    .measure = options.protocol};
  Hello compiler = plain, device = plain, bridge = plain;
  compiler.node = "";
  device.node = to_string(options.target);
  bridge.fleet = FleetSettings{
      .address = options.address,
      .resource = options.resource.empty() ? fleet_resource(options.target) : options.resource,
      .worker = worker_command({}),
      .compiler = encode(compiler),
      .device = encode(device)};
  return encode(bridge);
}

}  // namespace

FleetMeasurer::FleetMeasurer(const FleetOptions& options)
    : options_(options),
      bridge_(options.command.empty() ? fleet_command() : options.command, hello_of(options),
              options.join_seconds) {}

std::string FleetMeasurer::protocol() const {
  MeasureProtocol p = options_.protocol;
  if (!options_.target.is_cuda()) return to_string(p);
  p.cold = p.cold.value_or(true);
  std::string text = to_string(p);
  return text.insert(text.find(' '), " graph");
}

int FleetMeasurer::width() const {
  int count = 0;
  for (const NodeUse& use : devices_.use()) count += !use.gone && use.set_aside.empty();
  return std::max(1, count);
}

int FleetMeasurer::look_ahead() const {
  const int devices = width();
  if (!compiles_apart() && devices < 2) return 0;
  // What all devices measure while a candidate is compiled and they work on a round.
  const double compile = compiles_apart() ? kSlowCompilation * mean_compile_ : 0;
  const double count = devices * (compile + kRoundSeconds) / mean_trial_;
  // Compilers that have several candidates each gain nothing from more.
  const double most = kDeviceAhead * devices + kCompilerAhead * compilers_;
  return static_cast<int>(std::ceil(std::clamp(count, 1.0, most)));
}

std::vector<std::pair<std::string, double>> FleetMeasurer::time_spent() const {
  return {spent_.begin(), spent_.end()};
}

std::vector<std::string> FleetMeasurer::problems() const {
  std::vector<std::string> out = problems_;
  for (std::string& p : devices_.problems()) out.push_back(std::move(p));
  return out;
}

// ---- what the bridge says ----------------------------------------------------------------------

/// Handles all messages except results, which are returned.
std::optional<RoundReport> FleetMeasurer::listen(double seconds, const TuneClock& clock) {
  std::optional<BridgeSays> message = bridge_.receive(std::clamp(clock.left_s(), 0.0, seconds));
  if (bridge_.starts() != epoch_) bridge_is_new();
  watch_silence();
  if (!message) return std::nullopt;
  if (auto* report = std::get_if<RoundReport>(&*message)) return std::move(*report);
  if (const auto* report = std::get_if<JobReport>(&*message)) hear(*report);
  if (const auto* there = std::get_if<Compilers>(&*message)) compilers_ = there->count;
  if (const auto* there = std::get_if<DeviceThere>(&*message)) hear(*there);
  if (const auto* gone = std::get_if<DeviceGone>(&*message)) hear(*gone);
  return std::nullopt;
}

void FleetMeasurer::hear(const DeviceThere& there) {
  devices_.join(there.device, there.machine);
  if (there.problem) devices_.find(there.device)->use.set_aside = *there.problem;
}

void FleetMeasurer::hear(const DeviceGone& gone) {
  FleetDevice* device = devices_.find(gone.device);
  if (device == nullptr) return;
  const std::vector<int64_t> rounds(device->rounds.begin(), device->rounds.end());
  for (const int64_t id : rounds) {
    // The device was working on its oldest round. It did not know the others.
    if (std::optional<Round> round = end_round(id))
      lost_.push_back({*round, id == rounds.front() ? gone.why : ""});
  }
  devices_.leave(gone.device);
}

std::optional<FleetMeasurer::Round> FleetMeasurer::end_round(int64_t id) {
  auto found = rounds_.extract(id);
  if (found.empty()) return std::nullopt;
  Round round = std::move(found.mapped());
  if (FleetDevice* device = devices_.find(round.device)) devices_.take_back(*device, id);
  return round;
}

/// The round that an answer belongs to, and its device. Returns nothing for a round that was given
/// up.
std::optional<FleetMeasurer::Round> FleetMeasurer::heard_of_round(const RoundReport& report,
                                                                  FleetDevice** device) {
  *device = devices_.find(report.device);
  const int64_t id = report.round;
  const bool first =
      *device != nullptr && !(*device)->rounds.empty() && (*device)->rounds.front() == id;
  std::optional<Round> round = end_round(id);
  if (*device == nullptr) return round;
  if (report.lost) {
    if (round) lost_.push_back({*round, first ? *report.lost : ""});
    return std::nullopt;
  }
  (*device)->silent = false;
  if (report.failed) {
    if (++(*device)->failures_in_a_row >= kUselessRounds &&
        !devices_.set_aside(**device, *report.failed)) {
      throw_runtime_error("nothing can be measured on the fleet: " + *report.failed);
    }
  } else {
    (*device)->failures_in_a_row = 0;
  }
  const std::string problem = report.problem.value_or("");
  if (!problem.empty() && std::find(problems_.begin(), problems_.end(), problem) == problems_.end())
    problems_.push_back(problem);
  return round;
}

/// Called when a new bridge process has started. It knows nothing, and rounds that were running are
/// lost without a candidate to blame.
void FleetMeasurer::bridge_is_new() {
  epoch_ = bridge_.starts();
  devices_.all_leave();
  compilers_ = 0;
  for (auto& [id, round] : rounds_) lost_.push_back({round, ""});
  rounds_.clear();
  for (Known& known : tasks_) {
    known.base_job = 0;
    bridge_.send(known.message);
  }
  jobs_.clear();  // trials without a job are compiled where they are measured
  job_ids_.clear();
}

/// A device that does not answer in time gets no work until it does.
void FleetMeasurer::watch_silence() {
  std::vector<int64_t> late;
  for (const auto& [id, round] : rounds_) {
    if (round.since.elapsed_s() > round.allowed) late.push_back(id);
  }
  for (const int64_t id : late) {
    const std::optional<Round> round = end_round(id);
    if (FleetDevice* device = devices_.find(round->device)) device->silent = true;
    lost_.push_back({*round, ""});
  }
}

void FleetMeasurer::wait_for_devices(const TuneClock& clock) {
  if (!devices_.usable().empty() || clock.expired()) {
    deserted_ = Timer();
    return;
  }
  if (deserted_.elapsed_s() < options_.join_seconds) return;
  const std::vector<std::string> why = devices_.problems();
  throw_runtime_error(
      "no node of the fleet at '" + options_.address + "' measures '" +
          (options_.resource.empty() ? fleet_resource(options_.target) : options_.resource) + "'" +
          (why.empty() ? "" : ": " + why.front()),
      {},
      "`heddle fleet status` shows its nodes; docs/guide/fleets.md says how one offers a device");
}

// ---- a batch -----------------------------------------------------------------------------------

void FleetMeasurer::take(Batch& batch, const RoundReport& report) {
  FleetDevice* device = nullptr;
  const std::optional<Round> round = heard_of_round(report, &device);
  if (round) put_back(*round);
  try {
    // The first round of a task on a device computes its reference.
    if (round && !round->trials.empty() && device->bases.contains(round->task)) {
      // The round may have waited for the one before it.
      const double seconds = std::min(round->since.elapsed_s(), device->since_answer.elapsed_s());
      mean_trial_ = 0.8 * mean_trial_ + 0.2 * seconds / static_cast<double>(round->trials.size());
    }
    if (device != nullptr) device->since_answer = Timer();
    spent_["rounds (all nodes)"] += report.took;
    spent_["static choice (all nodes)"] += report.static_choice;
    take_results(batch, report, device);
  } catch (const Error& e) {  // the answer is malformed
    if (device != nullptr) devices_.set_aside(*device, "its answer is none: " + e.message);
  }
}

/// Begins a batch. Candidates that were announced before are compiled already, or are being
/// compiled.
void FleetMeasurer::begin(Batch& batch, const TuneTask& task, std::span<const Schedule> schedules) {
  batch.task = task_number(task);
  while (devices_.usable().empty() && !batch.clock.expired()) {
    if (const auto report = listen(kGlance, batch.clock)) take(batch, *report);
    wait_for_devices(batch.clock);
  }
  base_job(batch.task);
  std::vector<int64_t> settled;
  for (size_t i = 0; i < schedules.size(); ++i) {
    const uint64_t key = trial_key(batch.task, schedules[i]);
    const auto known = announced_.extract(key);
    const bool nothing_known = !std::isfinite(batch.best);
    const int64_t number = known.empty()
                               ? new_trial(batch.task, schedules[i], key, !nothing_known, true)
                               : known.mapped();
    batch.trials.push_back(number);
    Trial& trial = trials_.at(number);
    trial.index = i;
    if (trial.result) settled.push_back(number);
  }
  for (const int64_t number : settled)
    settle(batch, number, MeasureResult(*trials_.at(number).result));
}

/// When there is no time for more: reports the candidates that were measured ahead.
void FleetMeasurer::take_what_is_known(Batch& batch, const TuneTask& task,
                                       std::span<const Schedule> schedules) {
  batch.task = task_number(task);
  for (int i = 0; i < kLastMessages; ++i) {
    if (const auto report = listen(0, TuneClock())) take(batch, *report);
  }
  for (size_t i = 0; i < schedules.size(); ++i) {
    const auto known = announced_.extract(trial_key(batch.task, schedules[i]));
    const int64_t number = known.empty() ? 0 : known.mapped();
    batch.trials.push_back(number);
    if (number == 0) continue;
    Trial& trial = trials_.at(number);
    trial.index = i;
    if (trial.result) settle(batch, number, MeasureResult(*trial.result));
  }
}

void FleetMeasurer::measure(const TuneTask& task, std::span<const Schedule> schedules,
                            double best_seconds, const TuneClock& clock, const Done& done) {
  const bool known = best_seconds > 0 && std::isfinite(best_seconds);
  Batch batch{.clock = clock,
              .done = done,
              .best = known ? best_seconds : std::numeric_limits<double>::infinity(),
              .left = schedules.size()};
  deserted_ = Timer();
  if (!schedules.empty() && !clock.expired()) begin(batch, task, schedules);
  if (clock.expired() && batch.trials.empty() && !announced_.empty())
    take_what_is_known(batch, task, schedules);
  while (batch.left > 0 && !clock.expired()) {
    collect_failed(batch);
    if (batch.left == 0) break;
    ask_again_for_late_code();
    feed(batch);
    back_up(batch);
    if (const auto report = listen(kGlance, clock)) take(batch, *report);
    wait_for_devices(clock);
  }
  // Devices get announced candidates for the time until the next batch.
  if (!batch.trials.empty() && !clock.expired()) feed(batch);
  batch.trials.resize(schedules.size(), 0);
  for (size_t i = 0; i < schedules.size(); ++i) {
    if (open_trial(batch.trials[i])) {
      forget_trial(batch.trials[i]);
      done(i, out_of_time());
    } else if (batch.trials[i] == 0) {
      done(i, out_of_time());
    }
  }
}

}  // namespace heddle::measuring
