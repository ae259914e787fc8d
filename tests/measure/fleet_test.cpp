// The tuner's side of a fleet, without Ray. A program replaces heddle-fleet. It dies, answers late,
// answers twice, or gives wrong answers, as the test says.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "heddle/measure/fleet.h"
#include "heddle/records/record_log.h"
#include "heddle/search/tune.h"
#include "heddle/support/error.h"
#include "measure/fleet/devices.h"
#include "measure/measure_testing.h"
#include "measure/messages/fleet.h"
#include "measure/test_worker.h"
#include "support/hashing/hash.h"

namespace heddle {
namespace {

using namespace testing;
using namespace measuring;

/// What a stand-in does, as JSON, by name:
///   devices, compilers: how many; trial_us: what a trial takes
///   double: every answer is sent twice, and answers about trials that nobody knows
///   dies: {device: rounds after which it is gone}
///   deadly: hash of steps with which every device dies; others join then
///   silent: the device that never answers; slow: {device: trial_us}
///   wanders: the device whose static choice does
///   lose_jobs: compilers die so many times; uncompilable: hash of steps
///   keeps_job: the job of which the first request is never answered
///   away: a file; once the bridge has died, it says so many times that there is no cluster
///     (refusals), and writes each time to the file
///   exits: the bridge dies after so many rounds, unless the file `once` is there; then it makes it
///   refuses: says so at the start
///   log: a file to which each trial that is measured is written
class StandIn {
 public:
  StandIn(const std::string& config, Channel& channel)
      : config_(Json::parse(config)), channel_(channel) {}

  void run() {
    if (config_.contains("refuses")) {
      say(Started{.message = config_.at("refuses").as_string()});
      return;
    }
    if (is_away()) return say(Started{.message = "no cluster"});
    if (exits() == 0) ::_exit(3);
    const auto compilers = static_cast<int>(config_.get_int("compilers", 0));
    if (compilers > 0) say(Compilers{compilers});
    for (int64_t i = 0; i < config_.get_int("devices", 1); ++i) join();
    using Requests = std::variant<TaskMessage, CompileJob, Drop, MeasureTrials, End>;
    while (const std::optional<Json> m = channel_.receive()) {
      const auto request = decode_any<Requests>(*m);
      if (std::holds_alternative<End>(request)) return;
      std::visit([&](const auto& r) { on(r); }, request);
    }
  }

 private:
  template <class Message>
  void say(const Message& message) {
    channel_.send(encode(message));
  }
  void join() {
    const std::string name = "n" + std::to_string(joined_++);
    say(DeviceThere{.device = name, .machine = "machine of " + name});
  }
  void on(const End&) {}
  void on(const TaskMessage& m) { tasks_.insert(m.task); }
  void on(const Drop& m) {
    for (const int64_t job : m.jobs) compiled_.erase(job);
  }
  int64_t exits() const {
    const std::string once = config_.get_string("once", "");
    return !once.empty() && std::filesystem::exists(once) ? -1 : config_.get_int("exits", -1);
  }
  bool is_away() const {
    const std::string away = config_.get_string("away", "");
    if (away.empty() || !std::filesystem::exists(config_.get_string("once", ""))) return false;
    const bool known = std::filesystem::exists(away);
    if (known &&
        static_cast<int64_t>(std::filesystem::file_size(away)) >= config_.get_int("refusals", 0)) {
      return false;
    }
    std::ofstream(away, std::ios::app) << "x";
    return true;
  }
  static int64_t hash_of(const Json& steps) {
    return static_cast<int64_t>(hash_string(steps.dump()) >> 2);
  }

  void on(const CompileJob& m) {
    if (!tasks_.contains(m.task)) ::_exit(4);  // it was not told
    if (m.job == config_.get_int("keeps_job", -1) && !kept_) {
      kept_ = true;
      return;
    }
    JobReport report{.job = m.job};
    if (lost_jobs_++ < config_.get_int("lose_jobs", 0)) {
      report.lost = "its node died";
    } else if (hash_of(m.steps) == config_.get_int("uncompilable", -1)) {
      report.error = MeasureError::Compile;
      report.message = "it cannot";
    } else {
      compiled_.insert(m.job);
      report.seconds = 0.5;
    }
    say(report);
  }

