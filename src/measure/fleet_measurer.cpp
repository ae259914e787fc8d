#include "measure/fleet_measurer.h"

#include <algorithm>
#include <cmath>

#include "heddle/support/error.h"
#include "measure/steps_hash.h"
#include "measure/worker_answers.h"
#include "measure/worker_program.h"
#include "measure/worker_protocol.h"

namespace heddle::measuring {
namespace {

// A round takes about so long: what asking costs weighs little then, and little is lost with it.
constexpr double kRoundSeconds = 0.5;
constexpr size_t kLargestRound = 64;
// One at work, and one that waits for it.
constexpr size_t kRoundsEach = 2;
// The first round of a task computes its reference.
constexpr double kReferenceSeconds = 60;
// A message takes no longer than this, else its device is not there.
constexpr double kGraceSeconds = 15;
// A round that takes so many times longer than expected is also given to a device with nothing to
// do.
constexpr double kStraggles = 3, kStraggleSeconds = 1;
// A candidate with which so many devices died, alone on the last ones, is to blame.
constexpr int kDeadly = 3;
constexpr int kUselessRounds = 3;
constexpr double kGlance = 0.05;

Json hello_of(const FleetOptions& options) {
  WorkerHello node{.kind = options.target.is_cuda() ? WorkerKind::Cuda : WorkerKind::Cpu,
                   .measure = options.protocol};
  Json out = to_json(node);
  out["address"] = Json(options.address);
  out["resource"] =
      Json(options.resource.empty() ? fleet_resource(options.target) : options.resource);
  Json worker = Json::array();
  for (const std::string& word : worker_command({})) worker.push_back(Json(word));
  out["worker"] = std::move(worker);
  node.node = "";
  out["compiler"] = to_json(node);
  node.node = to_string(options.target);
  out["device"] = to_json(node);
  return out;
}

}  // namespace

/// The candidates of one call of measure().
struct FleetMeasurer::Batch {
  struct Trial {
    Json steps;
    int64_t job = 0;
    bool finished = false;
    int out = 0;     ///< rounds that it is in
    int deaths = 0;  ///< of devices that had it
  };
  int task = 0;
  const TuneClock& clock;
  const Done& done;
  double best = 0;
  int64_t first = 0;  ///< number of the first trial
  std::vector<Trial> trials = {};
  size_t left = 0;  ///< not finished

