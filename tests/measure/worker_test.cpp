// Workers as programs: their start, their messages, and messages that must harm neither them nor
// the tuner.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "dag/declaration/declaration.h"
#include "heddle/driver/build.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/search/tune.h"
#include "heddle/support/error.h"
#include "heddle/support/rng.h"
#include "measure/faults.h"
#include "measure/measure_testing.h"
#include "measure/piped_worker.h"
#include "measure/process/measured_tasks.h"
#include "measure/process/pool.h"
#include "measure/process/program.h"
#include "measure/process/task.h"

namespace heddle {
namespace {

using namespace testing;
using measuring::Channel;
using measuring::encode;

WorkerOptions quick_options() {
  WorkerOptions options;
  options.protocol = quick_protocol();
  options.workers = 2;
  return options;
}

// ---- the state of the process that tunes --------------------------------------------------------

// Kernels ran on all threads, others are at work and hold the allocator's locks all the time.
TEST(Worker, AProgramWithManyThreadsTunes) {
  const Tensor x = placeholder({1 << 16}, f32, "x");
  const Tensor y = compute({1 << 16}, [&](Axis i) { return x(i) + 1.f; }, "y");
  const NDArray in = NDArray::full({1 << 16}, f32, 1), out = NDArray::zeros({1 << 16}, f32);
  build(create_schedule({y}), {x, y})(in, out);
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int t = 0; t < 6; ++t) {
    busy.emplace_back([&] {
      while (!stop.load()) {
        std::vector<std::string> words(64, std::string(100, 'x'));
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
  }
  TuneOptions options;
  options.max_trials = 6;
  options.batch = 3;
  options.warm_start = false;
  options.protocol = quick_protocol();
  TuneReport report;
  EXPECT_NO_THROW(report = tune_tasks({small_matmul()}, options));
  stop.store(true);
  for (std::thread& t : busy) t.join();
  ASSERT_EQ(report.trials, 6);
  EXPECT_EQ(report.tasks[0].failures, 0);
  EXPECT_LE(report.tasks[0].best_seconds, report.tasks[0].static_seconds);
  EXPECT_FALSE(has_children());
}

// The thread that started a measurer's workers has ended when another goes on with it.
TEST(Worker, AMeasurerMayGoFromThreadToThread) {
  const TuneTask task = small_matmul();
  const auto measurer = make_worker_measurer(quick_options());
  for (int round = 0; round < 3; ++round) {
    std::thread([&] {
      for (const MeasureResult& r : measure_all(*measurer, task, candidates(task, 2)).results)
        EXPECT_TRUE(r.ok()) << r.message;
    }).join();
  }
}

// Workers inherit none of the caller's open files.
TEST(Worker, InheritsNothingButItsOwnFiles) {
  const TuneTask task = small_matmul();
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);  // without O_CLOEXEC
  const auto measurer = make_worker_measurer(quick_options());
  EXPECT_TRUE(measure_all(*measurer, task, candidates(task, 1)).results[0].ok());
  ::close(pipe[1]);
  char byte = 0;
  EXPECT_EQ(::read(pipe[0], &byte, 1), 0);  // no worker holds the other end
  ::close(pipe[0]);
}

// A rule that the worker's program does not have: its graph travels.
TEST(Worker, AUsersRewriteRuleWorksInTheWorker) {
  register_rewrite_rule(
      {.name = "twice_is_a_sum",
       .why_not =
           [](const RewriteSite& s) {
             return s.op().name() == "twice" ? std::string() : std::string("not mine");
           },
       .apply =
           [](const RewriteSite& s) {
             const Tensor x = s.op().inputs().at(0);
             return std::vector<Tensor>{
                 compute({96}, [&](Axis i) { return x(i) + x(i); }, "twice")};
           },
       .error_growth = [](const RewriteSite&) { return 1.0; },
       .estimate = [](const RewriteSite&, const Target&) { return RewriteEstimate{1.5, "more"}; }});
  const Tensor x = placeholder({96}, f32, "x");
  const TuneTask task = make_task(
      "twice", {compute({96}, [&](Axis i) { return x(i) * 2.f; }, "twice")}, two_threads());
  ASSERT_EQ(task.tmpl.num_branches(), 2);
  std::vector<Schedule> schedules;
  for (int b = 0; b < 2; ++b) {
    const Config own = task.tmpl.branch(b).default_config();
    schedules.push_back(task.tmpl.instantiate(task.tmpl.config_of_branch(b, own)));
  }
  EXPECT_EQ(schedules[1].dag().alternative(), "twice_is_a_sum@1");
  const auto measurer = make_worker_measurer(quick_options());
  for (const MeasureResult& r : measure_all(*measurer, task, schedules).results)
    EXPECT_TRUE(r.ok()) << r.message;
  unregister_rewrite_rule("twice_is_a_sum");
}

// ---- the program --------------------------------------------------------------------------------

// What a worker knows of a task is what the tuner does.
TEST(Worker, ATaskArrivesWhole) {
  AutoSchedulerOptions options;
  options.max_unroll = 77;
  options.allow_tf32 = true;
  const AutoSchedulerOptionsScope scope(options);
  TuneTask task = small_matmul();
  task.input_ranges = {std::nullopt, InputRange{2, 3}};
  measuring::MeasuredTasks tuners;
  const int id = tuners.add(task);
  for (const size_t workers : {size_t{1}, size_t{1} << 40}) {  // own copies fit, or they do not
    measuring::WorkerTasks theirs(tuners.memory().fd());
    const Json message = tuners.message(static_cast<size_t>(id), workers);
    const measuring::Started answer =
        theirs.answer(measuring::decode<measuring::TaskMessage>(message));
    ASSERT_FALSE(answer.message) << *answer.message;
    const measuring::MeasuredTask& there = theirs.at(id);
    EXPECT_EQ(there.task.tmpl.options().max_unroll, 77);
    EXPECT_TRUE(there.task.tmpl.options().allow_tf32);
    EXPECT_EQ(there.task.tmpl.target(), task.tmpl.target());
    EXPECT_EQ(there.task.tmpl.dag().structural_hash(), task.tmpl.dag().structural_hash());
    // Copies of its own are of the task that is measured.
    const void* mapped = there.inputs[0].data();
    theirs.hold(id);
    EXPECT_EQ(there.inputs[0].data() == mapped, workers > 1);
    theirs.hold(-1);
    EXPECT_EQ(there.inputs[0].data(), mapped);
    theirs.hold(id);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(allclose(there.inputs[i], tuners[id].inputs[i], 0, 0));
      there.inputs[i].fill(9);  // a candidate that errs: nobody else sees it
      EXPECT_NE(tuners[id].inputs[i].get(0), 9);
    }
    EXPECT_GE(tuners[id].inputs[1].get(5), 2);
    // The reference results are shared by all.
    there.reference->store(std::vector{NDArray::full({48, 56}, f32, 5)});
    EXPECT_TRUE(tuners[id].reference->ready());
  }
}

struct Environment {
  explicit Environment(const char* value) { ::setenv("HEDDLE_WORKER", value, 1); }
  ~Environment() { ::unsetenv("HEDDLE_WORKER"); }
};

TEST(Worker, TheProgramIsFoundOrMissedClearly) {
  const std::vector<std::string> found = measuring::worker_command({});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].ends_with("/heddle-worker")) << found[0];
  EXPECT_TRUE(found[1].starts_with("--library=/")) << found[1];
  EXPECT_EQ(measuring::worker_command({"mine", "now"}), (std::vector<std::string>{"mine", "now"}));
  {
    const Environment named(found[0].c_str());
    EXPECT_EQ(measuring::worker_command({}), found);
  }
  const Environment wrong("/no/such/worker");
  try {
    make_worker_measurer(quick_options());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::Runtime);
    EXPECT_NE(e.message.find("HEDDLE_WORKER names '/no/such/worker'"), std::string::npos);
  }
}