  Json result(const TrialRequest& candidate, const std::string& device) {
    // Devices are of different speed.
    const double speed = 1 + 0.5 * static_cast<double>(device.back() - '0');
    double base = 2e-3 * speed;
    if (device == config_.get_string("wanders", "")) base *= (rounds_ % 2 == 0 ? 1 : 3);
    const double seconds =
        1e-3 * speed + 1e-9 * static_cast<double>(hash_of(candidate.steps) % 1000000);
    MeasureResult out;
    out.seconds = {seconds, seconds, seconds};
    out.base_seconds = base;
    out.run_seconds = 1e-3;
    return encode(TrialResult{candidate.trial, out});
  }

  void on(const MeasureTrials& m) {
    const std::string& device = *m.device;
    if (!tasks_.contains(m.task)) ::_exit(4);
    if (dead_.contains(device)) return;
    if (device == config_.get_string("silent", "")) return;
    if (exits() == rounds_) {
      std::ofstream(config_.get_string("once", "/dev/null")) << "once";
      ::_exit(3);
    }
    ++rounds_;
    const Json* dies = config_.find("dies");
    if (dies && dies->get_int(device, 1 << 30) <= of_device_[device]++) return die(device);
    RoundReport answer;
    answer.round = *m.round;
    answer.device = device;
    std::vector<Json>& results = answer.results.emplace();
    for (const TrialRequest& c : m.trials) {
      if (hash_of(c.steps) == config_.get_int("deadly", -1)) {
        join();
        return die(device);
      }
      if (c.job && !compiled_.contains(*c.job))
        ::_exit(5);  // code that nobody made, or that was dropped
      const Json* slow = config_.find("slow");
      int64_t us = config_.get_int("trial_us", 200);
      if (slow) us = slow->get_int(device, us);
      ::usleep(static_cast<unsigned>(us));
      results.push_back(result(c, device));
      std::ofstream(config_.get_string("log", "/dev/null"), std::ios::app)
          << hash_of(c.steps) << "\n";
    }
    say(answer);
    if (!config_.get_bool("double", false)) return;
    say(answer);
    for (size_t i = 0; i < 2; ++i) {
      Json other = results[0];
      other["trial"] = Json(i == 0 ? int64_t{1} << 40 : -1);
      results.push_back(other);
    }
    say(answer);
  }

  void die(const std::string& device) {
    dead_.insert(device);
    say(DeviceGone{device, "its node was killed"});
  }

