// A node of a fleet: candidates that one node compiles and another one measures, and requests that
// it refuses.
#include <gtest/gtest.h>

#include "heddle/support/error.h"
#include "measure/measure_testing.h"
#include "measure/messages/fleet.h"
#include "measure/piped_worker.h"
#include "measure/process/task.h"

namespace heddle {
namespace {

using namespace testing;
using measuring::decode;
using measuring::encode;

Json hello(const std::string& target) {
  return encode(measuring::Hello{.measure = quick_protocol(), .node = target});
}

/// A node that knows task 5.
struct Node {
  explicit Node(const TuneTask& task) {
    greeting = worker.ask(hello(to_string(task.tmpl.target())));
    taken = worker.ask(measuring::task_message_for_elsewhere(5, task));
  }
  /// All answers until the request is done.
  std::vector<Json> ask(const measuring::MeasureTrials& request) {
    worker.tell(request, 7);
    std::vector<Json> out;
    do {
      out.push_back(worker.answer());
    } while (!out.back().is_null() && !measuring::codec::is<measuring::RoundEnd>(out.back()));
    return out;
  }
  PipedWorker worker;
  Json greeting, taken;
};

measuring::Compile compile_request(const Schedule& schedule) {
  return {.task = 5, .steps = schedule.to_json()};
}

measuring::MeasureTrials measure_request(const std::vector<measuring::TrialRequest>& candidates) {
  return {.task = 5, .seconds = 20, .trials = candidates};
}

MeasureResult result_of(const Json& answer) {
  return decode<measuring::TrialResult>(answer).result;
}

TEST(Node, MeasuresWhatAnotherOneCompiled) {
  const TuneTask task = small_matmul();
  const std::vector<Schedule> schedules = candidates(task, 3);
  std::vector<measuring::TrialRequest> trials;
  Json base;
  {
    Node compiler(task);
    EXPECT_FALSE(compiler.taken.contains("message")) << compiler.taken.dump();
    for (size_t i = 0; i < schedules.size(); ++i) {
      const Json answer = compiler.worker.ask(compile_request(schedules[i]), 3);
      EXPECT_EQ(measuring::envelope_of(answer).id, 3);
      const std::optional<Json> code = decode<measuring::Compiled>(answer).code;
      ASSERT_TRUE(code) << answer.dump();
      if (i == 0) base = *code;
      trials.push_back({10 + static_cast<int64_t>(i), schedules[i].to_json(), code});
    }
    EXPECT_EQ(compiler.worker.end(), 0) << compiler.worker.last_words;
  }
  Node node(task);
  EXPECT_FALSE(node.greeting.at("machine").as_string().empty());
  EXPECT_FALSE(node.greeting.contains("problem")) << node.greeting.dump();
  for (const bool race : {false, true}) {
    measuring::MeasureTrials request = measure_request(trials);
    request.race = race;
    if (race) request.seconds = 0.5;
    request.base_code = base;
    const std::vector<Json> answers = node.ask(request);
    ASSERT_EQ(answers.size(), 4u) << race << answers.back().dump();
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(measuring::envelope_of(answers[i]).id, 7);
      EXPECT_GE(decode<measuring::TrialResult>(answers[i]).trial, 10);
      const MeasureResult result = result_of(answers[i]);
      EXPECT_TRUE(result.ok()) << result.message;  // the answer was checked
      if (!race) {
        EXPECT_GT(result.base_seconds, 0);
      }
    }
    EXPECT_FALSE(answers[3].contains("failed")) << answers[3].dump();
  }
}

TEST(Node, CompilesItselfWhatComesWithoutCode) {
  const TuneTask task = small_matmul();
  Node node(task);
  const Schedule schedule = task.tmpl.static_schedule();
  const std::vector<Json> answers =
      node.ask(measure_request({{1, schedule.to_json()}, {2, Json::object({{"steps", "none"}})}}));
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(result_of(answers[0]).error, MeasureError::Invalid);
  EXPECT_EQ(answers[0].at("trial").as_int(), 2);
  EXPECT_TRUE(result_of(answers[1]).ok());
  // The static choice is timed in every round, beside one candidate as well.
  EXPECT_GT(result_of(answers[1]).base_seconds, 0);
}

// Invalid code costs at most the worker that loads it.
TEST(Node, OutlivesCodeThatIsNone) {
  const TuneTask task = small_matmul();
  const Schedule schedule = task.tmpl.static_schedule();
  Node node(task);
  const Json good = *decode<measuring::Compiled>(node.worker.ask(compile_request(schedule))).code;
  std::vector<Json> bad;
  for (const char* object :
       {"", "0", "xy", "7f454c46", "7f454c4602010100000000000000000001003e00"}) {
    bad.push_back(good);
    bad.back()["object"] = Json(object);
  }
  bad.push_back(Json("nonsense"));
  bad.push_back(good);
  bad.back()["functions"] = Json::array({Json("another")});
  for (const Json& code : bad) {
    const std::vector<Json> answers = node.ask(measure_request({{1, schedule.to_json(), code}}));
    ASSERT_EQ(answers.size(), 2u) << code.dump().substr(0, 200);
    EXPECT_FALSE(result_of(answers[0]).ok());
  }
  EXPECT_TRUE(result_of(node.ask(measure_request({{1, schedule.to_json(), good}}))[0]).ok());
}

TEST(Node, SaysThatItIsOfTheWrongKind) {
  PipedWorker node;
  Json answer = node.ask(hello("cuda -gpu=h100"));
  EXPECT_NE(answer.get_string("problem", "").find("does not run code for"), std::string::npos)
      << answer.dump();
  PipedWorker small;
  Target many = Target::host();
  many.cores = 1000;
  answer = small.ask(hello(to_string(many)));
  EXPECT_NE(answer.get_string("problem", "").find("threads"), std::string::npos) << answer.dump();
}

// Inputs that somebody made arrive as they are; drawn ones are drawn there.
TEST(Node, InputsTravelWhereTheyAreNotDrawn) {
  TuneTask task = small_matmul();
  EXPECT_FALSE(measuring::task_message_for_elsewhere(5, task).values);
  task.make_input = [&](size_t i) {
    return NDArray::full(task.args[i].extents(), f32, 3 + static_cast<double>(i));
  };
  measuring::TaskMessage message = measuring::task_message_for_elsewhere(5, task);
  const auto told = measuring::told_task(message);
  ASSERT_TRUE(told->task.make_input);
  EXPECT_EQ(told->task.make_input(1).get(7), 4);
  (*message.values)["1"] = Json("00");
  EXPECT_THROW(measuring::told_task(message), Error);
  TuneTask large = make_task(
      "large",
      {compute({1 << 24}, [x = placeholder({1 << 24}, f32, "x")](Axis i) { return x(i) + 1.f; })},
      two_threads());
  large.make_input = [](size_t) { return NDArray::full({1 << 25}, f32, 1); };
  EXPECT_THROW(measuring::task_message_for_elsewhere(5, large), Error);
}

TEST(Node, NothingThatItIsToldNamesAFile) {
  measuring::TaskMessage message = measuring::task_message_for_elsewhere(5, small_matmul());
  message.options["record_log"] = Json("/tmp/somebody's log");
  PipedWorker node;
  node.ask(hello(""));
  EXPECT_TRUE(node.ask(message).contains("message"));
}

TEST(Node, AHostileRequestEndsItWithAWord) {
  const TuneTask task = small_matmul();
  for (const char* request :
       {R"({"do": "explode"})", R"({})", R"([])", R"({"do": "compile", "task": 6, "steps": {}})",
        R"({"do": "measure", "task": 5})",
        R"({"do": "measure", "task": 5, "seconds": 1e9, "candidates": []})",
        R"({"do": "measure", "task": 5, "seconds": 1, "candidates": [{"trial": "x"}]})"}) {
    Node node(task);
    node.worker.write(frame(request));
    EXPECT_TRUE(node.worker.answer().is_null()) << request;
    EXPECT_EQ(node.worker.end(), 2) << request;
    EXPECT_TRUE(node.worker.last_words.starts_with("heddle-worker: ")) << node.worker.last_words;
  }
}

}  // namespace
}  // namespace heddle
