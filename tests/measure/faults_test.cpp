// Candidates that crash, hang, exhaust memory, or give wrong results: each is recorded with its
// kind, and none of them affects another.
#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <thread>

#include "heddle/support/error.h"
#include "measure/faults.h"
#include "measure/measure_testing.h"
#include "measure/messages/requests.h"
#include "measure/process/measured_tasks.h"
#include "measure/process/pool.h"
#include "measure/process/program.h"
#include "sanitized.h"

namespace heddle {
namespace {

using namespace testing;

MeasureError expected(Fault fault) {
  switch (fault) {
    case Fault::None: return MeasureError::None;
    case Fault::Segv:
    case Fault::Abort:
    case Fault::Exit:
    case Fault::Throw: return MeasureError::Crash;
    case Fault::Hang: return MeasureError::Timeout;
    case Fault::Eat:
    case Fault::EatArrays: return MeasureError::OutOfMemory;
    case Fault::Wrong:
    case Fault::Unwritten: return MeasureError::WrongAnswer;
  }
  return MeasureError::None;
}

WorkerOptions options_with(const std::vector<Plan>& plans, const std::string& journal = "") {
  WorkerOptions options;
  options.protocol = quick_protocol();
  options.protocol.timeout_seconds = 1;
  options.protocol.memory_limit_bytes = 512 << 20;
  options.workers = 2;
  options.command = faulty_worker(plans, journal);
  return options;
}

/// A file for a journal, removed at the end.
struct Journal {
  std::string file = ::testing::TempDir() + "heddle_journal_" + std::to_string(::getpid());
  Journal() { std::remove(file.c_str()); }
  ~Journal() { std::remove(file.c_str()); }
};

// Candidate 1 of four has the fault.
std::vector<MeasureResult> with_fault(const std::string& phase, Fault fault) {
  const TuneTask task = small_matmul();
  const auto measurer = make_worker_measurer(options_with({{phase, 1, fault}}));
  const Collected got = measure_all(*measurer, task, candidates(task, 4));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(got.reports[i], 1) << phase << " " << i;
    if (i == 1) continue;
    EXPECT_TRUE(got.results[i].ok()) << phase << " " << i << got.results[i].message;
  }
  EXPECT_FALSE(got.results[1].ok());
  EXPECT_NE(got.results[1].message, "");
  return got.results;
}

TEST(Faults, ACrashIsTheCandidatesAlone) {
  for (const char* phase : {"compile", "run", "output"}) {
    const MeasureResult abort = with_fault(phase, Fault::Abort)[1];
    EXPECT_EQ(abort.error, MeasureError::Crash);
    EXPECT_NE(abort.message.find("SIGABRT while "), std::string::npos) << abort.message;
    EXPECT_NE(abort.message.find("something is very wrong"), std::string::npos) << abort.message;
    const MeasureResult exited = with_fault(phase, Fault::Exit)[1];
    EXPECT_EQ(exited.error, MeasureError::Crash);
    EXPECT_NE(exited.message.find("exited with status 3"), std::string::npos) << exited.message;
    if (kSanitized) continue;
    const MeasureResult crash = with_fault(phase, Fault::Segv)[1];
    EXPECT_EQ(crash.error, MeasureError::Crash);
    EXPECT_NE(crash.message.find("SIGSEGV while "), std::string::npos) << crash.message;
  }
  EXPECT_FALSE(has_children());
}

// A candidate that dies or hangs beside others costs none of them.
TEST(Faults, AreTheCandidatesAloneWhereSeveralRunAtOnce) {
  WorkerOptions options = options_with(
      {{"run", 9, Fault::Abort}, {"run", 14, Fault::Hang}, {"output", 20, Fault::Wrong}});
  options.runs_at_once = 2;
  const auto measurer = make_worker_measurer(options);
  const TuneTask task = one_thread_matmul();
  measure_all(*measurer, task, candidates(task, 6));  // the next ones run side by side
  const Collected got = measure_all(*measurer, task, candidates(task, 24));
  for (size_t i = 0; i < got.results.size(); ++i) {
    EXPECT_EQ(got.reports[i], 1) << i;
    const MeasureError error = i == 9    ? MeasureError::Crash
                               : i == 14 ? MeasureError::Timeout
                               : i == 20 ? MeasureError::WrongAnswer
                                         : MeasureError::None;
    EXPECT_EQ(got.results[i].error, error) << i << ": " << got.results[i].message;
  }
}

TEST(Faults, AnExceptionIsNoDeath) {
  const MeasureResult compile = with_fault("compile", Fault::Throw)[1];
  EXPECT_EQ(compile.error, MeasureError::Compile);
  EXPECT_EQ(compile.message, "thrown in a worker");
  EXPECT_EQ(with_fault("run", Fault::Throw)[1].error, MeasureError::Crash);
}

TEST(Faults, AHangIsKilled) {
  for (const char* phase : {"compile", "run"}) {
    const MeasureResult r = with_fault(phase, Fault::Hang)[1];
    EXPECT_EQ(r.error, MeasureError::Timeout);
    EXPECT_NE(r.message.find("longer than allowed"), std::string::npos) << r.message;
  }
  EXPECT_FALSE(has_children());
}

TEST(Faults, MemoryIsLimited) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer has an allocator of its own";
  for (const char* phase : {"compile", "run"}) {
    const MeasureResult r = with_fault(phase, Fault::Eat)[1];
    EXPECT_EQ(r.error, MeasureError::OutOfMemory);
    EXPECT_NE(r.message.find("out of memory"), std::string::npos) << r.message;
  }
  EXPECT_EQ(with_fault("run", Fault::EatArrays)[1].error, MeasureError::OutOfMemory);
}