  Json config_;
  Channel& channel_;
  int joined_ = 0;
  bool kept_ = false;
  int64_t rounds_ = 0, lost_jobs_ = 0;
  std::set<int64_t> tasks_, compiled_;
  std::set<std::string> dead_;
  std::map<std::string, int64_t> of_device_;
};

const TestWorker kFleet("fleet", [](const std::string& config) {
  measuring::WorkerHooks hooks;
  hooks.serve = [config](Channel& channel, measuring::WorkerStatus&) {
    StandIn(config, channel).run();
  };
  return hooks;
});

std::unique_ptr<Measurer> fleet(const Json& config, double join_seconds = 20) {
  FleetOptions options;
  options.target = two_threads();
  options.protocol = quick_protocol();
  options.join_seconds = join_seconds;
  options.command = test_worker("fleet", config.dump());
  return make_fleet_measurer(options);
}

int64_t hash_of(const Schedule& s) {
  return static_cast<int64_t>(hash_string(s.to_json().dump()) >> 2);
}

void expect_all_once(const Collected& c, size_t count) {
  ASSERT_EQ(c.results.size(), count);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(c.reports[i], 1) << i;
    EXPECT_TRUE(c.results[i].ok()) << c.results[i].message;
  }
}

int trials_of(const Measurer& m) {
  int out = 0;
  for (const NodeUse& use : m.nodes()) out += use.trials;
  return out;
}

std::string scratch(const std::string& name) {
  const std::string path = ::testing::TempDir() + name + "." + std::to_string(::getpid());
  std::filesystem::remove(path);
  return path;
}

TEST(Fleet, AllDevicesMeasureAndEachTrialIsReportedOnce) {
  const TuneTask task = small_matmul();
  const std::vector<Schedule> schedules = candidates(task, 60);
  for (const int compilers : {0, 3}) {
    const auto m = fleet(Json::object({{"devices", 3}, {"compilers", compilers}}));
    const Collected c = measure_all(*m, task, schedules);
    expect_all_once(c, 60);
    std::set<std::string> machines;
    for (const MeasureResult& r : c.results) {
      machines.insert(r.machine);
      EXPECT_GT(r.base_seconds, 0);
      EXPECT_EQ(r.compile_seconds > 0, compilers > 0);
    }
    EXPECT_EQ(machines.size(), 3u);
    EXPECT_EQ(trials_of(*m), 60);
    EXPECT_EQ(m->width(), 3);
    EXPECT_TRUE(m->prefetch(task, schedules));
    expect_all_once(measure_all(*m, task, schedules), 60);  // after a prefetch
    EXPECT_TRUE(m->problems().empty());
  }
  EXPECT_FALSE(has_children());
}

TEST(Fleet, ASecondAnswerAndOneOfNobodyAreDropped) {
  const TuneTask task = small_matmul();
  const auto m = fleet(Json::object({{"devices", 2}, {"double", true}}));
  for (int batch = 0; batch < 3; ++batch)  // what is late comes in the next one
    expect_all_once(measure_all(*m, task, candidates(task, 20)), 20);
  EXPECT_EQ(trials_of(*m), 60);
}

TEST(Fleet, WhatADeviceLeavesAnotherMeasures) {
  const TuneTask task = small_matmul();
  Json config = Json::object({{"devices", 3}});
  config["dies"] = Json::object({{"n0", 0}, {"n2", 1}});
  const auto m = fleet(config);
  expect_all_once(measure_all(*m, task, candidates(task, 40)), 40);
  int gone = 0;
  for (const NodeUse& use : m->nodes()) gone += use.gone;
  EXPECT_EQ(gone, 2);
  EXPECT_EQ(m->width(), 1);
}

TEST(Fleet, ACandidateWithWhichDevicesDieIsFoundOut) {
  const TuneTask task = small_matmul();
  const std::vector<Schedule> schedules = candidates(task, 24);
  const auto m = fleet(Json::object({{"devices", 2}, {"deadly", hash_of(schedules[7])}}));
  const Collected c = measure_all(*m, task, schedules);
  for (size_t i = 0; i < schedules.size(); ++i) {
    EXPECT_EQ(c.reports[i], 1);
    EXPECT_EQ(c.results[i].ok(), i != 7) << i << ": " << c.results[i].message;
  }
  EXPECT_EQ(c.results[7].error, MeasureError::Crash);
  EXPECT_NE(c.results[7].message.find("devices died with it"), std::string::npos);
}

TEST(Fleet, ASilentDeviceAndASlowOneHoldNobodyUp) {
  const TuneTask task = small_matmul();
  Json config = Json::object({{"devices", 2}, {"silent", "n0"}});
  auto m = fleet(config);
  expect_all_once(measure_all(*m, task, candidates(task, 30)), 30);
  for (const NodeUse& use : m->nodes()) EXPECT_EQ(use.trials, use.name == "n1" ? 30 : 0);
}

TEST(Fleet, WhatHasNoCodeIsCompiledWhereItIsMeasured) {
  const TuneTask task = small_matmul();
  const std::vector<Schedule> schedules = candidates(task, 12);
  Json config = Json::object({{"devices", 2}, {"compilers", 1}, {"lose_jobs", 20}});
  expect_all_once(measure_all(*fleet(config), task, schedules), 12);
  config =
      Json::object({{"devices", 2}, {"compilers", 1}, {"uncompilable", hash_of(schedules[3])}});
  const Collected c = measure_all(*fleet(config), task, schedules);
  EXPECT_EQ(c.results[3].error, MeasureError::Compile);
  EXPECT_EQ(c.reports, std::vector<int>(12, 1));
}

TEST(Fleet, CodeThatIsLateIsAskedForAgain) {
  const TuneTask task = small_matmul();
  // The first job is the static choice. Without it candidates are measured all the same.
  for (const int kept : {1, 5}) {
    const auto m = fleet(
        Json::object({{"devices", 2}, {"compilers", 1}, {"keeps_job", kept}, {"trial_us", 1}}));
    expect_all_once(measure_all(*m, task, candidates(task, 40)), 40);
  }
}

TEST(Fleet, AClusterThatHasAnsweredMayBeAwayForAWhile) {
  const TuneTask task = small_matmul();
  const std::vector<Schedule> schedules = candidates(task, 30);
  const std::string once = scratch("fleet_left"), away = scratch("fleet_away");
  const auto try_it = [&](double patience) {
    for (const std::string& file : {once, away}) std::filesystem::remove(file);
    const Json config = Json::object(
        {{"devices", 2}, {"exits", 1}, {"once", once}, {"away", away}, {"refusals", 2}});
    return measure_all(*fleet(config, patience), task, schedules);
  };
  expect_all_once(try_it(20), 30);
  EXPECT_THROW(try_it(0.01), Error);
  for (const std::string& file : {once, away}) std::filesystem::remove(file);
}

TEST(Fleet, ABridgeThatDiesIsStartedAgain) {
  const TuneTask task = small_matmul();
  const std::vector<Schedule> schedules = candidates(task, 50);
  for (const int after : {0, 1, 4}) {
    const std::string once = scratch("fleet_once");
    const auto m = fleet(Json::object(
        {{"devices", 2}, {"compilers", 2}, {"exits", after}, {"once", once}, {"double", true}}));
    if (after == 0) std::ofstream(once) << "not at the start";
    expect_all_once(measure_all(*m, task, schedules), 50);
    expect_all_once(measure_all(*m, task, schedules), 50);
    std::filesystem::remove(once);
  }
  const auto never = fleet(Json::object({{"devices", 2}, {"exits", 0}}));
  try {
    measure_all(*never, task, schedules);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.message.find("died repeatedly"), std::string::npos) << e.message;
  }
  EXPECT_FALSE(has_children());
}