Json hello() { return encode(measuring::Hello{.measure = quick_protocol()}); }

/// What a worker is told of a task when it shares nothing with whoever asks.
Json remote_task(const TuneTask& task) {
  return encode(measuring::task_message_for_elsewhere(0, task));
}

TEST(WorkerProgram, ServesAnyoneWhoSpeaksItsProtocol) {
  const TuneTask task = small_matmul();
  PipedWorker worker;
  EXPECT_EQ(worker.ask(hello()), encode(measuring::Started{}));
  EXPECT_EQ(worker.ask(remote_task(task)), encode(measuring::Started{}));
  const Json made = worker.ask(measuring::MakeReference{.by = measuring::ReferenceBy::Naive}, 1);
  EXPECT_EQ(made, encode(measuring::Done{}, {.id = 1}));
  worker.tell(measuring::Rest{});  // what ran for the reference is gone
  const std::vector<Schedule> two = candidates(task, 2);
  for (int i = 0; i < 2; ++i) {
    const measuring::Compile request{.candidate = i,
                                     .steps = two[static_cast<size_t>(i)].to_json()};
    EXPECT_GT(measuring::decode<measuring::Compiled>(worker.ask(request, 2 + i)).seconds, 0);
  }
  for (int i = 0; i < 2; ++i) {
    for (const Json& answer :
         {worker.ask(measuring::Enter{.candidate = i}, 4), worker.ask(measuring::Turn{i}, 5)}) {
      EXPECT_EQ(measuring::decode<measuring::Timed>(answer).samples.size(), 1u) << answer.dump();
    }
  }
  const Json timed = worker.ask(measuring::Run{.candidate = 1}, 5);
  EXPECT_GE(measuring::decode<measuring::Timed>(timed).samples.size(), 2u) << timed.dump();
  EXPECT_EQ(worker.end(), 0);
  EXPECT_EQ(worker.last_words, "");
}