TEST(Faults, WrongAnswersAreFound) {
  EXPECT_EQ(with_fault("output", Fault::Wrong)[1].error, MeasureError::WrongAnswer);
  const MeasureResult r = with_fault("output", Fault::Unwritten)[1];
  EXPECT_EQ(r.error, MeasureError::WrongAnswer);
  EXPECT_NE(r.message.find("first at [0, 0]"), std::string::npos) << r.message;
}

TEST(Faults, AMixtureOfEverything) {
  const TuneTask task = small_matmul();
  const std::vector<Schedule> schedules = candidates(task, 40);
  Rng rng(7);
  std::vector<Plan> plans(schedules.size());
  int hangs = 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    Plan& plan = plans[i];
    plan.candidate = i;
    if (rng.chance(0.5)) continue;
    plan.fault = rng.choose(
        std::vector<Fault>{Fault::Abort, Fault::Exit, Fault::Wrong, Fault::Unwritten, Fault::Hang});
    if (!kSanitized && rng.chance(0.4)) plan.fault = rng.chance(0.5) ? Fault::Segv : Fault::Eat;
    if (plan.fault == Fault::Hang && ++hangs > 1) plan.fault = Fault::Exit;
    plan.phase = rng.chance(0.5) ? "compile" : "run";
    if (expected(plan.fault) == MeasureError::WrongAnswer) plan.phase = "output";
  }
  const int before = open_files();
  {
    const auto measurer = make_worker_measurer(options_with(plans));
    const Collected got = measure_all(*measurer, task, schedules);
    for (size_t i = 0; i < schedules.size(); ++i) {
      EXPECT_EQ(got.reports[i], 1) << i;
      EXPECT_EQ(got.results[i].error, expected(plans[i].fault))
          << i << ": " << got.results[i].message;
    }
  }
  EXPECT_FALSE(has_children());
  EXPECT_EQ(open_files(), before);
}

TEST(Faults, ARaceGoesOnWithoutTheDead) {
  const TuneTask task = small_matmul();
  const Journal journal;
  const auto measurer = make_worker_measurer(options_with(
      {{"run", 1, Fault::Abort}, {"compile", 3, Fault::Hang}, {"compile", 4, Fault::Throw}},
      journal.file));
  const auto got = measurer->race(task, candidates(task, 5), 0.05, TuneClock());
  EXPECT_TRUE(got[0].ok()) << got[0].message;
  EXPECT_EQ(got[1].error, MeasureError::Crash);
  EXPECT_TRUE(got[2].ok()) << got[2].message;
  EXPECT_EQ(got[3].error, MeasureError::Timeout);
  EXPECT_EQ(got[4].error, MeasureError::Compile);
  int calls = 0;
  for (const JournalLine& line : read_journal(journal.file))
    calls += line.phase == "run" && line.candidate == 0;
  EXPECT_EQ(calls, 2);  // entered again after the crash of its neighbour
}