TEST(Fleet, WhatCannotWorkIsSaidAtOnce) {
  const TuneTask task = small_matmul();
  try {
    measure_all(*fleet(Json::object({{"refuses", "Ray is not installed"}})), task,
                candidates(task, 1));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.message, "Ray is not installed");
    EXPECT_EQ(e.kind, ErrorKind::User);
  }
  try {
    measure_all(*fleet(Json::object({{"devices", 0}}), 0.2), task, candidates(task, 1));
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.message.find("no node of the fleet at 'auto' measures 'cpu:"), std::string::npos);
  }
  Target other = two_threads();
  other.cores = 1;
  const TuneTask elsewhere = make_task(
      "elsewhere", {ops::matmul(placeholder({48, 40}, f32, "A"), placeholder({40, 56}, f32, "B"))},
      other);
  EXPECT_THROW(
      measure_all(*fleet(Json::object({{"devices", 1}})), elsewhere, candidates(elsewhere, 1)),
      Error);
}

TEST(Fleet, ADeviceThatWandersIsSetAside) {
  EXPECT_EQ(measuring::wandering({1, 2, 1, 2, 1}), 0);  // too few to say
  EXPECT_NEAR(measuring::wandering({1, 1.02, 1, 1.02, 1, 1.02}), 0.02, 1e-3);
  EXPECT_GT(measuring::wandering({1, 3, 1, 3, 1, 3}), 0.5);
  const TuneTask task = small_matmul();
  for (const int devices : {2, 1}) {
    const auto m = fleet(Json::object({{"devices", devices}, {"wanders", "n0"}}));
    for (int batch = 0; batch < 20; ++batch) measure_all(*m, task, candidates(task, 2 * devices));
    const std::vector<std::string> problems = m->problems();
    if (devices == 1) {  // it is the last one
      EXPECT_TRUE(problems.empty());
      continue;
    }
    ASSERT_EQ(problems.size(), 1u);
    EXPECT_NE(problems[0].find("'n0' was set aside: the time of the static choice changes by"),
              std::string::npos)
        << problems[0];
    EXPECT_EQ(m->width(), 1);
  }
}

TEST(Fleet, ARaceRunsOnOneDevice) {
  const TuneTask task = small_matmul();
  Json config = Json::object({{"devices", 3}, {"compilers", 1}});
  config["dies"] = Json::object({{"n1", 3}});
  const auto m = fleet(config);
  measure_all(*m, task, candidates(task, 12));
  for (int i = 0; i < 4; ++i) {
    const std::vector<MeasureResult> results = m->race(task, candidates(task, 3), 5, TuneClock(20));
    ASSERT_EQ(results.size(), 3u);
    for (const MeasureResult& r : results) {
      EXPECT_TRUE(r.ok()) << r.message;
      EXPECT_EQ(r.machine, results[0].machine);
    }
  }
}

