// A node of a fleet: candidates that one node compiles and another one measures, and requests that
// it refuses.
#include <gtest/gtest.h>

#include "heddle/support/error.h"
#include "measure/measure_testing.h"
#include "measure/piped_worker.h"
#include "measure/process/answers.h"
#include "measure/process/protocol.h"
#include "measure/process/task.h"

namespace heddle {
namespace {

using namespace testing;

Json hello(const std::string& target) {
  measuring::WorkerHello hello;
  hello.measure = quick_protocol();
  hello.node = target;
  return to_json(hello);
}

/// A node that knows task 5.
struct Node {
  explicit Node(const TuneTask& task) {
    greeting = worker.ask(hello(to_string(task.tmpl.target())));
    taken = worker.ask(measuring::task_message_for_elsewhere(5, task));
  }
  /// All answers until the request is done.
  std::vector<Json> ask(const Json& request) {
    worker.tell(request);
    std::vector<Json> out;
    do {
      out.push_back(worker.answer());
    } while (!out.back().is_null() && !out.back().contains("done"));
    return out;
  }
  PipedWorker worker;
  Json greeting, taken;
};

Json compile_request(const Schedule& schedule) {
  return Json::object({{"do", "compile"}, {"task", 5}, {"steps", schedule.to_json()}, {"id", 3}});
}

TEST(Node, MeasuresWhatAnotherOneCompiled) {
  const TuneTask task = small_matmul();
  const std::vector<Schedule> schedules = candidates(task, 3);
  Json trials = Json::array();
  Json base;
  {
    Node compiler(task);
    EXPECT_FALSE(compiler.taken.contains("message")) << compiler.taken.dump();
    for (size_t i = 0; i < schedules.size(); ++i) {
      const Json answer = compiler.worker.ask(compile_request(schedules[i]));
      ASSERT_TRUE(answer.contains("code")) << answer.dump();
      EXPECT_EQ(answer.at("id").as_int(), 3);
      if (i == 0) base = answer.at("code");
      trials.push_back(Json::object(
          {{"trial", 10 + i}, {"steps", schedules[i].to_json()}, {"code", answer.at("code")}}));
    }
    EXPECT_EQ(compiler.worker.end(), 0) << compiler.worker.last_words;
  }
  Node node(task);
  EXPECT_FALSE(node.greeting.at("machine").as_string().empty());
  EXPECT_FALSE(node.greeting.contains("problem")) << node.greeting.dump();
  const std::string race = "race";
  for (const std::string& what : {std::string("measure"), race}) {
    Json request =
        Json::object({{"do", what}, {"task", 5}, {"seconds", what == race ? 0.5 : 20}, {"id", 7}});
    request["candidates"] = trials;
    request["base_code"] = base;
    const std::vector<Json> answers = node.ask(request);
    ASSERT_EQ(answers.size(), 4u) << what << answers.back().dump();
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(answers[i].at("id").as_int(), 7);
      EXPECT_GE(answers[i].at("trial").as_int(), 10);
      const MeasureResult result = measuring::result_from_json(answers[i]);
      EXPECT_TRUE(result.ok()) << result.message;  // the answer was checked
      if (what == "measure") {
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
  Json request = Json::object({{"do", "measure"}, {"task", 5}, {"seconds", 20}});
  request["candidates"] =
      Json::array({Json::object({{"trial", 1}, {"steps", schedule.to_json()}}),
                   Json::object({{"trial", 2}, {"steps", Json::object({{"steps", "none"}})}})});
  const std::vector<Json> answers = node.ask(request);
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(measuring::result_from_json(answers[0]).error, MeasureError::Invalid);
  EXPECT_EQ(answers[0].at("trial").as_int(), 2);
  EXPECT_TRUE(measuring::result_from_json(answers[1]).ok());
  // The static choice is timed in every round, beside one candidate as well.
  EXPECT_GT(measuring::result_from_json(answers[1]).base_seconds, 0);
}

// Invalid code costs at most the worker that loads it.
TEST(Node, OutlivesCodeThatIsNone) {
  const TuneTask task = small_matmul();
  const Schedule schedule = task.tmpl.static_schedule();
  Node node(task);
  const Json good = node.worker.ask(compile_request(schedule)).at("code");
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
    Json request = Json::object({{"do", "measure"}, {"task", 5}, {"seconds", 20}});
    request["candidates"] =
        Json::array({Json::object({{"trial", 1}, {"steps", schedule.to_json()}, {"code", code}})});
    const std::vector<Json> answers = node.ask(request);
    ASSERT_EQ(answers.size(), 2u) << code.dump().substr(0, 200);
    EXPECT_FALSE(measuring::result_from_json(answers[0]).ok());
  }
  Json request = Json::object({{"do", "measure"}, {"task", 5}, {"seconds", 20}});
  request["candidates"] =
      Json::array({Json::object({{"trial", 1}, {"steps", schedule.to_json()}, {"code", good}})});
  EXPECT_TRUE(measuring::result_from_json(node.ask(request)[0]).ok());
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
  EXPECT_FALSE(measuring::task_message_for_elsewhere(5, task).contains("values"));
  task.make_input = [&](size_t i) {
    return NDArray::full(task.args[i].extents(), f32, 3 + static_cast<double>(i));
  };
  const Json message = measuring::task_message_for_elsewhere(5, task);
  const auto told = measuring::told_task(message);
  ASSERT_TRUE(told->task.make_input);
  EXPECT_EQ(told->task.make_input(1).get(7), 4);
  Json cut = message;
  cut["values"]["1"] = Json("00");
  EXPECT_THROW(measuring::told_task(cut), Error);
  TuneTask large = make_task(
      "large",
      {compute({1 << 24}, [x = placeholder({1 << 24}, f32, "x")](Axis i) { return x(i) + 1.f; })},
      two_threads());
  large.make_input = [](size_t) { return NDArray::full({1 << 25}, f32, 1); };
  EXPECT_THROW(measuring::task_message_for_elsewhere(5, large), Error);
}

TEST(Node, NothingThatItIsToldNamesAFile) {
  Json message = measuring::task_message_for_elsewhere(5, small_matmul());
  message["options"]["record_log"] = Json("/tmp/somebody's log");
  PipedWorker node;
  node.ask(hello(""));
  EXPECT_TRUE(node.ask(message).contains("message"));
}

TEST(Node, AHostileRequestEndsItWithAWord) {
  const TuneTask task = small_matmul();
  for (const char* request :
       {R"({"do": "explode"})", R"({})", R"([])", R"({"do": "compile", "task": 6, "steps": {}})",
        R"({"do": "measure", "task": 5})", R"({"do": "measure", "task": 5, "seconds": 1e9})",
        R"({"do": "race", "task": 5, "seconds": 1, "candidates": [{"trial": "x"}]})"}) {
    Node node(task);
    node.worker.write(frame(request));
    EXPECT_TRUE(node.worker.answer().is_null()) << request;
    EXPECT_EQ(node.worker.end(), 2) << request;
    EXPECT_TRUE(node.worker.last_words.starts_with("heddle-worker: ")) << node.worker.last_words;
  }
}

}  // namespace
}  // namespace heddle