// A candidate with wrong results may have written anywhere, so the others race in a new runner.
TEST(Faults, AWrongAnswerInARaceTakesItsRunnerWithIt) {
  const TuneTask task = small_matmul();
  const Journal journal;
  const auto measurer =
      make_worker_measurer(options_with({{"output", 1, Fault::Wrong}}, journal.file));
  const auto got = measurer->race(task, candidates(task, 3), 0.05, TuneClock());
  EXPECT_TRUE(got[0].ok()) << got[0].message;
  EXPECT_EQ(got[1].error, MeasureError::WrongAnswer);
  EXPECT_TRUE(got[2].ok()) << got[2].message;
  std::array<int, 3> ran_in{};
  for (const JournalLine& line : read_journal(journal.file)) {
    if (line.phase == "run") ran_in.at(line.candidate) = line.process;
  }
  EXPECT_EQ(ran_in[0], ran_in[2]);
  EXPECT_NE(ran_in[1], ran_in[0]);
}

// An answer to an earlier request, an extra answer, or the end of a runner that nothing waited for
// is not taken for the answer to the current request.
const TestWorker kTalkative("talkative", [](const std::string&) {
  measuring::WorkerHooks hooks;
  hooks.serve = [](measuring::Channel& channel, measuring::WorkerStatus&) {
    const auto say = [&](int64_t id, double seconds) {
      channel.send(encode(measuring::Compiled{.seconds = seconds}, {.id = id}));
    };
    while (const std::optional<Json> request = channel.receive()) {
      const int64_t id = measuring::envelope_of(*request).id;
      say(id - 1, -1);
      channel.send(encode(measuring::Died{SIGKILL}, {.id = id - 1}));
      say(0, -2);
      say(id, measuring::decode<measuring::Turn>(*request).candidate);
      say(id, -3);
    }
  };
  return hooks;
});

measuring::WorkerProcess::Start start_of(std::vector<std::string> command) {
  return {.command = std::move(command), .hello = measuring::encode(measuring::Hello{})};
}

TEST(Faults, LateMessagesAreNoAnswers) {
  measuring::WorkerPool pool(1, start_of(test_worker("talkative")));
  pool.start(1, 0);
  for (int n = 1; n <= 20; ++n) {
    pool.ask(0, measuring::Turn{n}, 10);
    const std::optional<measuring::WorkerEvent> event = pool.next_event(TuneClock());
    ASSERT_TRUE(event && event->answer);
    EXPECT_EQ(event->answer->as<measuring::Compiled>().seconds, n);
  }
}

// A worker that hangs before its first answer, while a file of that name exists.
const TestWorker kHangsAtStart("hangs_at_start", [](const std::string& file) {
  measuring::WorkerHooks hooks;
  hooks.fault = [file](const std::string& phase, size_t, std::span<const NDArray>) {
    if (phase == "start" && ::access(file.c_str(), F_OK) == 0) hang();
  };
  return hooks;
});

TEST(Faults, AWorkerThatNeverStartsIsNotWaitedForWithoutEnd) {
  const Journal hanging;
  {
    measuring::WorkerPool patient(1, start_of(test_worker("hangs_at_start", hanging.file)));
    patient.start(1, 0);
    patient.kill(0);
    patient.restart(0, 0);
    EXPECT_FALSE(patient.busy(0));
    std::ofstream(hanging.file) << "now\n";
    measuring::WorkerProcess::Start start = start_of(test_worker("hangs_at_start", hanging.file));
    start.start_seconds = 0.2;
    measuring::WorkerPool pool(1, start);
    try {
      pool.restart(0, 0);
      FAIL();
    } catch (const Error& e) {
      EXPECT_NE(e.message.find("took longer than allowed"), std::string::npos) << e.message;
    }
  }
  EXPECT_FALSE(has_children());
}