// Announced candidates are measured while nothing else is to be done, and then are there at once.
TEST(Fleet, WhatIsAnnouncedIsMeasuredAhead) {
  const TuneTask task = small_matmul();
  const std::vector<Schedule> all = candidates(task, 60);
  const std::vector<Schedule> first(all.begin(), all.begin() + 20);
  const std::vector<Schedule> second(all.begin() + 20, all.begin() + 40);
  for (const int compilers : {0, 2}) {
    const std::string measured = scratch("fleet_ahead");
    Json config = Json::object({{"devices", 2}, {"compilers", compilers}, {"log", measured}});
    const auto m = fleet(config);
    expect_all_once(measure_all(*m, task, candidates(task, 1)), 1);
    EXPECT_TRUE(m->prefetch(task, second));
    expect_all_once(measure_all(*m, task, first), 20);
    const int before = trials_of(*m);
    expect_all_once(measure_all(*m, task, second), 20);
    EXPECT_GT(before, 0);
    EXPECT_EQ(trials_of(*m), 41);
    std::ifstream lines(measured);
    int count = 0;
    for (std::string line; std::getline(lines, line);) ++count;
    EXPECT_EQ(count, 41);  // none was measured a second time
    // One that is announced and never asked for holds up nobody, nor a race.
    EXPECT_TRUE(m->prefetch(task, all));
    expect_all_once(measure_all(*m, task, first), 20);
    for (const MeasureResult& r : m->race(task, candidates(task, 3), 5, TuneClock(20)))
      EXPECT_TRUE(r.ok()) << r.message;
    expect_all_once(measure_all(*m, task, all), 60);
    std::filesystem::remove(measured);
  }
}

// A device without work in the batch begins with what was announced of another task.
TEST(Fleet, AnIdleDeviceMeasuresWhatIsAnnouncedOfAnotherTask) {
  const TuneTask task = small_matmul();
  const TuneTask other = make_task(
      "other", {ops::matmul(placeholder({64, 40}, f32, "A"), placeholder({40, 56}, f32, "B"))},
      two_threads());
  const std::vector<Schedule> others = candidates(other, 12);
  for (const int compilers : {0, 2}) {
    const auto m =
        fleet(Json::object({{"devices", 2}, {"compilers", compilers}, {"trial_us", 2000}}));
    expect_all_once(measure_all(*m, task, candidates(task, 4)), 4);  // both devices are there
    EXPECT_TRUE(m->prefetch(other, others));
    for (int i = 0; i < 4; ++i) expect_all_once(measure_all(*m, task, candidates(task, 1)), 1);
    const int before = trials_of(*m);
    EXPECT_GT(before, 8);
    expect_all_once(measure_all(*m, other, others), 12);
    EXPECT_EQ(trials_of(*m), 8 + 12);
  }
}

// At the end of a search, what was measured ahead is reported, and nothing else is begun.
TEST(Fleet, WhatWasMeasuredAheadIsReportedAlsoWithoutTime) {
  const TuneTask task = small_matmul();
  const std::vector<Schedule> all = candidates(task, 24);
  const auto m = fleet(Json::object({{"devices", 2}, {"compilers", 2}, {"trial_us", 2000}}));
  measure_all(*m, task, candidates(task, 1));
  EXPECT_TRUE(m->prefetch(task, all));
  measure_all(*m, task, candidates(task, 4, /*seed=*/2));
  const Collected c = measure_all(*m, task, all, TuneClock(0));
  EXPECT_EQ(c.reports, std::vector<int>(24, 1));
  int known = 0;
  for (const MeasureResult& r : c.results) {
    known += r.ok();
    EXPECT_TRUE(r.ok() || r.error == MeasureError::Cancelled) << r.message;
  }
  EXPECT_GT(known, 0);
  expect_all_once(measure_all(*m, task, all), 24);
}