TEST(WorkerProgram, ATaskThatIsNoneIsRefusedAndTheWorkerStays) {
  PipedWorker worker;
  worker.ask(hello());
  const Json good = remote_task(small_matmul());
  for (const auto& [key, value] : good.members()) {
    if (key == "do" || key == "name") continue;
    Json bad = good;
    bad[key] = Json("nonsense");
    EXPECT_TRUE(worker.ask(bad).contains("message") || key == "default") << key;
  }
  // Places of a memory that it does not share.
  Json bad = good;
  bad["inputs"] = Json::array({Json::array({0, 7680}), Json::array({65536, 8960}), Json()});
  EXPECT_NE(worker.ask(bad).get_string("message", "").find("no memory that is shared"),
            std::string::npos);
  Json damaged = good;
  damaged["declaration"]["declaration"]["operations"] = Json::array();
  EXPECT_NE(worker.ask(damaged).get_string("message", "").find("checksum"), std::string::npos);
  EXPECT_FALSE(worker.ask(good).contains("message"));
  EXPECT_EQ(worker.end(), 0);
}

// An invalid request ends the worker, with a message.
TEST(WorkerProgram, AHostileFrameEndsTheWorkerAlone) {
  std::string random(300, '\0');
  Rng rng(3);
  for (char& c : random) c = static_cast<char>(rng.uniform_int(0, 255));
  random[0] = 'X';
  const std::string cut = frame(hello().dump());
  const std::vector<std::pair<std::string, std::string>> before_hello{
      {random, "no frame"},
      {cut.substr(0, cut.size() / 2), "ends within a message"},
      {cut.substr(0, 5), "ends within a message"},
      {"HDW9" + std::string(4, '\0'), "a message of protocol 9"},
      {"HDW2\xff\xff\xff\x7f", "at most"},
      {frame("{\"do\": "), "request:1:"},
      {frame("[]"), "no hello"},
      {frame("{\"do\": \"compile\"}"), "no hello"},
      {frame("{\"do\": \"hello\", \"version\": 3}"), "expected a string"},
      {frame("{\"do\": \"hello\", \"version\": \"0.0.1\"}"), "the tuner is of Heddle 0.0.1"},
  };
  for (const auto& [bytes, words] : before_hello) {
    PipedWorker worker;
    worker.write(bytes);
    EXPECT_EQ(worker.end(), 2) << words;
    EXPECT_NE(worker.last_words.find(words), std::string::npos) << worker.last_words;
  }
  for (const char* request :
       {R"({"do": "explode"})", R"({"do": 7})", R"({})", R"([1])", R"({"do": "compile"})",
        R"({"do": "compile", "candidate": 0, "task": 0, "steps": {}, "slot": 1})",
        R"({"do": "run", "task": 0, "candidate": 99999999999})", R"({"do": "open", "task": 0})",
        R"({"do": "turn", "candidate": 5})", R"({"do": "run", "task": {}, "candidate": 0})"}) {
    PipedWorker worker;
    worker.ask(hello());
    worker.write(frame(request));
    const Json answer = worker.answer();  // an error, or the end
    EXPECT_TRUE(answer.is_null()) << request << ": " << answer.dump();
    EXPECT_EQ(worker.end(), 2) << request;
  }
}