TEST(Faults, WorkersKilledFromOutsideAreReplaced) {
  const TuneTask task = small_matmul();
  const auto measurer = make_worker_measurer(options_with({}));
  const std::vector<Schedule> schedules = candidates(task, 4);
  for (int round = 0; round < 6; ++round) {
    for (const MeasureResult& r : measure_all(*measurer, task, schedules).results) {
      EXPECT_TRUE(r.ok()) << r.message;
    }
    const std::vector<pid_t> workers = children();
    EXPECT_FALSE(workers.empty());
    for (const pid_t child : workers) ::kill(child, SIGKILL);
  }
}

// A worker that is new learns of all tasks before it works: more than a channel holds answers to.
TEST(Faults, AWorkerIsReplacedHoweverManyTasksThereAre) {
  measuring::MeasuredTasks tasks;
  tasks.add(small_matmul());
  measuring::WorkerProcess::Start start = start_of(measuring::worker_command({}));
  start.shared_fd = tasks.memory().fd();
  measuring::WorkerPool pool(1, start, [&](size_t) { return tasks.message(0, 1); });
  pool.start(1, 400);
  pool.kill(0);
  pool.restart(0, 800);
  EXPECT_TRUE(pool.alive(0));
}

const TestWorker kDiesAtStart("dies_at_start", [](const std::string&) {
  measuring::WorkerHooks hooks;
  hooks.fault = [](const std::string&, size_t, std::span<const NDArray>) {
    throw std::runtime_error("no luck");
  };
  return hooks;
});

TEST(Faults, WhenNoProcessCanBeStarted) {
  const int before = open_files();
  try {
    measuring::WorkerPool(2, start_of({"/no/such/program"})).start(2, 0);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::Runtime);
    EXPECT_NE(e.message.find("cannot start a measurement worker: /no/such/program: "),
              std::string::npos)
        << e.message;
  }
  // A worker that dies before its first answer.
  try {
    measuring::WorkerPool(2, start_of(test_worker("dies_at_start"))).start(2, 0);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.message.find("die at their start: the worker exited with status 1"),
              std::string::npos)
        << e.message;
    EXPECT_NE(e.message.find("no luck"), std::string::npos) << e.message;
  }
  // One of another version.
  measuring::WorkerProcess::Start start = start_of(test_worker("talkative"));
  start.hello["version"] = Json("0.0.1");
  try {
    measuring::WorkerPool(1, start).start(1, 0);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.message.find("the tuner is of Heddle 0.0.1"), std::string::npos) << e.message;
  }
  EXPECT_FALSE(has_children());
  EXPECT_EQ(open_files(), before);
}

// A busy worker that does not read its channel.
const TestWorker kDeaf("deaf", [](const std::string&) {
  measuring::WorkerHooks hooks;
  hooks.serve = [](measuring::Channel&, measuring::WorkerStatus&) { hang(); };
  return hooks;
});

TEST(Faults, WorkersEndWithTheTuner) {
  int pipe_fds[2];
  ASSERT_EQ(::pipe(pipe_fds), 0);
  const pid_t tuner = ::fork();
  if (tuner == 0) {
    measuring::WorkerProcess process(start_of(test_worker("deaf")));
    process.channel().receive();
    const pid_t pid = process.pid();
    [[maybe_unused]] const ssize_t n = ::write(pipe_fds[1], &pid, sizeof pid);
    ::kill(::getpid(), SIGKILL);
  }
  pid_t worker = 0;
  ASSERT_EQ(::read(pipe_fds[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  ::waitpid(tuner, nullptr, 0);
  bool gone = false;
  for (int i = 0; i < 1000 && !gone; ++i) {
    // A zombie of init's is gone, too.
    char state = 0;
    std::FILE* file = std::fopen(("/proc/" + std::to_string(worker) + "/stat").c_str(), "r");
    if (!file || std::fscanf(file, "%*d %*s %c", &state) != 1 || state == 'Z') gone = true;
    if (file) std::fclose(file);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(gone);
  ::close(pipe_fds[0]);
  ::close(pipe_fds[1]);
}

}  // namespace
}  // namespace heddle
