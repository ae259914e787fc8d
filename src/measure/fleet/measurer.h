// The measurer of a fleet: it assigns compilation and measurements to nodes, and handles devices
// that die, do not answer or are slow.
//
// Candidates are compiled by nodes that only compile, where there are any. They are measured in
// rounds of several, so that the cost of a request is shared. Each device has one round in progress
// and one waiting. A candidate is reported when its first answer arrives, and later answers are
// dropped. Devices without work in a batch measure candidates that were announced for the next one,
// so that they wait neither for the slowest device nor for the search. The tuner's thread does all
// of this between messages of the bridge (messages/fleet.h).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/measure/fleet.h"
#include "heddle/runtime/timer.h"
#include "measure/fleet/bridge.h"
#include "measure/fleet/devices.h"

namespace heddle::measuring {

/// Seconds of a round. The cost of a request is small beside it, and little is lost if the round
/// is.
constexpr double kRoundSeconds = 0.5;

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
  int look_ahead() const override;
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
    std::vector<int64_t> trials = {};  ///< trials by index
    size_t left = 0;                   ///< number of unfinished candidates
  };
  /// A task that was sent to the bridge.
  struct Known {
    uint64_t key = 0;
    TaskMessage message;
    int64_t base_job = 0;   ///< the job that compiles the static choice; 0: none
    double first_base = 0;  ///< the time with which its times are compared
  };
  /// The compilation of a schedule.
  struct Job {
    enum class State : uint8_t { Asked, Compiled, Failed };
    int task = 0;
    uint64_t key = 0;
    Json steps;
    bool no_spills = false;
    bool urgent = false;  ///< it is compiled before what is only announced
    State state = State::Asked;
    Timer since = {};    ///< time since the request
    int later_done = 0;  ///< number of later requests that are compiled
    bool again = false;  ///< a second node was asked
    MeasureResult failure = {};
    double seconds = 0;
    int lost = 0;  ///< number of nodes that died while they compiled it
  };
  /// A candidate of the current batch, or one that was announced.
  struct Trial {
    int task = 0;
    uint64_t key = 0;
    Json steps;
    int64_t job = 0;
    std::optional<size_t> index = {};  ///< index in the batch; none where it was announced
    int out = 0;                       ///< number of rounds that contain it
    int deaths = 0;                    ///< number of devices that died while they measured it
    std::optional<MeasureResult> result = {};  ///< result of an announced candidate
  };
  /// Trials that were given to a device together.
  struct Round {
    std::string device;
    int task = 0;
    std::vector<int64_t> trials;
    double allowed = 0;  ///< seconds after which the device counts as silent
    bool race = false;
    Timer since = {};
  };

  // Messages of the bridge (measurer.cpp).
  std::optional<RoundReport> listen(double seconds, const TuneClock& clock);
  void hear(const DeviceThere& device);
  void hear(const DeviceGone& device);
  void hear(const JobReport& report);
  std::optional<Round> end_round(int64_t id);
  std::optional<Round> heard_of_round(const RoundReport& report, FleetDevice** device);
  void bridge_is_new();
  void wait_for_devices(const TuneClock& clock);
  void watch_silence();

  // Tasks and code (jobs.cpp).
  int task_number(const TuneTask& task);
  bool compiles_apart() const { return compilers_ > 0; }
  int64_t job_of(int task, const Json& steps, uint64_t key, bool no_spills, bool urgent);
  void ask_for_code(int64_t id);
  void ask_again_for_late_code();
  void drop_jobs(const std::vector<int64_t>& jobs);
  int64_t base_job(int task);
  bool ready(int64_t job) const;

  // Trials (trials.cpp).
  uint64_t trial_key(int task, const Schedule& schedule) const;
  int64_t new_trial(int task, const Schedule& schedule, uint64_t key, bool no_spills, bool urgent);
  void forget_trial(int64_t number);
  void forget_announced();
  Trial* open_trial(int64_t number);
  void take_results(Batch& batch, const RoundReport& report, FleetDevice* device);
  void settle(Batch& batch, int64_t number, const MeasureResult& result);
  void blame(Batch& batch, const Round& round, const std::string& why);
  void put_back(const Round& round);
  void collect_failed(Batch& batch);

  // Rounds (rounds.cpp).
  void feed(Batch& batch);
  void back_up(Batch& batch);
  void feed_other_tasks(Batch& batch);
  bool can_begin(int64_t number);
  void send_round(const Batch& batch, int task, FleetDevice& device,
                  const std::vector<int64_t>& trials);
  size_t round_size(const Batch& batch, size_t left) const;

  // A batch (measurer.cpp).
  void begin(Batch& batch, const TuneTask& task, std::span<const Schedule> schedules);
  void take(Batch& batch, const RoundReport& report);
  void take_what_is_known(Batch& batch, const TuneTask& task, std::span<const Schedule> schedules);
  /// Rounds that no device has any more, and the reason where the device died.
  struct Lost {
    Round round;
    std::string why;
  };

  // A race (race.cpp).
  struct Race;
  void hear_of_others(const RoundReport& report);
  bool compile_racers(Race& race);
  bool race_on(Race& race, FleetDevice& device, double seconds);

  FleetOptions options_;
  FleetBridge bridge_;
  int epoch_ = 1;  ///< start of the bridge since which messages were sent
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
  double mean_trial_ = 0.05;   ///< seconds of one trial on a device, a running mean
  double mean_compile_ = 0.5;  ///< seconds of one compilation on a node, a running mean
  Timer since_code_;           ///< time since the last compilation was reported
  std::map<std::string, double> spent_;
  std::vector<std::string> problems_;
  Timer deserted_;  ///< time since the last device was connected
};

}  // namespace heddle::measuring
