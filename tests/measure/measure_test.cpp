// The measurements of healthy candidates.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>

#include "heddle/driver/build.h"
#include "heddle/dsl/tensor.h"
#include "heddle/ops/conv.h"
#include "heddle/support/error.h"
#include "measure/cpu/lanes.h"
#include "measure/cpu/measurer.h"
#include "measure/faults.h"
#include "measure/measure_testing.h"
#include "measure/process/measured_tasks.h"
#include "measure/task/reference.h"
#include "measure/task/timing.h"
#include "runtime/machine/cpu_topology.h"

namespace heddle {
namespace {

using namespace testing;

using measuring::RunLanes;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

WorkerOptions quick_options() {
  WorkerOptions options;
  options.protocol = quick_protocol();
  options.workers = 2;
  return options;
}

double spent(const Measurer& m, const std::string& name) {
  for (const auto& [key, seconds] : m.time_spent()) {
    if (key == name) return seconds;
  }
  return 0;
}

TEST(Measure, EveryCandidateIsReportedOnceWithItsTimes) {
  const TuneTask task = small_matmul();
  const std::vector<Schedule> schedules = candidates(task, 12);
  {
    const auto measurer = make_worker_measurer(quick_options());
    const Collected got = measure_all(*measurer, task, schedules);
    for (size_t i = 0; i < schedules.size(); ++i) {
      EXPECT_EQ(got.reports[i], 1) << i;
      EXPECT_TRUE(got.results[i].ok()) << i << ": " << got.results[i].message;
      EXPECT_EQ(got.results[i].message, "");
      EXPECT_GE(got.results[i].seconds.size(), 2u);
      EXPECT_LE(got.results[i].seconds.size(), 3u);
      EXPECT_GT(got.results[i].median(), 0);
      EXPECT_GT(got.results[i].compile_seconds, 0);
      EXPECT_FALSE(got.results[i].cut_off);
    }
    for (const char* part : {"compile", "run", "check", "reference", "start", "inputs"}) {
      EXPECT_GT(spent(*measurer, part), 0) << part;
    }
    EXPECT_TRUE(has_children());  // they wait for more
  }
  EXPECT_FALSE(has_children());
}

TEST(Measure, WorkersAreReusedAndNoFileIsLeaked) {
  const Tensor a = placeholder({64, 32}, f32, "A");  // quick to compile
  const TuneTask task = make_task(
      "scale",
      {compute({64, 32}, [&](Axis i, Axis j) { return a(i, j) * 2.f; }, "C")}, two_threads());
  const std::vector<Schedule> schedules = candidates(task, 50);
  const int before = open_files();
  {
    const auto measurer = make_worker_measurer(quick_options());
    measure_all(*measurer, task, {schedules[0]});
    measure_all(*measurer, task, {schedules[0], schedules[1]});
    const int with_workers = open_files();
    const std::vector<pid_t> workers = children();
    EXPECT_FALSE(workers.empty());
    for (int round = 0; round < 4; ++round) {
      for (const MeasureResult& r : measure_all(*measurer, task, schedules).results) {
        EXPECT_TRUE(r.ok()) << r.message;
      }
    }
    EXPECT_EQ(open_files(), with_workers);
    EXPECT_EQ(children(), workers);  // not a process a candidate
  }
  EXPECT_EQ(open_files(), before);
}

TEST(Measure, ANewTaskIsKnownToTheSameMeasurer) {
  const auto measurer = make_worker_measurer(quick_options());
  const TuneTask first = small_matmul();
  ops::Conv padded;
  padded.padding = {1};
  Tensor x = placeholder({1, 8, 9, 11}, f32, "x");
  Tensor w = constant_placeholder({12, 8, 3, 3}, f32, "w");
  const TuneTask second = make_task("conv", {ops::conv2d(x, w, padded)}, two_threads());
  for (const TuneTask* task : {&first, &second, &first, &second}) {
    for (const MeasureResult& r : measure_all(*measurer, *task, candidates(*task, 3)).results) {
      EXPECT_TRUE(r.ok()) << r.message;
    }
  }
}

// `prepare` packs constant weights: the measurer must call it, and its time is no part of a call.
TEST(Measure, PackingOfWeightsIsNoPartOfACall) {
  const auto measurer = make_worker_measurer(quick_options());
  const TuneTask task = make_task(
      "dense", {ops::matmul(placeholder({8, 64}, f32, "x"), constant_placeholder({64, 64}, f32))},
      two_threads());
  for (const MeasureResult& r : measure_all(*measurer, task, candidates(task, 8)).results) {
    EXPECT_TRUE(r.ok()) << r.message;
  }
  EXPECT_GT(spent(*measurer, "prepare"), 0);
}

/// Times the static choice beside every group. A measurer leaves it out of small groups, and how
/// large they are depends on how fast candidates are compiled.
measuring::WorkerMeasurer with_base(const WorkerOptions& options) {
  return measuring::WorkerMeasurer(options, /*always_base=*/true);
}

TEST(Measure, TheStaticChoiceIsTimedBesideTheCandidates) {
  const TuneTask task = small_matmul();
  auto always = with_base(quick_options());
  for (const MeasureResult& r : measure_all(always, task, candidates(task, 12)).results) {
    EXPECT_TRUE(r.ok()) << r.message;
    EXPECT_GT(r.base_seconds, 0);
  }
  const auto measurer = make_worker_measurer(quick_options());
  // Alone it is its own.
  EXPECT_EQ(measure_all(*measurer, task, {candidates(task, 1)[0]}).results[0].base_seconds, 0);
}

// The first group runs alone, so that the time of the static choice alone is known.
TEST(Measure, SeveralAreTimedAtOnceOnCoresOfTheirOwn) {
  WorkerOptions options = quick_options();
  options.runs_at_once = 2;
  auto measurer = with_base(options);
  const TuneTask task = one_thread_matmul();
  EXPECT_TRUE(measurer.remarks().empty());
  for (int round = 0; round < 2; ++round) {
    const Collected got = measure_all(measurer, task, candidates(task, 12));
    for (size_t i = 0; i < got.results.size(); ++i) {
      EXPECT_EQ(got.reports[i], 1) << i;
      EXPECT_TRUE(got.results[i].ok()) << got.results[i].message;
      EXPECT_GT(got.results[i].base_seconds, 0);
    }
  }
  if (internal::cpu_topology().cores < 2) GTEST_SKIP() << "one core";
  ASSERT_EQ(measurer.remarks().size(), 1u);
  EXPECT_NE(measurer.remarks()[0].find("2 timed at once"), std::string::npos)
      << measurer.remarks()[0];
}

TEST(RunLanes, OneUntilTheStaticChoiceIsKnownAlone) {
  RunLanes lanes({0, 2, 4, 6, 8, 10, 12, 14}, /*threads=*/1, /*asked=*/0);
  EXPECT_EQ(lanes.count(), 1u);
  EXPECT_TRUE(lanes.cpus_of(0).empty());
  EXPECT_TRUE(lanes.learn(std::vector<double>{1.0}));
  EXPECT_EQ(lanes.count(), 4u) << "half of the cores stay idle";
  EXPECT_EQ(lanes.cpus_of(3)[0], 6);
  EXPECT_EQ(lanes.contention(), 0);
}

TEST(RunLanes, FewerWhereTheyDisturbEachOther) {
  RunLanes lanes({0, 1, 2, 3, 4, 5, 6, 7}, /*threads=*/2, /*asked=*/0);
  lanes.learn(std::vector<double>{1.0});
  EXPECT_EQ(lanes.count(), 2u);
  EXPECT_FALSE(lanes.learn(std::vector<double>{1.05, 1.02}));
  EXPECT_EQ(lanes.count(), 2u);
  EXPECT_EQ(std::vector<int>(lanes.cpus_of(1).begin(), lanes.cpus_of(1).end()),
            (std::vector<int>{2, 3}));
  EXPECT_TRUE(lanes.learn(std::vector<double>{1.3, 1.2}));
  EXPECT_EQ(lanes.count(), 1u);
  EXPECT_DOUBLE_EQ(lanes.contention(), 1.3);
}

TEST(RunLanes, WhatIsAskedForStands) {
  RunLanes lanes({0, 1, 2, 3}, /*threads=*/1, /*asked=*/4);
  lanes.learn(std::vector<double>{1.0});
  EXPECT_FALSE(lanes.learn(std::vector<double>{2.0, 2.0, 2.0, 2.0}));
  EXPECT_EQ(lanes.count(), 4u);
  RunLanes small({0, 1}, /*threads=*/1, /*asked=*/0);
  small.learn(std::vector<double>{1.0});
  EXPECT_EQ(small.count(), 1u) << "two cores: one at a time";
}

TEST(Measure, AStepThatDoesNotApplyIsInvalid) {
  const TuneTask task = small_matmul();
  // A schedule of another declaration: its steps name axes that this one does not have.
  const TuneTask other = make_task(
      "other", {ops::conv2d(placeholder({1, 8, 9, 11}), constant_placeholder({12, 8, 3, 3}))},
      two_threads());
  const auto measurer = make_worker_measurer(quick_options());
  const Collected got = measure_all(
      *measurer, task, {candidates(task, 1)[0], candidates(other, 1)[0], candidates(task, 2)[1]});
  EXPECT_TRUE(got.results[0].ok());
  EXPECT_EQ(got.results[1].error, MeasureError::Invalid);
  EXPECT_NE(got.results[1].message, "");
  EXPECT_TRUE(got.results[2].ok());
}

// 40 products of 2 and 2; anything else is an error in the worker.
const TestWorker kExpectsTwos("expects_twos", [](const std::string&) {
  measuring::WorkerHooks hooks;
  hooks.fault = [](const std::string& phase, size_t, std::span<const NDArray> args) {
    if (phase == "output" && args[2].at<float>({47, 55}) != 160) throw std::runtime_error("inputs");
  };
  return hooks;
});

TEST(Measure, InputsMayBeTheCallers) {
  TuneTask task = small_matmul();
  task.make_input = [](size_t arg) {
    return NDArray::full(arg == 0 ? Extents{48, 40} : Extents{40, 56}, f32, 2);
  };
  WorkerOptions options = quick_options();
  options.command = test_worker("expects_twos");
  const auto measurer = make_worker_measurer(options);
  for (const MeasureResult& r : measure_all(*measurer, task, candidates(task, 3)).results) {
    EXPECT_TRUE(r.ok()) << r.message;
  }
  task.name = "with wrong inputs";
  task.make_input = [](size_t) { return NDArray::full({48, 40}, f64, 2); };
  try {
    measure_all(*measurer, task, candidates(task, 1));
    FAIL() << "an input of the wrong type was taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("make_input"), std::string::npos) << e.what();
  }
}

TEST(Measure, AnExpiredClockCancels) {
  const TuneTask task = small_matmul();
  const std::vector<Schedule> schedules = candidates(task, 6);
  WorkerOptions options = quick_options();
  options.command = faulty_worker({{"run", 3, Fault::Hang}});
  const auto measurer = make_worker_measurer(options);
  {
    const TuneClock clock(0);
    for (const MeasureResult& r : measure_all(*measurer, task, schedules, clock).results) {
      EXPECT_EQ(r.error, MeasureError::Cancelled);
    }
    EXPECT_FALSE(has_children());  // nothing was started for it
  }
  {
    const TuneClock clock(1.5);
    const Collected got = measure_all(*measurer, task, schedules, clock);
    EXPECT_GE(clock.elapsed_s(), 1.5);
    EXPECT_EQ(got.results[3].error, MeasureError::Cancelled);
    for (int n : got.reports) EXPECT_EQ(n, 1);
  }
  {
    TuneClock clock;  // without end, until someone cancels from elsewhere
    std::thread user([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      clock.cancel();
    });
    const Collected got = measure_all(*measurer, task, schedules, clock);
    user.join();
    EXPECT_EQ(got.results[3].error, MeasureError::Cancelled);
  }
  // An interrupted run does not affect the next one.
  EXPECT_TRUE(measure_all(*measurer, task, {schedules[0]}).results[0].ok());
}

TEST(Measure, WhatIsThrownWhileReportingArrives) {
  const TuneTask task = small_matmul();
  const auto measurer = make_worker_measurer(quick_options());
  EXPECT_THROW(measurer->measure(task, candidates(task, 4), kInfinity, TuneClock(),
                                 [](size_t, const MeasureResult&) { throw std::range_error("x"); }),
               std::range_error);
  EXPECT_TRUE(measure_all(*measurer, task, candidates(task, 2)).results[1].ok());
}

TEST(Measure, ColdCachesAreAProtocol) {
  WorkerOptions options = quick_options();
  options.protocol.cold = true;
  const TuneTask task = small_matmul();
  const auto measurer = make_worker_measurer(options);
  EXPECT_EQ(measurer->protocol().substr(0, 4), "cold");
  for (const MeasureResult& r : measure_all(*measurer, task, candidates(task, 2)).results) {
    EXPECT_TRUE(r.ok()) << r.message;
  }
}

TEST(Measure, ACandidateSlowerThanTheBestIsCutOff) {
  WorkerOptions options = quick_options();
  options.protocol.cutoff = 1.5;
  options.protocol.max_repeats = 20;
  const TuneTask task = small_matmul();
  const auto measurer = make_worker_measurer(options);
  const Collected got = measure_all(*measurer, task, candidates(task, 2), TuneClock(), 1e-12);
  for (const MeasureResult& r : got.results) {
    EXPECT_TRUE(r.ok());
    EXPECT_TRUE(r.cut_off);
    EXPECT_LE(r.seconds.size(), 2u);  // one, where the machine is so busy that it looks hopeless
  }
}

// A kernel that takes 0.2 s at the least, against a best of a millisecond.
TEST(Measure, AHopelessFirstCallIsStopped) {
  const Tensor a = placeholder({1 << 20}, f32, "A");
  const Axis k = reduce_axis(400);
  const TuneTask task =
      make_task("slow",
                {compute(
                    {1 << 20}, [&](Axis i) { return sum(sin(a(i) + cast(f32, k)), k); }, "C")},
                two_threads());
  const std::string journal = ::testing::TempDir() + "measure_" + std::to_string(::getpid());
  WorkerOptions options = quick_options();
  options.protocol.cutoff = 1.5;
  options.protocol.check_output = false;  // its reference would take as long
  options.workers = 1;
  options.command = faulty_worker({}, journal);
  const auto measurer = make_worker_measurer(options);
  for (const MeasureResult& r :
       measure_all(*measurer, task, candidates(task, 3), TuneClock(), 1e-3).results) {
    EXPECT_TRUE(r.ok()) << r.message;
    EXPECT_TRUE(r.cut_off);
    ASSERT_EQ(r.seconds.size(), 1u);
    EXPECT_GE(r.seconds[0], 0.003);
  }
  int compiled = 0;
  for (const JournalLine& line : read_journal(journal)) compiled += line.phase == "compile";
  std::remove(journal.c_str());
  EXPECT_EQ(compiled, 3);  // the kernel of one is not lost with the runner of another
  const TuneTask other = small_matmul();
  EXPECT_TRUE(measure_all(*measurer, other, candidates(other, 1)).results[0].ok());
}

const TestWorker kOneOff("one_off", [](const std::string&) {
  measuring::WorkerHooks hooks;
  hooks.fault = [](const std::string& phase, size_t candidate, std::span<const NDArray> args) {
    if (phase == "output" && candidate == 2) args[2].at<float>({17, 5}) += 1;
  };
  return hooks;
});

TEST(Measure, RaceTimesAllInTurnsAndChecksThem) {
  const TuneTask task = small_matmul();
  WorkerOptions options = quick_options();
  options.command = test_worker("one_off");
  const auto measurer = make_worker_measurer(options);
  const std::vector<MeasureResult> got =
      measurer->race(task, candidates(task, 4), 0.1, TuneClock());
  ASSERT_EQ(got.size(), 4u);
  EXPECT_EQ(got[2].error, MeasureError::WrongAnswer);
  EXPECT_NE(got[2].message.find("1 of 2688 elements are wrong, first at [17, 5]"),
            std::string::npos)
      << got[2].message;
  for (size_t i : {0, 1, 3}) {
    EXPECT_TRUE(got[i].ok()) << got[i].message;
    EXPECT_EQ(got[i].seconds.size(), got[0].seconds.size());  // as many turns each
    EXPECT_GT(got[i].compile_seconds, 0);
  }
  const TuneClock expired(0);
  EXPECT_EQ(measurer->race(task, candidates(task, 1), 1, expired)[0].error,
            MeasureError::Cancelled);
  EXPECT_TRUE(measurer->race(task, {}, 1, TuneClock()).empty());
}

// ---- parts -------------------------------------------------------------------------------------

TEST(Measure, ResultsAndClocks) {
  MeasureResult r;
  EXPECT_FALSE(r.ok());
  EXPECT_EQ(r.median(), kInfinity);
  r.seconds = {3, 1, 2, 10};
  EXPECT_EQ(r.median(), 2.5);
  r.error = MeasureError::Crash;
  EXPECT_EQ(r.median(), kInfinity);
  TuneClock clock(1000);
  EXPECT_GT(clock.left_s(), 900);
  clock.cancel();
  EXPECT_TRUE(clock.expired());
  EXPECT_EQ(clock.left_s(), 0);
  EXPECT_EQ(TuneClock().left_s(), kInfinity);
  EXPECT_EQ(to_string(MeasureProtocol{}), "warm repeats=2..12 ms=4..50 ci=0.02 cutoff=1.5");
}

TEST(Measure, TasksTakeTheirArguments) {
  Tensor a = placeholder({4, 5}, f32, "A"), b = placeholder({5, 6}, f32, "B");
  Tensor c = ops::matmul(a, b);
  const TuneTask task = make_task("m", {c}, two_threads());
  ASSERT_EQ(task.args.size(), 3u);
  EXPECT_TRUE(task.args[0].same_as(a) && task.args[1].same_as(b) && task.args[2].same_as(c));
  EXPECT_TRUE(make_task("m", {c}, two_threads(), {c, a, b}).args[0].same_as(c));
  Target one = two_threads();
  one.cores = 1;
  EXPECT_NE(task.hash(), make_task("m", {c}, one).hash());
  EXPECT_EQ(task.hash(), make_task("another name", {c}, two_threads()).hash());
}

TEST(MeasureTiming, IntervalOfTheMedian) {
  using measuring::median_interval;
  EXPECT_EQ(median_interval({5}).median, 5);
  EXPECT_EQ(median_interval({5}).relative_width, 0);
  EXPECT_NEAR(median_interval({1, 3}).relative_width, 1, 1e-12);
  // Twelve: the interval is from the second to the eleventh; an outlier is outside of it.
  EXPECT_NEAR(median_interval({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 900}).median, 6.5, 1e-12);
  EXPECT_NEAR(median_interval({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 900}).relative_width, 9 / 6.5,
              1e-12);
}

/// Times calls by a clock that only they turn: call number n (from 1) takes seconds_of(n).
struct TimedCalls {
  std::function<double(int)> seconds_of;
  int calls = 0, flushes = 0;
  double now = 0;
  measuring::Timing time(const MeasureProtocol& p, double best, bool cold = false) {
    const std::function<void()> flush = [&] {
      ++flushes;
      now += 1;
    };
    return measuring::time_calls(
        p, best, [&] { now += seconds_of(++calls); }, cold ? flush : nullptr, [&] { return now; });
  }
};

TEST(MeasureTiming, ShortCallsAreBatched) {
  EXPECT_EQ(measuring::calls_per_sample(1e-3, 20e-6), 1);
  EXPECT_EQ(measuring::calls_per_sample(1e-6, 19.5e-6), 20);
  EXPECT_LE(measuring::calls_per_sample(0, 20e-6), 1000000);
  const auto a_microsecond = [](int) { return 1e-6; };
  TimedCalls warm{a_microsecond};
  const measuring::Timing t = warm.time(quick_protocol(), kInfinity);
  EXPECT_EQ(t.seconds.size(), 2u);  // two that agree will do
  for (const double s : t.seconds) EXPECT_NEAR(s, 1e-6, 1e-12);
  EXPECT_GE(warm.calls, 2 * 300);  // samples of 300 us
  TimedCalls cold{a_microsecond};
  const measuring::Timing one_by_one = cold.time(quick_protocol(), kInfinity, true);
  EXPECT_EQ(cold.flushes, static_cast<int>(one_by_one.seconds.size()));
  EXPECT_EQ(cold.calls, cold.flushes + 1);  // a warm-up; batches would warm the cache again
  for (const double s : one_by_one.seconds) EXPECT_NEAR(s, 1e-6, 1e-12);  // without the flush
}

TEST(MeasureTiming, RepeatsUntilTheTimeIsUsed) {
  const auto slower_each_time = [](int n) { return 1e-4 + 1e-5 * n; };
  MeasureProtocol p;
  p.relative_ci = 0;  // never narrow enough
  p.max_repeats = 7;
  p.max_seconds = 1e9;
  EXPECT_EQ(TimedCalls{slower_each_time}.time(p, kInfinity).seconds.size(), 7u);
  p.max_seconds = 0;
  p.min_repeats = 3;
  EXPECT_EQ(TimedCalls{slower_each_time}.time(p, kInfinity).seconds.size(), 3u);
}

TEST(MeasureTiming, WhatIsFarSlowerThanTheBestIsCutOff) {
  const MeasureProtocol p;
  // Two samples; one, of the second call, where the first was hopeless; the first where even a
  // thread on its way is no excuse.
  for (const auto& [call_seconds, calls] :
       {std::pair{1e-3, 3}, std::pair{5e-3, 2}, std::pair{20e-3, 1}}) {
    TimedCalls slow{[s = call_seconds](int) { return s; }};
    const measuring::Timing t = slow.time(p, 1e-9);
    EXPECT_TRUE(t.cut_off) << call_seconds;
    EXPECT_EQ(slow.calls, calls) << call_seconds;
  }
  TimedCalls as_good{[](int) { return 1e-3; }};
  EXPECT_FALSE(as_good.time(p, 1e-3).cut_off);
}

TEST(MeasureTiming, HalfTheSamplesWillDoForWhatIsNotTheBest) {
  MeasureProtocol p;
  p.relative_ci = 0;
  p.max_seconds = 1e9;
  p.max_repeats = 12;
  // Never two alike, so that the interval of the median does not close.
  const auto call = [](int n) { return 2e-3 + 1e-6 * n; };
  EXPECT_EQ(TimedCalls{call}.time(p, 1.85e-3).seconds.size(), 6u);
  EXPECT_EQ(TimedCalls{call}.time(p, 1).seconds.size(), 12u);
}

// Pages, caches and a thread that starts: the first takes some milliseconds longer.
TEST(MeasureTiming, TheFirstCallsAloneProveNothing) {
  TimedCalls late{[](int n) { return n == 1 ? 5e-3 : 1e-4; }};
  const measuring::Timing t = late.time({}, 0.4e-3);
  EXPECT_FALSE(t.cut_off);
  EXPECT_GE(t.seconds.size(), 2u);
}

TEST(MeasureReference, TheVectorScheduleComputesTheSame) {
  ops::Conv padded;
  padded.padding = {1};
  const Tensor v = placeholder({70}, f32, "v");
  const Axis k = reduce_axis(70);
  for (const Tensor& t :
       {ops::matmul(placeholder({7, 30}), placeholder({30, 130})),
        ops::conv2d(placeholder({1, 5, 9, 70}), constant_placeholder({3, 5, 3, 3}), padded),
        compute(
            {3}, [&](Axis i) { return max(v(k) + cast(f32, i), k); }, "m"),
        compute({4, 5}, [&](Axis i, Axis j) { return sum(v(k) * cast(f32, i + j), k); }, "s")}) {
    const ComputeDag dag({t});
    std::vector<Tensor> args = dag.placeholders();
    std::vector<NDArray> arrays;
    for (const Tensor& a : args) {
      arrays.push_back(NDArray::random(a.extents(), a.dtype(), arrays.size()));
    }
    args.push_back(t);
    arrays.push_back(NDArray::empty(t.extents(), t.dtype()));
    build(naive_schedule({t}), args).call(arrays);
    measuring::Reference reference(dag);
    reference.store(std::vector{arrays.back()});
    measuring::poison(arrays.back());
    build(measuring::vector_schedule(dag), args).call(arrays);
    EXPECT_EQ(reference.difference(std::vector{arrays.back()}, true, 0), "") << t.name();
  }
}

TEST(MeasureReference, FindsWhatIsWrong) {
  const Tensor a = placeholder({100, 100}, f32, "A");
  const ComputeDag dag({compute({100, 100}, [&](Axis i, Axis j) { return a(i, j) + 1.f; }, "C")});
  measuring::Reference reference(dag);
  EXPECT_FALSE(reference.ready());
  const NDArray right = NDArray::random({100, 100}, f32, 1);
  reference.store(std::vector{right});
  EXPECT_TRUE(reference.ready());
  EXPECT_EQ(reference.difference(std::vector{right.copy()}, true, 1), "");
  NDArray wrong = right.copy();
  wrong.at<float>({3, 4}) += 0.5f;
  EXPECT_NE(reference.difference(std::vector{wrong}, true, 1).find("'C'"), std::string::npos);
  // A sample of points always has the first and the last.
  wrong = right.copy();
  wrong.at<float>({99, 99}) += 0.5f;
  EXPECT_NE(reference.difference(std::vector{wrong}, false, 1).find("[99, 99]"), std::string::npos);
  // The elements alone, as they come from a device.
  const measuring::Sample sample = reference.sample(1);
  EXPECT_EQ(sample.at(0).size(), 1024);
  EXPECT_EQ(reference.difference(std::vector{measuring::gather(right, sample[0])}, sample), "");
  const NDArray taken = measuring::gather(wrong, sample[0]);
  EXPECT_EQ(taken.size(), 1024);
  EXPECT_EQ(reference.difference(std::vector{taken}, sample),
            reference.difference(std::vector{wrong}, false, 1));
  // What is not written is found, whatever its type.
  measuring::poison(wrong);
  EXPECT_NE(reference.difference(std::vector{wrong}, false, 1), "");
  EXPECT_TRUE(std::isnan(wrong.get(0)));
  NDArray integers = NDArray::zeros({4}, i32);
  measuring::poison(integers);
  EXPECT_NE(integers.get(3), 0);
}

TEST(MeasuredTasks, ShareInputsOfEqualShapeUnlessTheyAreSomebodysOwn) {
  const auto product = [](const std::string& name, int64_t n) {
    return make_task(name,
                     {ops::matmul(placeholder({48, 40}, f32, "A"), placeholder({40, n}, f32, "B"))},
                     two_threads());
  };
  measuring::MeasuredTasks tasks;
  TuneTask own = product("own", 56);
  own.make_input = [&](size_t i) { return NDArray::zeros(own.args[i].extents(), f32); };
  const int mine = tasks.add(own), first = tasks.add(product("first", 56)),
            wider = tasks.add(product("wider", 64));
  const auto data = [&](int task, size_t i) { return tasks[task].inputs[i].data(); };
  EXPECT_NE(data(first, 0), data(mine, 0));
  EXPECT_NE(tasks[first].inputs[0].get(0), 0);
  EXPECT_EQ(data(wider, 0), data(first, 0));
  EXPECT_NE(data(wider, 1), data(first, 1));
  EXPECT_EQ(tasks[wider].inputs[1].shape(), (Extents{40, 64}));
}

TEST(TuneClock, APartEndsWithTheWhole) {
  TuneClock whole(3600), part(1800, &whole), longer(7200, &whole);
  EXPECT_LE(part.left_s(), 1800);
  EXPECT_LE(longer.left_s(), 3600);
  EXPECT_GT(longer.left_s(), 3500);
  part.cancel();
  EXPECT_TRUE(part.expired());
  EXPECT_FALSE(whole.expired());
  whole.cancel();
  EXPECT_TRUE(longer.cancelled());
  EXPECT_EQ(longer.left_s(), 0);
}

}  // namespace
}  // namespace heddle