  Trial* find(int64_t trial) {
    const int64_t i = trial - first;
    return i >= 0 && i < static_cast<int64_t>(trials.size()) ? &trials[static_cast<size_t>(i)]
                                                             : nullptr;
  }
};

FleetMeasurer::FleetMeasurer(const FleetOptions& options)
    : options_(options),
      bridge_(options.command.empty() ? fleet_command() : options.command, hello_of(options)) {}

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

std::vector<std::pair<std::string, double>> FleetMeasurer::time_spent() const {
  return {spent_.begin(), spent_.end()};
}

std::vector<std::string> FleetMeasurer::problems() const {
  std::vector<std::string> out = problems_;
  for (std::string& p : devices_.problems()) out.push_back(std::move(p));
  return out;
}

// ---- what the bridge says ----------------------------------------------------------------------

/// Everything but results, which are returned.
std::optional<Json> FleetMeasurer::listen(double seconds, const TuneClock& clock) {
  std::optional<Json> message = bridge_.receive(std::clamp(clock.left_s(), 0.0, seconds));
  if (bridge_.starts() != epoch_) bridge_is_new();
  watch_silence();
  if (!message) return message;
  if (message->contains("round")) return message;
  if (message->contains("compiled")) {
    heard_of_job(*message);
  } else if (const Json* count = message->find("compilers")) {
    compilers_ = static_cast<int>(count->as_int());
  } else {
    heard_of_device(*message);
  }
  return std::nullopt;
}

void FleetMeasurer::heard_of_device(const Json& message) {
  if (const Json* name = message.find("device")) {
    devices_.join(name->as_string(), message.get_string("machine", ""));
    if (const Json* problem = message.find("problem")) {
      FleetDevice& device = *devices_.find(name->as_string());
      device.use.set_aside = problem->as_string();
    }
  } else if (const Json* gone = message.find("gone")) {
    FleetDevice* device = devices_.find(gone->as_string());
    if (device == nullptr) return;
    const std::vector<int64_t> rounds(device->rounds.begin(), device->rounds.end());
    for (const int64_t id : rounds) {
      // It was at the oldest one; of the others it knew nothing.
      if (std::optional<Round> round = end_round(id))
        lost_.push_back({*round, id == rounds.front() ? message.get_string("why", "it died") : ""});
    }
    devices_.leave(gone->as_string());
  }
}

std::optional<FleetMeasurer::Round> FleetMeasurer::end_round(int64_t id) {
  auto found = rounds_.extract(id);
  if (found.empty()) return std::nullopt;
  Round round = std::move(found.mapped());
  if (FleetDevice* device = devices_.find(round.device)) devices_.take_back(*device, id);
  return round;
}

/// The round that an answer is of, nothing for one that was given up; and its device.
std::optional<FleetMeasurer::Round> FleetMeasurer::heard_of_round(const Json& message,
                                                                  FleetDevice** device) {
  *device = devices_.find(message.get_string("device", ""));
  const int64_t id = message.at("round").as_int();
  const bool first =
      *device != nullptr && !(*device)->rounds.empty() && (*device)->rounds.front() == id;
  std::optional<Round> round = end_round(id);
  if (*device == nullptr) return round;
  if (const Json* why = message.find("lost")) {
    if (round) lost_.push_back({*round, first ? why->as_string() : ""});
    return std::nullopt;
  }
  (*device)->silent = false;
  if (const Json* why = message.find("failed")) {
    if (++(*device)->failures_in_a_row >= kUselessRounds &&
        !devices_.set_aside(**device, why->as_string())) {
      throw_runtime_error("nothing can be measured on the fleet: " + why->as_string());
    }
  } else {
    (*device)->failures_in_a_row = 0;
  }
  const std::string problem = message.get_string("problem", "");
  if (!problem.empty() && std::find(problems_.begin(), problems_.end(), problem) == problems_.end())
    problems_.push_back(problem);
  return round;
}

/// It knows of nothing, and what was under way is lost, with nobody to blame.
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
  jobs_.clear();  // trials without one are compiled where they are measured
  job_ids_.clear();
}

/// A device that does not answer in time is given nothing until it does.
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
      {}, "`heddle fleet status` shows its nodes; docs/fleet.md says how one offers a device");
}

// ---- a batch -----------------------------------------------------------------------------------

void FleetMeasurer::finish(Batch& batch, size_t index, const MeasureResult& result) {
  Batch::Trial& trial = batch.trials[index];
  MeasureResult out = result;
  if (const auto job = jobs_.find(trial.job); job != jobs_.end())
    out.compile_seconds = std::max(out.compile_seconds, job->second.seconds);
  trial.finished = true;
  --batch.left;
  drop_jobs({trial.job});
  batch.done(index, out);
}

size_t FleetMeasurer::round_size(const Batch& batch, size_t ready) const {
  const auto devices = static_cast<double>(width());
  double count = std::min(kRoundSeconds, 0.5 * batch.clock.left_s()) / mean_trial_;
  count = std::min(count, std::ceil(static_cast<double>(batch.left) / devices / kRoundsEach));
  return std::clamp<size_t>(static_cast<size_t>(std::max(1.0, count)), 1,
                            std::min(kLargestRound, std::max<size_t>(ready, 1)));
}

void FleetMeasurer::send_round(Batch& batch, FleetDevice& device,
                               const std::vector<size_t>& which) {
  const Known& known = tasks_[static_cast<size_t>(batch.task)];
  Round round{.device = device.use.name, .task = batch.task, .trials = {}};
  Json candidates = Json::array();
  for (const size_t i : which) {
    Batch::Trial& trial = batch.trials[i];
    ++trial.out;
    round.trials.push_back(batch.first + static_cast<int64_t>(i));
    Json candidate = Json::object({{"trial", round.trials.back()}, {"steps", trial.steps}});
    if (jobs_.contains(trial.job) && compiles_apart()) candidate["job"] = Json(trial.job);
    candidates.push_back(std::move(candidate));
  }
  const double timeout = options_.protocol.timeout_seconds;
  const bool first = device.bases.find(batch.task) == device.bases.end();
  // Each of them may hang, though few will.
  const double most = std::min(batch.clock.left_s(),
                               3 * timeout + 10 * mean_trial_ * static_cast<double>(which.size()) +
                                   (first ? kReferenceSeconds : 0));
  const int64_t id = next_round_++;
  Json request = Json::object({{"do", "measure"},
                               {"round", id},
                               {"device", device.use.name},
                               {"task", batch.task},
                               {"seconds", most}});
  if (std::isfinite(batch.best)) {
    // As fast as this device is.
    const double base = first ? 0 : device.bases.at(batch.task).back();
    const bool scaled = base > 0 && known.first_base > 0;
    request["best"] = Json(scaled ? batch.best * base / known.first_base : batch.best);
  }
  if (const int64_t job = base_job(batch.task);
      job > 0 && jobs_.contains(job) && ready(job) && jobs_.at(job).state == Job::State::Compiled) {
    request["base_job"] = Json(job);
  }
  request["candidates"] = std::move(candidates);
  // What it has before this one comes first.
  round.allowed = most + kGraceSeconds;
  for (const int64_t before : device.rounds) {
    const auto at = rounds_.find(before);
    if (at != rounds_.end()) round.allowed += at->second.allowed;
  }
  rounds_[id] = std::move(round);
  devices_.give(device, id);
  bridge_.send(request);
}

