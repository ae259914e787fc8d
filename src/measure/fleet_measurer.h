// The measurer of a fleet: what is compiled and measured where, and what becomes of candidates
// whose device dies, goes silent or is slow.
//
// Candidates are compiled by nodes that only compile, where there are any, and measured in rounds
// of several, so that what a request costs is paid once for many. Each device has one round at work
// and one waiting. A candidate is reported when its first answer arrives; every later one is
// dropped. Devices that have nothing of a batch measure what was announced for the next one, so
// that they need not wait for the slowest of a batch, nor while the search thinks. The tuner's
// thread does all of it, between messages of the bridge (fleet_bridge.h).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/measure/fleet.h"
#include "heddle/runtime/timer.h"
#include "measure/fleet_bridge.h"
#include "measure/fleet_devices.h"

namespace heddle::measuring {

class FleetMeasurer : public Measurer {
 public:
  using Done = std::function<void(size_t, const MeasureResult&)>;

  explicit FleetMeasurer(const FleetOptions& options);

  void measure(const TuneTask& task, std::span<const Schedule> schedules, double best_seconds,
               const TuneClock& clock, const Done& done) override;
  bool prefetch(const TuneTask& task, std::span<const Schedule> schedules) override;
  std::vector<MeasureResult> race(const TuneTask& task, std::span<const Schedule> schedules,
                                  double seconds, const TuneClock& clock) override;
  int width() const override;
  std::string protocol() const override;
  std::vector<NodeUse> nodes() const override { return devices_.use(); }
  std::vector<std::pair<std::string, double>> time_spent() const override;
  std::vector<std::string> problems() const override;

 private:
  /// The candidates of one call of measure().
  struct Batch {
    int task = 0;
    const TuneClock& clock;
    const Done& done;
    double best = 0;
    std::vector<int64_t> trials = {};  ///< by index
    size_t left = 0;                   ///< not finished
  };
  /// A task that the bridge is told of.
  struct Known {
    uint64_t key = 0;
    Json message;
    int64_t base_job = 0;   ///< that compiles the static choice; 0: none
    double first_base = 0;  ///< what its times are compared with
  };
  /// A schedule on its way to machine code.
  struct Job {
    enum class State : uint8_t { Asked, Compiled, Failed };
    int task = 0;
    uint64_t key = 0;
    Json steps;
    bool no_spills = false;
    State state = State::Asked;
    MeasureResult failure = {};
    double seconds = 0;
    int lost = 0;  ///< times that a node died with it
  };
  /// A candidate of the batch at hand, or of one that was announced.
  struct Trial {
    int task = 0;
    uint64_t key = 0;
    Json steps;
    int64_t job = 0;
    std::optional<size_t> index = {};          ///< in the batch; none: it was announced
    int out = 0;                               ///< rounds that it is in
    int deaths = 0;                            ///< of devices that had it
    std::optional<MeasureResult> result = {};  ///< of one that was announced
  };
  /// Trials that a device was given together.
  struct Round {
    std::string device;
    int task = 0;
    std::vector<int64_t> trials;
    double allowed = 0;  ///< seconds; then the device is silent
    bool race = false;
    Timer since = {};
  };

  // What the bridge says (fleet_measurer.cpp).
  std::optional<Json> listen(double seconds, const TuneClock& clock);
  void heard_of_device(const Json& message);
  void heard_of_job(const Json& message);
  std::optional<Round> end_round(int64_t id);
  std::optional<Round> heard_of_round(const Json& message, FleetDevice** device);
  void bridge_is_new();
  void wait_for_devices(const TuneClock& clock);
  void watch_silence();

  // Tasks and code (fleet_jobs.cpp).
  int task_number(const TuneTask& task);
  bool compiles_apart() const { return compilers_ > 0; }
  int64_t job_of(int task, const Json& steps, uint64_t key, bool no_spills);
  void ask_for_code(int64_t id);
  void drop_jobs(const std::vector<int64_t>& jobs);
  int64_t base_job(int task);
  bool ready(int64_t job) const;

  // Trials (fleet_trials.cpp).
  uint64_t trial_key(int task, const Schedule& schedule) const;
  int64_t new_trial(int task, const Schedule& schedule, uint64_t key, bool no_spills);
  void forget_trial(int64_t number);
  Trial* open_trial(int64_t number);
  void take_results(Batch& batch, const Json& message, FleetDevice* device);
  void settle(Batch& batch, int64_t number, const MeasureResult& result);
  void blame(Batch& batch, const Round& round, const std::string& why);
  void put_back(const Round& round);
  void collect_failed(Batch& batch);

  // Rounds (fleet_rounds.cpp).
  void feed(Batch& batch);
  void back_up(Batch& batch);
  void send_round(const Batch& batch, FleetDevice& device, const std::vector<int64_t>& trials);
  size_t round_size(const Batch& batch, size_t left) const;

  // A batch (fleet_measurer.cpp).
  void begin(Batch& batch, const TuneTask& task, std::span<const Schedule> schedules);
  void take(Batch& batch, const Json& message);
  /// Rounds that no device has any more; with why, where it died of one.
  struct Lost {
    Round round;
    std::string why;
  };

  // A race (fleet_race.cpp).
  struct Race;
  void hear_of_others(const Json& message);
  bool compile_racers(Race& race);
  bool race_on(Race& race, FleetDevice& device, double seconds);

  FleetOptions options_;
  FleetBridge bridge_;
  int epoch_ = 1;  ///< of the bridge: the start from which it knows what it was told
  FleetDevices devices_;
  int compilers_ = 0;
  std::vector<Known> tasks_;
  std::map<int64_t, Job> jobs_;
  std::map<uint64_t, int64_t> job_ids_;  ///< by task and steps
  std::map<int64_t, Round> rounds_;
  std::map<int64_t, Trial> trials_;
  std::map<uint64_t, int64_t> announced_;  ///< trials by key
  std::deque<Lost> lost_;
  int64_t next_job_ = 1, next_round_ = 1, next_trial_ = 1;
  double mean_trial_ = 0.05;  ///< seconds of one trial on a device, of late
  std::map<std::string, double> spent_;
  std::vector<std::string> problems_;
  Timer deserted_;  ///< since there was a device
};

}  // namespace heddle::measuring
