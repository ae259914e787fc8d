// Candidates that crash, hang, exhaust memory, or answer wrongly: each is recorded with its kind,
// and none of them harms another.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <thread>

#include "heddle/support/error.h"
#include "search/measure_testing.h"
#include "search/worker_pool.h"

namespace heddle {
namespace {

using namespace testing;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;  // takes signals and failed allocations for itself
#else
constexpr bool kSanitized = false;
#endif

enum class Fault { None, Segv, Abort, Exit, Throw, Hang, Eat, EatArrays, Wrong, Unwritten };

[[gnu::noinline]] void hang() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

void commit(Fault fault, std::span<const NDArray> args) {
  switch (fault) {
    case Fault::None: return;
    case Fault::Segv: std::raise(SIGSEGV); return;
    case Fault::Abort: std::fputs("something is very wrong\n", stderr); std::abort();
    case Fault::Exit: ::_exit(3);
    case Fault::Throw: throw std::runtime_error("thrown in a worker");
    case Fault::Hang: hang(); return;
    case Fault::Eat:  // until there is no more
      for (;;) {
        volatile char* block = new char[32 << 20];
        block[0] = 1;
      }
    case Fault::EatArrays:  // as a kernel's temporaries would
      for (std::vector<NDArray> all;;) all.push_back(NDArray::empty({64 << 20}, u8));
    case Fault::Wrong:
      if (!args.empty()) args.back().fill(0.125);
      return;
    case Fault::Unwritten:  // as if the first element had never been written
      if (!args.empty()) args.back().set(0, std::nan(""));
      return;
  }
}

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

WorkerOptions options_with(const std::string& phase, std::function<Fault(size_t)> fault) {
  WorkerOptions options;
  options.protocol = quick_protocol();
  options.protocol.timeout_seconds = 1;
  options.protocol.memory_limit_bytes = 512 << 20;
  options.workers = 2;
  options.fault = [=](const std::string& now, size_t candidate, std::span<const NDArray> args) {
    if (now == phase) commit(fault(candidate), args);
  };
  return options;
}

// Candidate 1 of four has the fault.
std::vector<MeasureResult> with_fault(const std::string& phase, Fault fault) {
  const TuneTask task = small_matmul();
  const auto measurer = make_worker_measurer(
      options_with(phase, [=](size_t c) { return c == 1 ? fault : Fault::None; }));
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
  struct Plan {
    Fault fault = Fault::None;
    std::string phase;
  };
  std::vector<Plan> plans(schedules.size());
  int hangs = 0;
  for (Plan& plan : plans) {
    if (rng.chance(0.5)) continue;
    plan.fault = rng.choose(
        std::vector<Fault>{Fault::Abort, Fault::Exit, Fault::Wrong, Fault::Unwritten, Fault::Hang});
    if (!kSanitized && rng.chance(0.4)) plan.fault = rng.chance(0.5) ? Fault::Segv : Fault::Eat;
    if (plan.fault == Fault::Hang && ++hangs > 1) plan.fault = Fault::Exit;
    plan.phase = rng.chance(0.5) ? "compile" : "run";
    if (expected(plan.fault) == MeasureError::WrongAnswer) plan.phase = "output";
  }
  WorkerOptions options = options_with("", [](size_t) { return Fault::None; });
  options.fault = [&](const std::string& now, size_t candidate, std::span<const NDArray> args) {
    if (now == plans[candidate].phase) commit(plans[candidate].fault, args);
  };
  const int before = open_files();
  {
    const auto measurer = make_worker_measurer(options);
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
  // It dies in the race itself, not at the first call: the fault is called once for each start.
  auto* calls = static_cast<std::atomic<int>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  WorkerOptions options = options_with("", [](size_t) { return Fault::None; });
  options.fault = [&](const std::string& phase, size_t candidate, std::span<const NDArray>) {
    if (phase == "run" && candidate == 0) ++*calls;
    if (phase == "run" && candidate == 1) commit(Fault::Abort, {});
    if (phase == "compile" && candidate == 3) commit(Fault::Hang, {});
    if (phase == "compile" && candidate == 4) commit(Fault::Throw, {});
  };
  const auto measurer = make_worker_measurer(options);
  const auto got = measurer->race(task, candidates(task, 5), 0.05, TuneClock());
  EXPECT_TRUE(got[0].ok()) << got[0].message;
  EXPECT_EQ(got[1].error, MeasureError::Crash);
  EXPECT_TRUE(got[2].ok()) << got[2].message;
  EXPECT_EQ(got[3].error, MeasureError::Timeout);
  EXPECT_EQ(got[4].error, MeasureError::Compile);
  EXPECT_EQ(calls->load(), 2);  // entered again after the crash of its neighbour
  ::munmap(calls, 4096);
}

// What answers wrongly may have written anywhere: the others race in a runner that it was never in.
TEST(Faults, AWrongAnswerInARaceTakesItsRunnerWithIt) {
  const TuneTask task = small_matmul();
  auto* ran_in = static_cast<std::atomic<pid_t>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  WorkerOptions options = options_with("", [](size_t) { return Fault::None; });
  options.fault = [&](const std::string& phase, size_t candidate, std::span<const NDArray> args) {
    if (phase == "run") ran_in[candidate] = ::getpid();
    if (phase == "output" && candidate == 1) commit(Fault::Wrong, args);
  };
  const auto measurer = make_worker_measurer(options);
  const auto got = measurer->race(task, candidates(task, 3), 0.05, TuneClock());
  EXPECT_TRUE(got[0].ok()) << got[0].message;
  EXPECT_EQ(got[1].error, MeasureError::WrongAnswer);
  EXPECT_TRUE(got[2].ok()) << got[2].message;
  EXPECT_EQ(ran_in[0].load(), ran_in[2].load());
  EXPECT_NE(ran_in[1].load(), ran_in[0].load());
  ::munmap(ran_in, 4096);
}

// An answer to the request before, one too many, the end of a runner that nobody waited for: none
// of them is taken for the answer to this one.
TEST(Faults, LateMessagesAreNoAnswers) {
  search::WorkerProcess::Start start;
  start.main = [](search::Channel& channel, search::WorkerStatus&) {
    channel.send(Json::object());
    const auto message = [](int64_t id, const char* key, int64_t value) {
      return Json::object({{"id", id}, {key, value}});
    };
    while (const std::optional<Json> request = channel.receive()) {
      const int64_t id = request->at("id").as_int(), n = request->at("n").as_int();
      channel.send(message(id - 1, "n", -1));
      channel.send(message(id - 1, "died", SIGKILL));
      channel.send(Json::object({{"n", -2}}));
      channel.send(message(id, "n", n));
      channel.send(message(id, "n", -3));
    }
  };
  search::WorkerPool pool(1, start);
  pool.start(1, 0);
  for (int n = 1; n <= 20; ++n) {
    pool.ask(0, Json::object({{"n", n}}), 10);
    const std::optional<search::WorkerEvent> event = pool.next_event(TuneClock());
    ASSERT_TRUE(event && event->answer);
    EXPECT_EQ(event->answer->at("n").as_int(), n);
  }
}

// One that hangs before it says that it has started, at its start and as a replacement.
TEST(Faults, AWorkerThatNeverStartsIsNotWaitedForWithoutEnd) {
  auto* hanging = static_cast<std::atomic<bool>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  search::WorkerProcess::Start start;
  start.start_seconds = 0.2;
  start.main = [=](search::Channel& channel, search::WorkerStatus&) {
    if (hanging->load()) hang();
    channel.send(Json::object());
    channel.receive();
  };
  {
    search::WorkerPool pool(1, start);
    pool.start(1, 0);
    pool.kill(0);
    pool.restart(0, 0);
    EXPECT_FALSE(pool.busy(0));
    hanging->store(true);
    pool.kill(0);
    try {
      pool.restart(0, 0);
      FAIL();
    } catch (const Error& e) {
      EXPECT_NE(e.message.find("took longer than allowed"), std::string::npos) << e.message;
    }
  }
  EXPECT_FALSE(has_children());
  ::munmap(hanging, 4096);
}

std::vector<pid_t> children() {
  const std::string self = std::to_string(::getpid());
  std::ifstream file("/proc/self/task/" + self + "/children");
  std::vector<pid_t> out;
  for (pid_t pid = 0; file >> pid;) out.push_back(pid);
  return out;
}

TEST(Faults, WorkersKilledFromOutsideAreReplaced) {
  const TuneTask task = small_matmul();
  const auto measurer = make_worker_measurer(options_with("", [](size_t) { return Fault::None; }));
  const std::vector<Schedule> schedules = candidates(task, 4);
  for (int round = 0; round < 6; ++round) {
    for (const MeasureResult& r : measure_all(*measurer, task, schedules).results) {
      EXPECT_TRUE(r.ok()) << r.message;
    }
    for (const pid_t child : children()) ::kill(child, SIGKILL);
  }
}

TEST(Faults, WhenNoProcessCanBeStarted) {
  search::WorkerProcess::Start start;
  start.main = [](search::Channel&, search::WorkerStatus&) {};
  start.fork = [] {
    errno = EAGAIN;
    return pid_t{-1};
  };
  const int before = open_files();
  try {
    search::WorkerPool(2, start).start(2, 0);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::Runtime);
    EXPECT_NE(e.message.find("cannot start a measurement worker: fork: "), std::string::npos);
  }
  // One that dies before it says anything.
  start.fork = nullptr;
  start.main = [](search::Channel&, search::WorkerStatus&) { throw std::runtime_error("no luck"); };
  try {
    search::WorkerPool(2, start).start(2, 0);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.message.find("die at their start: the worker exited with status 1"),
              std::string::npos)
        << e.message;
    EXPECT_NE(e.message.find("no luck"), std::string::npos) << e.message;
  }
  EXPECT_FALSE(has_children());
  EXPECT_EQ(open_files(), before);
}

TEST(Faults, WorkersEndWithTheTuner) {
  int pipe_fds[2];
  ASSERT_EQ(::pipe(pipe_fds), 0);
  const pid_t tuner = ::fork();
  if (tuner == 0) {
    search::WorkerProcess::Start start;
    start.main = [](search::Channel& channel, search::WorkerStatus&) {
      channel.send(Json::object());
      hang();  // at work: it does not look at its channel
    };
    search::WorkerProcess worker(start);
    worker.channel().receive();
    const pid_t pid = worker.pid();
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