/// Gives devices what is compiled and nobody has.
void FleetMeasurer::feed(Batch& batch) {
  std::vector<size_t> waiting, suspects;
  for (size_t i = 0; i < batch.trials.size(); ++i) {
    const Batch::Trial& trial = batch.trials[i];
    if (trial.finished || trial.out > 0 || !ready(trial.job)) continue;
    (trial.deaths > 0 ? suspects : waiting).push_back(i);
  }
  size_t at = 0;
  for (FleetDevice* device : devices_.usable()) {
    while (device->rounds.size() < kRoundsEach) {
      const size_t left = waiting.size() - at;
      if (device->rounds.empty() && !suspects.empty()) {  // alone: who dies with it is no accident
        send_round(batch, *device, {suspects.back()});
        suspects.pop_back();
        break;
      }
      const size_t whole = round_size(batch, batch.left), count = std::min(whole, left);
      // A second round only once it is worth one.
      if (count == 0 || (!device->rounds.empty() && count < whole)) break;
      send_round(batch, *device,
                 {waiting.begin() + static_cast<ptrdiff_t>(at),
                  waiting.begin() + static_cast<ptrdiff_t>(at + count)});
      at += count;
    }
  }
}

/// The oldest round that takes much longer than others do is also measured by a device that has
/// nothing to do; whoever answers first is heard.
void FleetMeasurer::back_up(Batch& batch) {
  std::vector<FleetDevice*> devices = devices_.usable();
  std::erase_if(devices, [](const FleetDevice* d) { return !d->rounds.empty(); });
  for (FleetDevice* device : devices) {
    std::vector<size_t> which;
    for (const auto& [id, round] : rounds_) {
      const double expected = mean_trial_ * static_cast<double>(round.trials.size());
      const FleetDevice* has = devices_.find(round.device);
      const bool queued = has && !has->rounds.empty() && has->rounds.front() != id;
      const double late = kStraggles * expected * (queued ? 2 : 1) + kStraggleSeconds;
      if (round.race || round.since.elapsed_s() < late) continue;
      for (const int64_t number : round.trials) {
        const Batch::Trial* trial = batch.find(number);
        if (trial && !trial->finished && trial->out == 1 && trial->deaths == 0)
          which.push_back(static_cast<size_t>(number - batch.first));
      }
      if (!which.empty()) break;
    }
    if (which.empty()) return;
    send_round(batch, *device, which);
  }
}

void FleetMeasurer::put_back(Batch& batch, const Round& round) {
  for (const int64_t number : round.trials) {
    if (Batch::Trial* trial = batch.find(number)) --trial->out;
  }
}

/// A device died with these.
void FleetMeasurer::blame(Batch& batch, const Round& round, const std::string& why) {
  for (const int64_t number : round.trials) {
    Batch::Trial* trial = batch.find(number);
    if (trial == nullptr || trial->finished || ++trial->deaths < kDeadly) continue;
    if (round.trials.size() > 1) continue;
    finish(batch, static_cast<size_t>(number - batch.first),
           failed(MeasureError::Crash,
                  std::to_string(trial->deaths) + " devices died with it: " + why));
  }
}