// Candidates are announced for the time that a compilation and a round take.
TEST(Fleet, ItLooksAheadAsFarAsItsCompilersNeed) {
  const TuneTask task = small_matmul();
  const auto one = fleet(Json::object({{"devices", 1}, {"compilers", 0}}));
  measure_all(*one, task, candidates(task, 20));
  EXPECT_EQ(one->look_ahead(), 0);  // it compiles for itself
  std::vector<int> ahead;
  for (const int compilers : {1, 60}) {
    const auto m =
        fleet(Json::object({{"devices", 1}, {"compilers", compilers}, {"trial_us", 50000}}));
    measure_all(*m, task, candidates(task, 20));
    ahead.push_back(m->look_ahead());
  }
  EXPECT_GE(ahead[0], 1);
  EXPECT_LE(ahead[0], 11);  // more are of no use to one compiler
  EXPECT_GE(ahead[1], 12);  // 1.5 s of 50 ms each, on a machine with much other work
}

TEST(Fleet, AFleetThatIsGoneEndsTheRunAndKeepsItsTrials) {
  const std::string once = scratch("fleet_gone"), away = scratch("fleet_gone_away");
  const auto m =
      fleet(Json::object(
                {{"devices", 2}, {"exits", 3}, {"once", once}, {"away", away}, {"refusals", 1000}}),
            4);
  TuneOptions options;
  options.measurer = m.get();
  options.max_trials = 400;
  options.warm_start = false;
  const TuneReport report = tune_tasks({small_matmul()}, options);
  EXPECT_EQ(report.ended, TuneEnd::Failed);
  EXPECT_NE(report.failure, "");
  EXPECT_GT(report.trials, 0);
  EXPECT_LT(report.trials, 400);
  EXPECT_GT(report.tasks.at(0).static_seconds, 0);
  for (const std::string& file : {once, away}) std::filesystem::remove(file);
}

TEST(Fleet, TheRestIsCancelledWhenTheTimeIsUp) {
  const TuneTask task = small_matmul();
  const auto m = fleet(Json::object({{"devices", 1}, {"trial_us", 20000}}));
  measure_all(*m, task, candidates(task, 1));  // it is there
  const Collected c = measure_all(*m, task, candidates(task, 200), TuneClock(0.3));
  EXPECT_EQ(c.reports, std::vector<int>(200, 1));
  EXPECT_EQ(c.results.back().error, MeasureError::Cancelled);
}

// The log is what a run leaves; another tuner goes on from it, through another bridge.
TEST(Fleet, ARunGoesOnFromItsLogAndMeasuresNothingTwice) {
  const std::string log = scratch("fleet_log"), measured = scratch("fleet_measured");
  const std::string once = scratch("fleet_tune_once");
  for (int run = 0; run < 2; ++run) {
    const auto m = fleet(Json::object(
        {{"devices", 3}, {"exits", 3 + run}, {"once", once}, {"double", true}, {"log", measured}}));
    TuneOptions options;
    options.measurer = m.get();
    options.log = log;
    options.max_trials = 40;
    options.warm_start = false;
    const TuneReport report = tune_tasks({small_matmul()}, options);
    EXPECT_EQ(report.trials, 40);
    EXPECT_EQ(report.nodes.size(), 3u);
  }
  std::set<std::string> configs;
  int trials = 0;
  for (const Record& r : read_records(log).records) {
    if (r.verdict != Verdict::Screened) continue;
    ++trials;
    EXPECT_TRUE(configs.insert(r.steps.dump()).second) << "recorded twice";
    EXPECT_TRUE(r.machine.starts_with("machine of n")) << r.machine;
  }
  EXPECT_EQ(trials, 80);
  for (const std::string& file : {log, measured, once}) std::filesystem::remove(file);
}

TEST(Fleet, TheProgramIsFoundOrMissedClearly) {
  ::setenv("HEDDLE_FLEET", "/no/such/fleet", 1);
  try {
    fleet_command();
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.message.find("HEDDLE_FLEET names '/no/such/fleet'"), std::string::npos);
  }
  ::unsetenv("HEDDLE_FLEET");
  EXPECT_EQ(fleet_resource(Target::parse("cuda -gpu=h200")), "gpu:h200");
  EXPECT_EQ(fleet_resource(Target::parse("llvm -mcpu=znver3")), "cpu:znver3");
}

}  // namespace
}  // namespace heddle