// ---- the tuner's side ---------------------------------------------------------------------------

const TestWorker kBabbles("babbles", [](const std::string& seed) {
  measuring::WorkerHooks hooks;
  hooks.serve = [seed](Channel& channel, measuring::WorkerStatus&) {
    Rng rng(static_cast<uint64_t>(std::stoi(seed)));
    while (const std::optional<Json> request = channel.receive()) {
      if (measuring::codec::is<measuring::TaskMessage>(*request)) {
        channel.send(encode(measuring::Started{}));
        continue;
      }
      std::string bytes(static_cast<size_t>(rng.uniform_int(8, 5000)), '\0');
      for (char& c : bytes) c = static_cast<char>(rng.uniform_int(0, 255));
      if (rng.chance(0.3)) bytes = frame(bytes);
      if (rng.chance(0.3)) bytes = "HDW2\xff\xff\xff\xff";
      [[maybe_unused]] const ssize_t n = ::write(measuring::kChannelFd, bytes.data(), bytes.size());
      return;
    }
  };
  return hooks;
});

TEST(Worker, OneThatTalksNonsenseNeverHarmsTheTuner) {
  const TuneTask task = small_matmul();
  for (int seed = 0; seed < 6; ++seed) {
    WorkerOptions options = quick_options();
    options.protocol.check_output = false;
    options.command = test_worker("babbles", std::to_string(seed));
    const auto measurer = make_worker_measurer(options);
    try {
      measure_all(*measurer, task, candidates(task, 3));
      ADD_FAILURE() << "nonsense was taken for an answer";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::Runtime) << e.what();
    }
  }
  EXPECT_FALSE(has_children());
}

std::vector<pid_t> children_of(pid_t process) {
  const std::string id = std::to_string(process);
  std::ifstream file("/proc/" + id + "/task/" + id + "/children");
  std::vector<pid_t> out;
  for (pid_t pid = 0; file >> pid;) out.push_back(pid);
  return out;
}

// kill -9 of workers and runners at any moment: each candidate is reported once, and those that
// were not killed are measured.
TEST(Worker, KilledAtAnyMomentItCostsACandidateAtMost) {
  const TuneTask task = small_matmul();
  const auto measurer = make_worker_measurer(quick_options());
  const std::vector<Schedule> schedules = candidates(task, 24);
  std::atomic<bool> stop{false};
  std::atomic<int> kills{0};
  const pid_t self = ::getpid();
  std::thread killer([&] {
    Rng rng(5);
    while (!stop.load()) {
      // Slower than they start on a busy machine: who is killed three times at it gives up.
      std::this_thread::sleep_for(std::chrono::milliseconds(rng.uniform_int(250, 500)));
      std::vector<pid_t> all = children_of(self);
      for (const pid_t worker : children_of(self)) {
        for (const pid_t runner : children_of(worker)) all.push_back(runner);
      }
      if (!all.empty() && ::kill(rng.choose(all), SIGKILL) == 0) ++kills;
    }
  });
  Collected got;
  EXPECT_NO_THROW(got = measure_all(*measurer, task, schedules));
  stop.store(true);
  killer.join();
  ASSERT_EQ(got.results.size(), schedules.size());
  int failed = 0;
  for (size_t i = 0; i < schedules.size(); ++i) {
    EXPECT_EQ(got.reports[i], 1) << i;
    failed += !got.results[i].ok();
  }
  EXPECT_LE(failed, kills.load());
}

}  // namespace
}  // namespace heddle
