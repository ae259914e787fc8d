// The tune loop, with fake measurers.
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <limits>
#include <thread>

#include "search/history.h"
#include "search/tune_log.h"
#include "search/tune_testing.h"

namespace heddle::testing {
namespace {

using enum MeasureError;

TEST_F(Tune, FindsSomethingFasterAndSaysSo) {
  TuneTask task = matmul_task();
  FakeMeasurer m(on_landscape(3));
  TuneReport report = tune_tasks({task}, options(m, 100));
  const TaskResult& r = report.tasks.at(0);
  double static_seconds = landscape(task.tmpl.instantiate(task.tmpl.default_config()), 3);
  EXPECT_TRUE(r.improved);
  EXPECT_EQ(r.static_seconds, static_seconds);
  EXPECT_LT(r.best_seconds, 0.9 * static_seconds);
  EXPECT_EQ(landscape(r.schedule, 3), r.best_seconds);
  ASSERT_TRUE(r.config.has_value());
  EXPECT_EQ(measuring::steps_hash(task.tmpl.instantiate(*r.config)),
            measuring::steps_hash(r.schedule));
  EXPECT_EQ(report.trials, 100);
  EXPECT_EQ(report.ended, TuneEnd::Trials);
  EXPECT_FALSE(report.cancelled);
  EXPECT_TRUE(report.problems.empty());
  EXPECT_EQ(m.repeated, 0);
  EXPECT_EQ(m.raced, (std::vector<size_t>{7}));
  EXPECT_GT(report.model.samples, 50);
  EXPECT_GT(report.model.spearman, 0.2);
  auto spent = [&](const std::string& phase) {
    return std::any_of(report.time_spent.begin(), report.time_spent.end(),
                       [&](const auto& p) { return p.first == phase; });
  };
  EXPECT_TRUE(spent("search") && spent("measure") && spent("measure.run") && spent("train"));
}

TEST_F(Tune, MeasuresTheStaticChoiceFirstAndGivesTheBestForCutOff) {
  TuneTask task = matmul_task();
  std::vector<uint64_t> order;
  FakeMeasurer m([&](const TuneTask&, const Schedule& s) {
    order.push_back(measuring::steps_hash(s));
    return seconds_of(landscape(s, 1));
  });
  tune_tasks({task}, options(m, 30));
  EXPECT_EQ(order.at(0), key_of(task, task.tmpl.default_config()));
  EXPECT_EQ(m.best_given.at(0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(m.best_given.at(1), landscape(task.tmpl.instantiate(task.tmpl.default_config()), 1));
}

TEST_F(Tune, IsDeterministic) {
  auto run = [&](uint64_t seed) {
    FakeMeasurer m(on_landscape(3));
    TuneOptions o = options(m, 80);
    o.seed = seed;
    tune_tasks({matmul_task(), softmax_task()}, o);
    return std::pair(m.keys, m.measured);
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1).first, run(2).first);
}

TEST_F(Tune, NeverReturnsWhatLosesTheRace) {
  // Screening errs by a factor of two in either direction. Only the race measures the true times.
  TuneTask task = matmul_task();
  uint64_t fixed = key_of(task, task.tmpl.default_config());
  auto lies = [&](const TuneTask&, const Schedule& s) {
    return seconds_of(1e-3 * (0.5 + 1.5 * unit(measuring::steps_hash(s))));
  };
  auto truth = [&](const TuneTask&, const Schedule& s) {
    return seconds_of(measuring::steps_hash(s) == fixed ? 1e-3 : 1.01e-3);
  };
  FakeMeasurer m(lies, truth);
  TaskResult r = tune_tasks({task}, options(m)).tasks[0];
  EXPECT_FALSE(r.improved);
  EXPECT_EQ(measuring::steps_hash(r.schedule), fixed);
  EXPECT_EQ(r.best_seconds, 1e-3);
  EXPECT_EQ(m.raced.size(), 1u);
}

TEST_F(Tune, ALuckyTimeDoesNotKeepTheOthersOutOfTheRace) {
  // One candidate looks ten times as fast as it is; the next best is the one to find.
  TuneTask task = matmul_task();
  uint64_t fixed = key_of(task, task.tmpl.default_config());
  uint64_t lucky = 0;
  FakeMeasurer m(
      [&](const TuneTask&, const Schedule& s) {
        if (lucky == 0 && measuring::steps_hash(s) != fixed) lucky = measuring::steps_hash(s);
        return seconds_of(measuring::steps_hash(s) == lucky ? 1e-5 : landscape(s, 3));
      },
      [&](const TuneTask&, const Schedule& s) {
        return seconds_of(measuring::steps_hash(s) == lucky ? 1 : landscape(s, 3));
      });
  TaskResult r = tune_tasks({task}, options(m, 100)).tasks[0];
  EXPECT_TRUE(r.improved);
  EXPECT_NE(measuring::steps_hash(r.schedule), lucky);
  EXPECT_EQ(m.raced, (std::vector<size_t>{4}));  // three leaders and the static choice
}

TEST_F(Tune, AWrongAnswerFoundInTheRaceDoesNotWin) {
  TuneTask task = matmul_task();
  uint64_t fixed = key_of(task, task.tmpl.default_config());
  FakeMeasurer m(on_landscape(3), [&](const TuneTask&, const Schedule& s) {
    return measuring::steps_hash(s) == fixed ? seconds_of(landscape(s, 3)) : failure(WrongAnswer);
  });
  TuneOptions o = options(m);
  o.log = path("wrong.jsonl");
  TaskResult r = tune_tasks({task}, o).tasks[0];
  EXPECT_FALSE(r.improved);
  ASSERT_EQ(r.failures_by_kind.size(), 1u);
  EXPECT_EQ(r.failures_by_kind[0].first, WrongAnswer);
  // It is known to the next run as well.
  int known = 0;
  for (const auto& t :
       search::history_of(task, read_records(o.log).records, "warm fake", nullptr).trials)
    known += t.error == WrongAnswer;
  EXPECT_EQ(known, r.failures_by_kind[0].second);
}

TEST_F(Tune, EverythingFailing) {
  for (MeasureError kind : {Crash, Timeout, OutOfMemory, WrongAnswer, Compile}) {
    TuneTask task = splits_task();
    FakeMeasurer m([&](const TuneTask&, const Schedule&) { return failure(kind); });
    TuneReport report = tune_tasks({task}, options(m));
    const TaskResult& r = report.tasks[0];
    EXPECT_FALSE(r.improved);
    EXPECT_EQ(r.static_seconds, 0);
    EXPECT_EQ(measuring::steps_hash(r.schedule), key_of(task, task.tmpl.default_config()));
    // Where the static choice is refused, the check is in doubt, and no other is tried.
    const int failures = kind == WrongAnswer ? 1 : 12;
    EXPECT_EQ(r.failures, failures);
    EXPECT_EQ(r.failures_by_kind, (std::vector<std::pair<MeasureError, int>>{{kind, failures}}));
    EXPECT_EQ(report.problems.size(), kind == WrongAnswer ? 1u : 0u);
    EXPECT_EQ(report.ended, TuneEnd::Converged);
    EXPECT_TRUE(m.raced.empty());
  }
}

TEST_F(Tune, WhatWorksBeatsAStaticChoiceThatDoesNot) {
  TuneTask task = matmul_task();
  uint64_t fixed = key_of(task, task.tmpl.default_config());
  FakeMeasurer m([&](const TuneTask&, const Schedule& s) {
    return measuring::steps_hash(s) == fixed ? failure(Crash) : seconds_of(landscape(s, 3));
  });
  TaskResult r = tune_tasks({task}, options(m)).tasks[0];
  EXPECT_TRUE(r.improved);
  EXPECT_NE(measuring::steps_hash(r.schedule), fixed);
}

TEST_F(Tune, AStaticChoiceThatTheCheckRefusesIsReturnedAndReported) {
  const TuneTask task = matmul_task(64), other = matmul_task(48);
  const uint64_t fixed = key_of(task, task.tmpl.default_config());
  FakeMeasurer m([&](const TuneTask& t, const Schedule& s) {
    return t.name == task.name && measuring::steps_hash(s) == fixed ? failure(WrongAnswer)
                                                                    : seconds_of(landscape(s, 3));
  });
  TuneOptions o = options(m, 60);
  o.log = path("doubt.jsonl");
  TuneReport report = tune_tasks({task, other}, o);
  EXPECT_FALSE(report.tasks[0].improved);
  EXPECT_EQ(measuring::steps_hash(report.tasks[0].schedule), fixed);
  EXPECT_EQ(report.tasks[0].trials, 1);
  EXPECT_EQ(report.tasks[0].best_seconds, 0);
  EXPECT_TRUE(report.tasks[1].improved);
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_NE(report.problems[0].find("refused the static choice"), std::string::npos);
  EXPECT_NE(report.problems[0].find("'" + task.name + "'"), std::string::npos);
  // A check that has been corrected is used again.
  FakeMeasurer mended(on_landscape(3));
  TuneOptions again = options(mended, 60);
  again.log = o.log;
  report = tune_tasks({task}, again);
  EXPECT_TRUE(report.problems.empty());
  EXPECT_TRUE(report.tasks[0].improved);
  EXPECT_GT(report.tasks[0].static_seconds, 0);
}

TEST_F(Tune, AStaticChoiceRefusedInTheRaceIsReturnedAndReported) {
  const TuneTask task = matmul_task();
  const uint64_t fixed = key_of(task, task.tmpl.default_config());
  FakeMeasurer m(on_landscape(3), [&](const TuneTask&, const Schedule& s) {
    return measuring::steps_hash(s) == fixed ? failure(WrongAnswer) : seconds_of(1e-6);
  });
  const TuneReport report = tune_tasks({task}, options(m));
  EXPECT_FALSE(report.tasks[0].improved);
  EXPECT_EQ(measuring::steps_hash(report.tasks[0].schedule), fixed);
  EXPECT_EQ(report.problems.size(), 1u);
}

TEST_F(Tune, WhatDidNotRaceIsNotReturned) {
  // By far the best of the screening, but never compared with the static choice.
  const TuneTask task = matmul_task();
  const uint64_t fixed = key_of(task, task.tmpl.default_config());
  FakeMeasurer m(
      [&](const TuneTask&, const Schedule& s) {
        return seconds_of(measuring::steps_hash(s) == fixed ? 1e-3 : 1e-4);
      },
      [&](const TuneTask&, const Schedule&) { return failure(MeasureError::Cancelled); });
  const TaskResult r = tune_tasks({task}, options(m)).tasks[0];
  EXPECT_FALSE(r.improved);
  EXPECT_EQ(measuring::steps_hash(r.schedule), fixed);
  EXPECT_EQ(r.best_seconds, r.static_seconds);
}

// The machine becomes three times as fast halfway. A comparison of plain times would discard all
// earlier measurements. The model learns, and races compare, ratios to the static choice.
TEST_F(Tune, AMachineThatDriftsIsNotWhatIsLearned) {
  const TuneTask task = matmul_task();
  const uint64_t fixed = key_of(task, task.tmpl.default_config());
  std::vector<std::pair<double, double>> times;  // true, as measured
  uint64_t best = 0;
  double least = 1;
  FakeMeasurer m(
      [&](const TuneTask& t, const Schedule& s) {
        const double drift = times.size() < 20 ? 1 : 1.0 / 3, truth = landscape(s, 3);
        MeasureResult r = seconds_of(drift * truth);
        if (measuring::steps_hash(s) != fixed) {
          r.base_seconds = drift * landscape(t.tmpl.instantiate(t.tmpl.default_config()), 3);
        }
        times.emplace_back(truth, r.median());
        if (truth < least) {
          least = truth;
          best = measuring::steps_hash(s);
        }
        return r;
      },
      [&](const TuneTask&, const Schedule& s) { return seconds_of(landscape(s, 3)); });
  TuneOptions o = options(m, 40);
  // Nothing depends on what is measured: the same candidates with and without drift.
  o.policy = [](const SearchContext& c) { return make_random_policy(c); };
  o.log = path("drift.jsonl");
  TuneProgress last;
  o.progress = [&](const TuneProgress& p) {
    if (p.phase == "train") last = p;
  };
  const TaskResult r = tune_tasks({task}, o).tasks[0];
  EXPECT_NEAR(last.tasks[0].best_seconds, least, 1e-9);
  EXPECT_EQ(measuring::steps_hash(r.schedule), best);
  // A second run knows it as well.
  const search::History h =
      search::history_of(task, read_records(o.log).records, "warm fake", nullptr);
  ASSERT_GT(h.trials.size(), 30u);
  double known = 1;
  for (const search::History::Measured& t : h.trials) {
    if (t.base_seconds <= 0) continue;
    known = std::min(known, t.seconds / t.base_seconds);
  }
  EXPECT_NEAR(known, least / landscape(task.tmpl.instantiate(task.tmpl.default_config()), 3), 1e-9);
}

TEST_F(Tune, AMeasurerWithoutTimesIsACrash) {
  FakeMeasurer m([](const TuneTask&, const Schedule&) { return MeasureResult(); });
  TaskResult r = tune_tasks({splits_task()}, options(m)).tasks[0];
  EXPECT_EQ(r.failures_by_kind, (std::vector<std::pair<MeasureError, int>>{{Crash, 12}}));
}

TEST_F(Tune, EndsWhenTheSpaceIsExhausted) {
  FakeMeasurer m(on_landscape(1));
  TuneReport report = tune_tasks({splits_task()}, options(m, 1000));
  EXPECT_EQ(report.trials, 12);
  EXPECT_EQ(report.ended, TuneEnd::Converged);
  EXPECT_EQ(m.repeated, 0);
}

TEST_F(Tune, ConvergesWithoutGains) {
  FakeMeasurer m([](const TuneTask&, const Schedule&) { return seconds_of(1); });
  TuneOptions o = options(m, 5000);
  o.patience = 3;
  TuneReport report = tune_tasks({matmul_task()}, o);
  EXPECT_EQ(report.trials, 1 + 8 + 8 + 8);
  EXPECT_EQ(report.ended, TuneEnd::Converged);
}

TEST_F(Tune, CancellationEndsItCleanlyAnywhere) {
  TuneTask task = matmul_task();
  for (size_t after : {0, 1, 5, 17, 30}) {
    FakeMeasurer m(on_landscape(3));
    TuneClock clock;
    TuneOptions o = options(m, 1000);
    o.clock = &clock;
    o.log = path("cancel" + std::to_string(after) + ".jsonl");
    m.before_each = [&](size_t measured) {
      if (measured == after) clock.cancel();
    };
    TuneReport report = tune_tasks({task}, o);
    EXPECT_TRUE(report.cancelled);
    EXPECT_EQ(report.ended, TuneEnd::Cancelled);
    EXPECT_EQ(report.trials, static_cast<int>(after));
    EXPECT_EQ(configs_in(o.log).size(), after);
    EXPECT_LE(m.raced.size(), 1u);  // what seems to gain, shortly
    const TaskResult& r = report.tasks[0];
    if (r.improved) {
      EXPECT_LT(r.best_seconds, 0.9 * r.static_seconds);
    }
    // A look-up finds what was returned, and no lucky time of the screening.
    RecordDatabase db;
    db.add_file(o.log);
    if (after >= 5) {
      const Record* found = db.best(task.tmpl.dag().structural_hash(), task.tmpl.target());
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found->config, task.tmpl.config_to_json(*r.config));
      const Schedule again = Schedule::from_json(found->steps, r.schedule.dag());
      EXPECT_EQ(measuring::steps_hash(again), measuring::steps_hash(r.schedule));
      EXPECT_EQ(found->verdict, m.raced.empty() ? Verdict::Chosen : Verdict::Won);
    }
    if (after == 30) {
      EXPECT_TRUE(r.improved);
    }
  }
}

TEST_F(Tune, CancellationInTheRaceKeepsTheBestSoFar) {
  FakeMeasurer m(on_landscape(3));
  TuneClock clock;
  TuneOptions o = options(m, 60);
  o.clock = &clock;
  o.progress = [&](const TuneProgress& p) {
    if (p.phase == "race") clock.cancel();
  };
  TuneReport report = tune_tasks({matmul_task()}, o);
  EXPECT_TRUE(report.cancelled);
  EXPECT_TRUE(report.tasks[0].improved);
  EXPECT_LT(report.tasks[0].best_seconds, 0.95 * report.tasks[0].static_seconds);
}

TEST_F(Tune, KeepsToTheBudget) {
  FakeMeasurer m(on_landscape(3));
  m.last_before_the_end = 20;
  TuneOptions o = options(m, 0);
  o.budget = std::chrono::milliseconds(600);
  o.patience = 0;
  TuneReport report = tune_tasks({matmul_task()}, o);
  EXPECT_EQ(report.ended, TuneEnd::Budget);
  EXPECT_GT(report.trials, 1);
  EXPECT_LE(report.trials, 20);   // none is measured when the time is over
  EXPECT_EQ(m.raced.size(), 1u);  // there was time left for it
}

TEST_F(Tune, ABudgetThatIsOverAtOnceGivesTheStaticChoice) {
  FakeMeasurer m(on_landscape(3));
  TuneOptions o = options(m, 0);
  o.budget = std::chrono::nanoseconds(1);
  TuneReport report = tune_tasks({matmul_task()}, o);
  EXPECT_EQ(report.trials, 0);
  EXPECT_FALSE(report.tasks[0].improved);
  EXPECT_EQ(report.ended, TuneEnd::Budget);
}

/// Files cannot grow beyond so many bytes while it lives: a disk that is full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { free(); }
  void free() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};

TEST_F(Tune, AFullDiskDoesNotLoseTheResult) {
  FakeMeasurer m(on_landscape(3));
  TuneOptions o = options(m, 40);
  o.log = path("full.jsonl");
  TuneReport report;
  {
    FullDisk full(40'000);
    report = tune_tasks({matmul_task()}, o);
  }
  EXPECT_TRUE(report.tasks[0].improved);
  EXPECT_EQ(report.trials, 40);
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_NE(report.problems[0].find("records could not be written to"), std::string::npos);
  // What was written is whole.
  ReadResult read = read_records(o.log);
  EXPECT_GT(read.records.size(), 0u);
  EXPECT_LT(read.records.size(), 40u);
  EXPECT_TRUE(read.problems.empty());
}

TEST_F(Tune, RecordsAreWrittenOnceThereIsRoomAgain) {
  FakeMeasurer m(on_landscape(3));
  TuneOptions o = options(m, 40);
  o.log = path("room.jsonl");
  FullDisk full(40'000);
  m.before_each = [&](size_t measured) {
    if (measured == 30) full.free();
  };
  TuneReport report = tune_tasks({matmul_task()}, o);
  EXPECT_TRUE(report.problems.empty());
  EXPECT_EQ(configs_in(o.log).size(), 40u);
}

TEST_F(Tune, ALogThatCannotBeOpenedIsAnErrorBeforeAnythingIsMeasured) {
  FakeMeasurer m(on_landscape(3));
  TuneOptions o = options(m);
  std::ofstream(path("file")) << "x";
  o.log = path("file/log.jsonl");
  EXPECT_THROW(tune_tasks({matmul_task()}, o), Error);
  EXPECT_EQ(m.batches, 0);
}

TEST_F(Tune, LinesThatCannotBeReadAreReported) {
  std::ofstream(path("bad.jsonl")) << "{\"version\": 1\n";
  FakeMeasurer m(on_landscape(3));
  TuneOptions o = options(m, 20);
  o.log = path("bad.jsonl");
  TuneReport report = tune_tasks({matmul_task()}, o);
  EXPECT_EQ(report.problems.size(), 1u);
  EXPECT_EQ(configs_in(o.log).size(), 20u);
}

TEST_F(Tune, AMeasurerThatGivesUpEndsTheSearchNotTheResult) {
  FakeMeasurer m(on_landscape(3));
  m.before_each = [](size_t measured) {
    if (measured == 40) throw_runtime_error("the board does not answer");
  };
  TuneReport report = tune_tasks({matmul_task()}, options(m, 100));
  EXPECT_EQ(report.ended, TuneEnd::Failed);
  EXPECT_EQ(report.trials, 40);
  EXPECT_TRUE(report.tasks[0].improved);
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_NE(report.problems[0].find("the board does not answer"), std::string::npos);
  EXPECT_EQ(report.failure, report.problems[0]);
  FakeMeasurer well(on_landscape(3));
  EXPECT_EQ(tune_tasks({matmul_task()}, options(well, 20)).failure, "");

  FakeMeasurer dead(on_landscape(3));
  dead.before_each = [](size_t) { throw_runtime_error("no board"); };
  EXPECT_THROW(tune_tasks({matmul_task()}, options(dead)), Error);
}

TEST_F(Tune, EveryTaskGetsARoundAndTheHeavyOneMost) {
  std::vector<TuneTask> tasks{matmul_task(64), matmul_task(48), matmul_task(32)};
  tasks[1].weight = 20;
  FakeMeasurer m(on_landscape(3));
  TuneOptions o = options(m, 240);
  o.log = path("calls.jsonl");
  TuneReport report = tune_tasks(tasks, o);
  for (const Record& r : read_records(o.log).records)
    EXPECT_EQ(r.calls, r.subject == tasks[1].name ? 20 : 1);
  for (const TaskResult& r : report.tasks) EXPECT_GE(r.trials, 9);
  EXPECT_GT(report.tasks[1].trials, report.tasks[0].trials + report.tasks[2].trials);
  EXPECT_EQ(report.tasks[0].trials + report.tasks[1].trials + report.tasks[2].trials,
            report.trials);
  EXPECT_EQ(m.raced.size(), 3u);
}

// Proposes these, a batch at a time, and nothing else.
class ListPolicy : public SearchPolicy {
 public:
  explicit ListPolicy(std::vector<Config> list) : list_(std::move(list)) {}
  std::string name() const override { return "list"; }
  std::vector<Config> propose(int count) override {
    std::vector<Config> out;
    while (!list_.empty() && static_cast<int>(out.size()) < count) {
      out.push_back(list_.front());
      list_.erase(list_.begin());
    }
    return out;
  }
  void report(std::span<const Trial>) override {}

 private:
  std::vector<Config> list_;
};

TuneTask rows_task(int64_t rows) {
  Tensor a = placeholder({Expr(rows), 96}, f32, "A");
  Tensor b = compute({Expr(rows), 96}, [&](Axis i, Axis j) { return a(i, j) + 1.f; }, "B");
  TemplateBuilder t(ComputeDag({b}), test_target());
  const Param x = t.knob("x", {1, 2, 4, 8, 16, 32}, 1);
  StageRef s = t.stage(1);
  s.split(s.axis(0), x);
  return {.name = "rows" + std::to_string(rows), .args = {a, b}, .tmpl = t.finish("rows")};
}

TEST_F(Tune, WhatWonForATaskIsTriedForOneOfItsShapeClass) {
  std::vector<TuneTask> tasks{rows_task(64), rows_task(128)};
  tasks[0].weight = 1000;  // it goes first
  const uint64_t fast = key_of(tasks[0], {{16}}), same = key_of(tasks[1], {{16}});
  std::set<uint64_t> measured;
  FakeMeasurer m([&](const TuneTask&, const Schedule& s) {
    measured.insert(measuring::steps_hash(s));
    return seconds_of(measuring::steps_hash(s) == fast ? 0.5e-3 : 1e-3);
  });
  TuneOptions o = options(m, 100);
  o.policy = [&](const SearchContext& c) -> std::unique_ptr<SearchPolicy> {
    const bool first = c.task->name == tasks[0].name;
    return std::make_unique<ListPolicy>(first ? std::vector<Config>{{{2}}, {{16}}}
                                              : std::vector<Config>{{{4}}, {{8}}});
  };
  const TuneReport report = tune_tasks(tasks, o);
  EXPECT_TRUE(measured.contains(same));
  EXPECT_EQ(report.tasks[1].trials, 4);  // static, what it proposed, and what the other gained by
  EXPECT_EQ(report.tasks[0].trials, 3);
}

TEST_F(Tune, ProgressTellsOfEveryResult) {
  std::vector<TuneTask> tasks{matmul_task(64), matmul_task(48)};
  tasks[0].weight = 3;
  FakeMeasurer m(on_landscape(3));
  TuneOptions o = options(m, 60);
  std::vector<TuneProgress> seen;
  o.progress = [&](const TuneProgress& p) { seen.push_back(p); };
  TuneReport report = tune_tasks(tasks, o);
  std::set<std::string> phases;
  int trials = 0;
  double best = std::numeric_limits<double>::infinity();
  for (const TuneProgress& p : seen) {
    phases.insert(p.phase);
    EXPECT_TRUE(p.trials == trials || p.trials == trials + 1);
    trials = p.trials;
    ASSERT_EQ(p.tasks.size(), 2u);
    if (p.tasks[0].best_seconds > 0 && p.tasks[1].best_seconds > 0 && p.phase != "done") {
      EXPECT_LE(p.best_seconds, best);
      best = p.best_seconds;
      EXPECT_DOUBLE_EQ(p.static_seconds, 3 * p.tasks[0].static_seconds + p.tasks[1].static_seconds);
    }
  }
  EXPECT_EQ(trials, 60);
  EXPECT_EQ(phases,
            (std::set<std::string>{"static", "search", "measure", "train", "race", "done"}));
  EXPECT_EQ(seen.back().phase, "done");
  EXPECT_DOUBLE_EQ(seen.back().best_seconds,
                   3 * report.tasks[0].best_seconds + report.tasks[1].best_seconds);
}

TEST_F(Tune, SomebodysOwnPolicyMayErr) {
  // Proposes an illegal config, one twice, and the static choice again and again.
  struct Stubborn : SearchPolicy {
    std::string name() const override { return "stubborn"; }
    std::vector<Config> propose(int) override { return {{{3, 1}}, {{2, 2}}, {{2, 2}}, {{1, 1}}}; }
    void report(std::span<const Trial> trials) override { reported += trials.size(); }
    size_t reported = 0;
  };
  FakeMeasurer m(on_landscape(1));
  TuneOptions o = options(m);
  o.policy = [](const SearchContext&) { return std::make_unique<Stubborn>(); };
  TuneReport report = tune_tasks({splits_task()}, o);
  EXPECT_EQ(report.trials, 2);
  EXPECT_EQ(m.repeated, 0);
  EXPECT_EQ(report.ended, TuneEnd::Converged);
  ASSERT_EQ(report.tasks[0].rejections.size(), 1u);
  EXPECT_NE(report.tasks[0].rejections[0].reason.find("knob 'x' cannot be 3"), std::string::npos);
}

TEST_F(Tune, BadOptionsAreRefused) {
  FakeMeasurer m(on_landscape(1));
  TuneOptions o = options(m);
  EXPECT_THROW(tune_tasks({}, o), Error);
  o.batch = 0;
  EXPECT_THROW(tune_tasks({splits_task()}, o), Error);
  for (const double seconds : {0.0, -5.0, std::numeric_limits<double>::quiet_NaN()}) {
    o = options(m);
    o.budget = std::chrono::duration<double>(seconds);
    EXPECT_THROW(tune_tasks({splits_task()}, o), Error) << seconds;
  }
  o = options(m, -1);
  EXPECT_THROW(tune_tasks({splits_task()}, o), Error);
  o = options(m);
  o.final_race_share = 1;
  EXPECT_THROW(tune_tasks({splits_task()}, o), Error);
  o = options(m);
  o.log = path("tf32.jsonl");  // it would answer where tf32 is not allowed
  const AutoSchedulerOptionsScope scope({.allow_tf32 = true});
  EXPECT_THROW(tune_tasks({matmul_task()}, o), Error);
}

TEST_F(Tune, TheShortWay) {
  FakeMeasurer m(on_landscape(3));
  TuneOptions o = options(m, 30);
  o.target = test_target();
  TuneResult best = tune({ops::matmul(placeholder({32, 48}), placeholder({48, 64}))}, o);
  EXPECT_EQ(best.name, "matmul[32x64]");
  EXPECT_EQ(best.report.trials, 30);
  EXPECT_EQ(best.report.tasks.size(), 1u);
  EXPECT_EQ(best.best_seconds, best.report.tasks[0].best_seconds);
  EXPECT_LE(best.best_seconds, best.static_seconds);
}

}  // namespace
}  // namespace heddle::testing