void FleetMeasurer::take_results(Batch& batch, const Json& message, FleetDevice* device) {
  const Json* results = message.find("results");
  if (results == nullptr) return;
  double base = 0;
  for (const Json& json : results->elements()) {
    MeasureResult result = result_from_json(json);
    if (base == 0) base = result.base_seconds;
    const int64_t number = json.at("trial").as_int();
    const Batch::Trial* trial = batch.find(number);
    if (trial == nullptr || trial->finished) continue;  // late, or a second answer
    if (result.error == MeasureError::Cancelled) continue;
    Known& known = tasks_[static_cast<size_t>(batch.task)];
    if (known.first_base == 0) known.first_base = result.base_seconds;
    if (result.ok() && !result.cut_off && result.base_seconds > 0) {
      batch.best = std::min(batch.best, result.median() * known.first_base / result.base_seconds);
    }
    if (device != nullptr) {
      result.machine = device->use.machine;
      ++device->use.trials;
      device->use.failures += !result.ok();
    }
    spent_["run (all nodes)"] += result.run_seconds;
    spent_["check (all nodes)"] += result.check_seconds;
    finish(batch, static_cast<size_t>(number - batch.first), result);
  }
  if (device != nullptr && base > 0) devices_.add_base(*device, batch.task, base);
}

void FleetMeasurer::take(Batch& batch, const Json& message) {
  FleetDevice* device = nullptr;
  const std::optional<Round> round = heard_of_round(message, &device);
  try {
    if (round && !round->trials.empty()) {
      // It may have waited for the one before.
      const double seconds = std::min(round->since.elapsed_s(), device->since_answer.elapsed_s());
      mean_trial_ = 0.8 * mean_trial_ + 0.2 * seconds / static_cast<double>(round->trials.size());
    }
    if (device != nullptr) device->since_answer = Timer();
    take_results(batch, message, device);
  } catch (const Error& e) {  // it is not what it should be
    if (device != nullptr) devices_.set_aside(*device, "its answer is none: " + e.message);
  }
  if (round) put_back(batch, *round);
}

/// What nobody has any more, and what did not compile.
void FleetMeasurer::collect_failed(Batch& batch) {
  while (!lost_.empty()) {
    const Lost lost = std::move(lost_.front());
    lost_.pop_front();
    put_back(batch, lost.round);
    if (!lost.why.empty()) blame(batch, lost.round, lost.why);
  }
  for (size_t i = 0; i < batch.trials.size(); ++i) {
    const Batch::Trial& trial = batch.trials[i];
    const auto job = trial.finished ? jobs_.end() : jobs_.find(trial.job);
    if (job != jobs_.end() && job->second.state == Job::State::Failed)
      finish(batch, i, MeasureResult(job->second.failure));
  }
}

void FleetMeasurer::measure(const TuneTask& task, std::span<const Schedule> schedules,
                            double best_seconds, const TuneClock& clock, const Done& done) {
  const bool nothing_known = !(best_seconds > 0 && std::isfinite(best_seconds));
  Batch batch{.clock = clock,
              .done = done,
              .best = nothing_known ? std::numeric_limits<double>::infinity() : best_seconds,
              .first = next_trial_};
  next_trial_ += static_cast<int64_t>(schedules.size());
  batch.left = schedules.size();
  batch.trials.resize(schedules.size());
  deserted_ = Timer();
  if (!clock.expired() && !schedules.empty()) {
    batch.task = task_number(task);
    while (devices_.usable().empty() && !clock.expired()) {
      FleetDevice* late = nullptr;
      if (const std::optional<Json> message = listen(kGlance, clock))
        heard_of_round(*message, &late);
      wait_for_devices(clock);
    }
    base_job(batch.task);
    for (size_t i = 0; i < schedules.size(); ++i) {
      batch.trials[i].steps = schedules[i].to_json();
      if (compiles_apart()) {
        batch.trials[i].job =
            job_of(batch.task, batch.trials[i].steps, steps_hash(schedules[i]), !nothing_known);
      }
    }
  }
  while (batch.left > 0 && !clock.expired()) {
    collect_failed(batch);
    if (batch.left == 0) break;
    feed(batch);
    back_up(batch);
    if (const std::optional<Json> message = listen(kGlance, clock)) take(batch, *message);
    wait_for_devices(clock);
  }
  for (size_t i = 0; i < schedules.size(); ++i) {
    if (!batch.trials[i].finished) finish(batch, i, out_of_time());
  }
}

}  // namespace heddle::measuring
