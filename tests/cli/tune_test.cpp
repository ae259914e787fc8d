// heddle tune around a scripted tuner: what is printed while it runs, at the end, and as JSON; and
// the real one as a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <sstream>
#include <string>
#include <vector>

#include "common/output_file.h"
#include "heddle/support/error.h"
#include "heddle/support/json.h"
#include "options/parse_line.h"
#include "run_command.h"
#include "source_dir.h"
#include "tune/display.h"
#include "tune/run_tune.h"

namespace heddle::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TuneProgress progress_at(double seconds, double best_ms, const std::string& phase = "measure") {
  TuneProgress p;
  p.active = 0;
  p.phase = phase;
  p.trials = static_cast<int>(30 * seconds);
  p.trials_per_second = 30;
  p.elapsed_seconds = seconds;
  p.left_seconds = 60 - seconds;
  for (const char* name : {"matmul:64x64x64", "softmax:64x64"}) {
    p.tasks.push_back({.name = name,
                       .trials = p.trials / 2,
                       .flops = 1e6,
                       .static_seconds = 2e-3,
                       .best_seconds = best_ms * 1e-3});
  }
  return p;
}

struct Shown {
  std::ostringstream out;
  TerminalSize size{100, 24};
  TuneDisplay display;
  explicit Shown(TuneDisplay::Mode mode) : display(mode, out, [this] { return size; }, 60, {}) {}
};

TEST(Lines, ComeAtNewBestsAndEveryTenSeconds) {
  Shown s(TuneDisplay::Mode::Lines);
  // Nothing new for a minute, a hundred times a second.
  for (double t = 0; t < 59; t += 0.01) s.display.show(progress_at(t, 2), false);
  EXPECT_EQ(count(s.out.str(), "\n"), 6);
  EXPECT_THAT(s.out.str(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(s.out.str(), HasSubstr("static -> best in screening 4.00 ms -> ~4.00 ms, ~1.00x"));
}

TEST(Lines, TellScreenedTimesFromRacedOnes) {
  Shown lines(TuneDisplay::Mode::Lines), live(TuneDisplay::Mode::Live);
  TuneProgress p = progress_at(20, 1);
  lines.display.show(p, false);
  live.display.show(p, false);
  EXPECT_THAT(lines.out.str(),
              HasSubstr("static -> best in screening 4.00 ms -> ~2.00 ms, ~2.00x"));
  EXPECT_THAT(live.out.str(), HasSubstr("~1.00 ms"));
  EXPECT_THAT(live.out.str(), HasSubstr("(~: in screening; the race at the end decides)"));
  // One lucky time; the race says 1.9 ms.
  for (TaskProgress& t : p.tasks) {
    t.best_seconds = 1.9e-3;
    t.settled = true;
  }
  p.elapsed_seconds = 40;
  p.phase = "done";
  lines.out.str("");
  live.out.str("");
  lines.display.show(p, false);
  live.display.show(p, false);
  EXPECT_THAT(lines.out.str(), HasSubstr("static -> best 4.00 ms -> 3.80 ms, 1.05x"));
  EXPECT_THAT(live.out.str(), HasSubstr("1.90 ms"));
  EXPECT_THAT(live.out.str(), Not(HasSubstr("~")));
}

TEST(Lines, AreNotMoreForManyNewBests) {
  Shown s(TuneDisplay::Mode::Lines);
  for (double t = 0; t < 60; t += 0.01) s.display.show(progress_at(t, 2 - t / 60), false);
  EXPECT_LE(count(s.out.str(), "\n"), 31);
  EXPECT_GE(count(s.out.str(), "\n"), 25);
}

TEST(Lines, SayAtOnceThatCtrlCWasHeard) {
  Shown s(TuneDisplay::Mode::Lines);
  s.display.show(progress_at(1, 2), false);
  s.display.show(progress_at(1.1, 2), true);
  s.display.show(progress_at(1.2, 2), true);
  EXPECT_EQ(count(s.out.str(), "stopping..."), 1);
}

TEST(Live, RedrawsInPlace) {
  Shown s(TuneDisplay::Mode::Live);
  s.display.show(progress_at(1, 2), false);
  const std::string first = s.out.str();
  const int lines = count(first, "\n");
  EXPECT_EQ(lines, 6);  // header, two tasks, overall, time, phase
  EXPECT_THAT(first, HasSubstr("> matmul:64x64x64"));
  EXPECT_THAT(first, HasSubstr("59 s left"));
  s.out.str("");
  s.display.show(progress_at(1.01, 2), false);
  EXPECT_THAT(s.out.str(), IsEmpty());  // nobody reads that fast
  s.display.show(progress_at(1.5, 1), false);
  EXPECT_THAT(s.out.str(), HasSubstr("\x1b[6A\r"));
  EXPECT_THAT(s.out.str(), HasSubstr("2.00x"));
  // Lines are written over, never cleared first.
  EXPECT_EQ(count(s.out.str(), "\x1b[2J") + count(s.out.str(), "\x1b[2K"), 0);
  s.out.str("");
  s.display.clear();
  EXPECT_EQ(s.out.str(), "\x1b[6A\r\x1b[J");
}

TEST(Live, FitsTheSmallestTerminal) {
  for (const int columns : {1, 7, 20, 40, 200}) {
    for (const int lines : {1, 2, 5, 24}) {
      Shown s(TuneDisplay::Mode::Live);
      s.size = {columns, lines};
      s.display.show(progress_at(1, 2), false);
      std::istringstream text(s.out.str());
      int n = 0;
      for (std::string line; std::getline(text, line);) {
        const size_t end = line.find("\x1b[K");
        if (end == std::string::npos) continue;
        const size_t begin =
            line.rfind('\r', end) == std::string::npos ? 0 : line.rfind('\r', end) + 1;
        EXPECT_LE(end - begin, static_cast<size_t>(std::max(columns - 1, 1)));
        ++n;
      }
      EXPECT_LE(n, std::max(lines - 1, 1)) << columns << " x " << lines;
    }
  }
}

TEST(Live, CountsLinesThatWrappedWhenTheWindowShrank) {
  Shown s(TuneDisplay::Mode::Live);
  s.display.show(progress_at(1, 2), false);
  s.size = {40, 24};
  s.out.str("");
  s.display.show(progress_at(2, 2), false);
  const std::string frame = s.out.str();
  const int up = std::stoi(frame.substr(2));
  EXPECT_GT(up, 6);
}

TEST(Quiet, SaysNothing) {
  Shown s(TuneDisplay::Mode::Quiet);
  s.display.show(progress_at(1, 2), true);
  s.display.clear();
  EXPECT_THAT(s.out.str(), IsEmpty());
}

// ---- the command around a scripted tuner
// ---------------------------------------------------------

struct Ran {
  int status = -1;
  std::string out;
  Json json;
  TuneOptions options;
  std::vector<TuneTask> tasks;
};

TuneReport scripted(const std::vector<TuneTask>& tasks, const TuneOptions& options) {
  TuneReport report;
  for (const TuneTask& t : tasks) {
    TaskResult r{.name = t.name,
                 .config = t.tmpl.default_config(),
                 .schedule = t.tmpl.instantiate(t.tmpl.default_config())};
    r.static_seconds = 2e-3;
    r.best_seconds = 1e-3;
    r.trials = 50;
    r.failures = 3;
    r.failures_by_kind = {{MeasureError::Crash, 2}, {MeasureError::Timeout, 1}};
    r.rejections = {{"too many registers", 40}};
    r.improved = true;
    report.tasks.push_back(std::move(r));
  }
  report.trials = 50 * static_cast<int>(tasks.size());
  report.elapsed_seconds = 5;
  report.ended = TuneEnd::Budget;
  report.time_spent = {{"measure", 4}, {"search", 1}, {"measure.compile", 3}};
  report.model = {.spearman = 0.61, .top10_recall = 0.5, .best_of_top10 = 0.97, .samples = 40};
  report.log = options.log;
  return report;
}

Ran run(Request request, const Tuner& tuner = scripted) {
  Ran ran;
  const std::string json = temporary("tune.json"), log = temporary("tune.jsonl");
  request.json_file = json;
  request.log = log;
  request.threads = 1;
  std::ostringstream out;
  ran.status =
      run_tune(request, {out}, [&](std::vector<TuneTask> tasks, const TuneOptions& options) {
        ran.options = options;
        ran.tasks = tasks;
        return tuner(tasks, options);
      });
  ran.out = out.str();
  ran.json = Json::parse(read_file(json));
  ::unlink(json.c_str());
  ::unlink(log.c_str());
  return ran;
}

Request request_of(std::vector<std::string> subjects) {
  Request r = request_for("tune");
  r.subjects = std::move(subjects);
  return r;
}

TEST(TuneCommand, PrintsTheTableAndWhereRecordsWent) {
  const Ran r = run(request_of({"matmul:16x16x16", "softmax:8x16"}));
  EXPECT_EQ(r.status, 0);
  for (const char* text :
       {"tuning 2 tasks for 1:00 on 1 thread", "matmul:16x16x16", "2.00x", "overall",
        "100 trials in 5.0 s, 20.0/s", "6 trials failed: 4 crash, 2 timeout",
        "80 candidates refused before measuring:\n  80 times: too many registers",
        "where the time went: measure 4.00 s (80%), search 1.00 s (20%)\n  measure: compile 3.00 s",
        "rank correlation 0.61 over 40 candidates",
        "HEDDLE_LOG_FILE=", " heddle bench matmul:16x16x16", "heddle report "}) {
    EXPECT_THAT(r.out, HasSubstr(text));
  }
}

TEST(TuneCommand, WritesTheSameAsJson) {
  const Ran r = run(request_of({"matmul:16x16x16", "softmax:8x16"}));
  EXPECT_DOUBLE_EQ(r.json.at("speedup").as_double(), 2);
  EXPECT_EQ(r.json.at("trials").as_int(), 100);
  EXPECT_EQ(r.json.at("ended").as_string(), "budget");
  EXPECT_FALSE(r.json.at("cancelled").as_bool());
  EXPECT_DOUBLE_EQ(r.json.at("budget_seconds").as_double(), 60);
  ASSERT_EQ(r.json.at("tasks").size(), 2u);
  const Json& task = r.json.at("tasks").at(0);
  EXPECT_EQ(task.at("name").as_string(), "matmul:16x16x16");
  EXPECT_DOUBLE_EQ(task.at("best_seconds").as_double(), 1e-3);
  EXPECT_DOUBLE_EQ(task.at("gflops").as_double(), 2.0 * 16 * 16 * 16 / 1e-3 * 1e-9);
  EXPECT_DOUBLE_EQ(task.at("share").as_double(), 0.5);
  EXPECT_EQ(task.at("failures_by_kind").at("crash").as_int(), 2);
  EXPECT_EQ(task.at("rejections").at(0).at("count").as_int(), 40);
  EXPECT_TRUE(r.json.at("tasks").at(1).contains("gb_per_s"));
  EXPECT_DOUBLE_EQ(r.json.at("model").at("spearman").as_double(), 0.61);
  EXPECT_DOUBLE_EQ(r.json.at("time_spent").at("measure.compile").as_double(), 3);
}

TEST(TuneCommand, SaysHowSureItIsAndWhatAnotherMinuteBuys) {
  const Tuner tuner = [](const std::vector<TuneTask>& tasks, const TuneOptions& options) {
    TuneReport report = scripted(tasks, options);
    report.ended = TuneEnd::Near;
    report.within = options.until;
    report.another_minute = 0.012;
    report.tasks[0].near = 0.91;
    report.tasks[1].near = 0.83;
    return report;
  };
  Request request = request_of({"matmul:16x16x16", "softmax:8x16"});
  EXPECT_THAT(run(request).out, Not(HasSubstr("probability")));
  request.until = "5%";
  const Ran r = run(request, tuner);
  EXPECT_THAT(r.out, HasSubstr("(near enough)"));
  EXPECT_THAT(r.out, HasSubstr("with probability 0.83 or more"));
  EXPECT_THAT(r.out, HasSubstr("another minute would save 1.2% of the time"));
  EXPECT_EQ(r.json.at("ended").as_string(), "near");
  EXPECT_DOUBLE_EQ(r.json.at("within").as_double(), 0.05);
  EXPECT_DOUBLE_EQ(r.json.at("another_minute").as_double(), 0.012);
  EXPECT_DOUBLE_EQ(r.json.at("tasks").at(1).at("near").as_double(), 0.83);
}

TEST(TuneCommand, OnAFleetNetworksAreRacedHereOnlyWhereThisMachineIsOfItsKind) {
  Request request = request_of({"digits"});
  request.fleet = "auto";
  const Ran here = run(request);
  EXPECT_NE(here.options.joint_race, nullptr);
  EXPECT_THAT(here.out, HasSubstr("the whole network is raced on this machine"));
  const std::string other = Target::host().chip() == "znver3" ? "znver4" : "znver3";
  request.target = "llvm -mcpu=" + other;
  const Ran elsewhere = run(request);
  EXPECT_EQ(elsewhere.options.joint_race, nullptr);
  EXPECT_THAT(elsewhere.out,
              HasSubstr("on one device of the fleet: this machine is no 'cpu:znver"));
  EXPECT_THAT(elsewhere.json.at("remarks").at(0).as_string(), HasSubstr("each task is raced"));
  request.fleet.clear();
  request.target = "llvm -mcpu=native";
  EXPECT_THAT(run(request).out, Not(HasSubstr("fleet")));
}

TEST(TuneCommand, HandsOverWhatWasAsked) {
  Request request = request_of({"matmul:16x16x16"});
  request.budget = "2m";
  request.trials = 77;
  request.until = "2.5%";
  request.seed = 5;
  request.round = 8;
  request.policy = "random";
  request.model = "random";
  request.no_warm_start = true;
  const Ran r = run(request);
  EXPECT_DOUBLE_EQ(r.options.budget.count(), 120);
  EXPECT_EQ(r.options.max_trials, 77);
  EXPECT_DOUBLE_EQ(r.options.until, 0.025);
  EXPECT_EQ(r.options.seed, 5u);
  EXPECT_EQ(r.options.batch, 8);
  EXPECT_TRUE(static_cast<bool>(r.options.policy));
  EXPECT_NE(r.options.model, nullptr);
  EXPECT_FALSE(r.options.warm_start);
  EXPECT_EQ(r.options.target->cores, 1);
  ASSERT_EQ(r.tasks.size(), 1u);
  // Inputs come from the subject's own ranges.
  EXPECT_FALSE(r.tasks[0].make_input);  // by default, so that tasks of one shape share them
}

TEST(TuneCommand, SubjectsOfOneDeclarationAreOneTask) {
  const Ran r = run(request_of({"matmul:16x16x16", "matmul:m=16,n=16,k=16"}));
  EXPECT_EQ(r.tasks.size(), 1u);
  EXPECT_DOUBLE_EQ(r.tasks[0].weight, 2);
  EXPECT_DOUBLE_EQ(r.json.at("tasks").at(0).at("calls").as_double(), 2);
}

TEST(TuneCommand, ANetworkIsTunedPartByPart) {
  const Ran r = run(request_of({"lenet:2"}));
  EXPECT_GT(r.tasks.size(), 2u);
  EXPECT_THAT(r.out, HasSubstr("for a program that builds the network"));
}

TEST(TuneCommand, AModelEndsWithTheCommandThatExportsIt) {
  const std::string model = source_dir() + "/tutorials/data/digits.onnx:batch=1";
  Request request = request_of({model});
  request.threads = 1;
  EXPECT_THAT(run(request).out, HasSubstr(" heddle export " + shell_word(model) + " --threads 1"));
}

TEST(TuneCommand, CtrlCStopsAndStillReports) {
  const Ran r = run(request_of({"matmul:16x16x16"}),
                    [](const std::vector<TuneTask>& tasks, const TuneOptions& options) {
                      EXPECT_FALSE(options.clock->expired());
                      std::raise(SIGINT);
                      EXPECT_TRUE(options.clock->cancelled());
                      options.progress(progress_at(1, 2));
                      // A second one would end the process.
                      struct sigaction now = {};
                      sigaction(SIGINT, nullptr, &now);
                      EXPECT_EQ(now.sa_handler, SIG_DFL);
                      return scripted(tasks, options);
                    });
  EXPECT_EQ(r.status, 130);
  EXPECT_THAT(r.out, HasSubstr("stopping..."));
  EXPECT_THAT(r.out, HasSubstr("(stopped before its time)"));
  EXPECT_THAT(r.out, HasSubstr("HEDDLE_LOG_FILE="));
  EXPECT_TRUE(r.json.at("cancelled").as_bool());
}

TEST(TuneCommand, NothingMeasuredIsAFailure) {
  const Ran r = run(request_of({"matmul:16x16x16"}),
                    [](const std::vector<TuneTask>& tasks, const TuneOptions& options) {
                      TuneReport report = scripted(tasks, options);
                      report.tasks[0].static_seconds = report.tasks[0].best_seconds = 0;
                      report.tasks[0].improved = false;
                      return report;
                    });
  EXPECT_EQ(r.status, 1);
  EXPECT_THAT(r.out, HasSubstr("matmul:16x16x16: nothing was measured"));
  EXPECT_EQ(r.json.at("tasks").at(0).at("speedup").as_double(), 0);
}

TEST(TuneCommand, ARunThatCannotGoOnIsAFailureThatKeepsTheResults) {
  Request request = request_of({"matmul:16x16x16"});
  request.quiet = true;
  ::testing::internal::CaptureStderr();
  const Ran r = run(request, [](const std::vector<TuneTask>& tasks, const TuneOptions& options) {
    TuneReport report = scripted(tasks, options);
    report.ended = TuneEnd::Failed;
    report.failure = "measuring matmul failed: no node of the fleet measures it";
    return report;
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(r.status, 1);
  EXPECT_THAT(said, HasSubstr("error: tuning could not go on: measuring matmul failed: no node"));
  EXPECT_THAT(said, HasSubstr("results are those of 50 trials before it"));
  EXPECT_DOUBLE_EQ(r.json.at("tasks").at(0).at("speedup").as_double(), 2);
  EXPECT_THAT(r.json.at("failure").as_string(), HasSubstr("no node of the fleet"));
}

TEST(TuneProcess, AFullDiskIsAFailureThatKeepsTheResults) {
  const std::string tune =
      "tune matmul:32x32x32 --budget 5s --trials 2 --round 2 --threads 1 --policy random "
      "--cost-model "
      "random --log /dev/full";
  const CommandResult r = heddle_command(tune + " --json -");
  EXPECT_EQ(r.status, 1);
  EXPECT_THAT(r.err, HasSubstr("error: the log is incomplete"));
  EXPECT_THAT(r.err, HasSubstr("could not be written to /dev/full"));
  EXPECT_THAT(r.err, Not(HasSubstr("HEDDLE_LOG_FILE")));
  EXPECT_GT(Json::parse(r.out).at("static_seconds").as_double(), 0);
  const CommandResult quiet = heddle_command(tune + " --quiet");
  EXPECT_EQ(quiet.status, 1);
  EXPECT_EQ(quiet.out, "");
  EXPECT_THAT(quiet.err, HasSubstr("error: the log is incomplete"));
}

TEST(TuneCommand, StaticThatStaysIsSaid) {
  const Ran r = run(request_of({"matmul:16x16x16"}),
                    [](const std::vector<TuneTask>& tasks, const TuneOptions& options) {
                      TuneReport report = scripted(tasks, options);
                      report.tasks[0].best_seconds = report.tasks[0].static_seconds;
                      report.tasks[0].improved = false;
                      return report;
                    });
  EXPECT_EQ(r.status, 0);
  EXPECT_THAT(r.out, HasSubstr("nothing beat the static schedule"));
}

// ---- the real one
// ----------------------------------------------------------------------------------

TEST(TuneProcess, TunesReportsAndGoesOn) {
  const std::string log = temporary("real.jsonl"), page = temporary("real.html");
  const std::string tune =
      "tune matmul:32x32x32 --budget 5s --trials 6 --round 6 --threads 1 --policy random "
      "--cost-model "
      "random --log " +
      log;
  const CommandResult r = heddle_command(tune + " --json -");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("records are in " + log));
  const Json j = Json::parse(r.out);
  EXPECT_GE(j.at("trials").as_int(), 1);
  EXPECT_GE(j.at("speedup").as_double(), 1);
  EXPECT_EQ(heddle_command(tune + " --quiet").out, "");
  const CommandResult report = heddle_command("report " + log + " -o " + page);
  EXPECT_EQ(report.status, 0) << report.err;
  EXPECT_THAT(report.out, HasSubstr("of 1 task"));
  EXPECT_THAT(read_file(page), HasSubstr("matmul:32x32x32"));
  ::unlink(log.c_str());
  ::unlink(page.c_str());
}

}  // namespace
}  // namespace heddle::cli
