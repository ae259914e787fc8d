// The data that the tune loop takes from logs of its own earlier runs and of other shapes.
#include "dag/declaration/declaration.h"
#include "records/nearest_config.h"
#include "search/history.h"
#include "search/tune_testing.h"

namespace heddle::testing {
namespace {

using enum MeasureError;

// The declaration of a task is in the first of its records, once for each log.
TEST_F(Tune, ALogHasTheDeclarationOfEachTaskOnce) {
  const std::string log = path("log.jsonl");
  for (const int trials : {8, 8}) {
    FakeMeasurer measurer(on_landscape(3));
    TuneOptions o = options(measurer, trials);
    o.log = log;
    tune_tasks({matmul_task()}, o);
  }
  std::vector<Record> with;
  for (Record& r : read_records(log).records) {
    if (!r.declaration.is_null()) with.push_back(std::move(r));
  }
  ASSERT_EQ(with.size(), 1u);
  EXPECT_EQ(declaration_from_json(with[0].declaration).dag.structural_hash(),
            with[0].structural_hash);
}

TEST_F(Tune, ASecondRunMeasuresNothingTwice) {
  FakeMeasurer first(on_landscape(3));
  TuneOptions o = options(first, 40);
  o.log = path("log.jsonl");
  TaskResult before = tune_tasks({matmul_task()}, o).tasks[0];
  std::set<std::string> known = configs_in(o.log);
  EXPECT_EQ(known.size(), 40u);

  FakeMeasurer second(on_landscape(3));
  TuneOptions more = options(second, 40);
  more.log = o.log;
  int resumed = -1;
  more.progress = [&](const TuneProgress& p) { resumed = p.tasks[0].resumed; };
  TaskResult after = tune_tasks({matmul_task()}, more).tasks[0];
  EXPECT_EQ(resumed, 40);
  EXPECT_EQ(second.measured.size(), 40u);
  for (uint64_t key : second.keys) EXPECT_FALSE(first.keys.contains(key));
  EXPECT_EQ(configs_in(o.log).size(), 80u);
  EXPECT_LE(after.best_seconds, before.best_seconds);
  EXPECT_EQ(after.static_seconds, before.static_seconds);
}

TEST_F(Tune, ARunCutAtAnyBatchGoesOnToTheSameSet) {
  auto measured = [&](const std::vector<int>& cuts, const std::string& name) {
    for (int trials : cuts) {
      FakeMeasurer m(on_landscape(3));
      TuneOptions o = options(m, trials);
      o.log = path(name);
      o.batch = 8;
      o.final_race_share = 0;
      tune_tasks({matmul_task()}, o);
    }
    return configs_in(path(name));
  };
  // Rounds: the static choice, 4, 4, then 8 each; after resumption again 4, 4. So the batches are
  // made equal: what is compared are the sets at the same numbers of trials.
  std::set<std::string> whole = measured({1, 4, 4, 8}, "whole.jsonl");
  EXPECT_EQ(whole.size(), 17u);
  EXPECT_EQ(measured({5, 4, 8}, "a.jsonl"), whole);
  EXPECT_EQ(measured({9, 8}, "b.jsonl"), whole);
  EXPECT_EQ(measured({1, 8, 8}, "c.jsonl"), whole);
}

TEST_F(Tune, FailuresAreNotTriedAgainEither) {
  TuneTask task = splits_task();
  FakeMeasurer first([](const TuneTask&, const Schedule&) { return failure(Timeout); });
  TuneOptions o = options(first);
  o.log = path("failures.jsonl");
  tune_tasks({task}, o);
  FakeMeasurer second(on_landscape(1));
  o.measurer = &second;
  TuneReport report = tune_tasks({task}, o);
  EXPECT_EQ(report.trials, 0);
  EXPECT_FALSE(report.tasks[0].improved);
}

TEST_F(Tune, TimesOfAnotherProtocolAreSeedsOnly) {
  TuneTask task = matmul_task();
  FakeMeasurer cold(on_landscape(3));
  cold.protocol_name = "cold fake";
  TuneOptions o = options(cold, 30);
  o.log = path("protocols.jsonl");
  o.final_race_share = 0;
  tune_tasks({task}, o);
  // Races count for both; without them:
  std::vector<Record> records = read_records(o.log).records;
  std::erase_if(records, [](const Record& r) { return r.raced(); });
  search::History h = search::history_of(task, records, "warm fake", nullptr);
  EXPECT_TRUE(h.trials.empty());
  ASSERT_EQ(h.seeds.size(), 4u);
  std::stable_sort(records.begin(), records.end(),
                   [](const Record& a, const Record& b) { return a.median() < b.median(); });
  EXPECT_EQ(h.seeds[0], task.tmpl.config_from_json(records[0].config));
  EXPECT_EQ(search::history_of(task, records, "cold other", nullptr).trials.size(), 30u);
}

TEST_F(Tune, SeedsComeFromTheNearestShapes) {
  FakeMeasurer m(on_landscape(3));
  TuneOptions o = options(m, 20);
  o.log = path("shapes.jsonl");
  tune_tasks({matmul_task(64, 96, 128)}, o);
  TuneTask other = matmul_task(32, 96, 128);
  search::History h = search::history_of(other, read_records(o.log).records, "warm fake", nullptr);
  EXPECT_TRUE(h.trials.empty());
  ASSERT_FALSE(h.seeds.empty());
  for (const Config& c : h.seeds) EXPECT_EQ(other.tmpl.why_invalid(c), "");

  RecordDatabase shipped;
  shipped.add_file(o.log);
  EXPECT_EQ(search::history_of(other, {}, "warm fake", &shipped).seeds, h.seeds);
}

TEST_F(Tune, ConfigsOfOtherShapesAreClampedToWhatIsLegal) {
  TuneTask task =
      knobs_task({{"x", {1, 2, 4, 8}}, {"y", {1, 2, 4, 8}}, {"z", {0, 1}}},
                 [](TemplateBuilder& t, const std::vector<Param>& p) {
                   Param x = p[0], y = p[1];
                   t.require("small", [x, y](const auto& v) { return v(x) * v(y) <= 16; });
                 });
  auto near = [&](const char* json) {
    return records::nearest_config(task.tmpl, Json::parse(json)).values;
  };
  using V = std::vector<int64_t>;
  EXPECT_EQ(near(R"({"x": 4, "y": 2, "z": 1})"), (V{4, 2, 1}));
  EXPECT_EQ(near(R"({"x": 3, "y": 100, "other": 7})"), (V{1, 8, 0}));  // 4 x 8 is refused
  EXPECT_EQ(near(R"({"x": 1000})"), (V{8, 1, 0}));
  EXPECT_EQ(near(R"({"x": "eight", "z": -5})"), (V{1, 1, 0}));
  EXPECT_EQ(near("[]"), (V{1, 1, 0}));
}

TEST_F(Tune, ARecordOfAnotherTemplateVersionRacesBySteps) {
  TuneTask task = matmul_task();
  FakeMeasurer m(on_landscape(3));
  TuneOptions o = options(m, 40);
  o.log = path("old.jsonl");
  TaskResult found = tune_tasks({task}, o).tasks[0];
  ASSERT_TRUE(found.improved);
  // The same records as an older template would have left them.
  std::string old = path("older.jsonl");
  {
    RecordLog log(old);
    for (Record r : read_records(o.log).records) {
      r.template_version ^= 1;
      r.config = Json::object({{"a_knob_of_old", Json(3)}});
      log.append(r);
    }
  }
  FakeMeasurer again(on_landscape(3));
  TuneOptions one = options(again, 1);  // nothing but the static choice is measured
  one.log = old;
  TaskResult r = tune_tasks({task}, one).tasks[0];
  EXPECT_TRUE(r.improved);
  EXPECT_FALSE(r.config.has_value());
  EXPECT_EQ(measuring::steps_hash(r.schedule), measuring::steps_hash(found.schedule));
  // What the race says of it can be replayed, too.
  const Record last = read_records(old).records.back();
  EXPECT_TRUE(last.raced()) << to_string(last.verdict);
  EXPECT_EQ(measuring::steps_hash(schedule_of(last, task.tmpl.dag(), test_target())),
            measuring::steps_hash(r.schedule));
}

}  // namespace
}  // namespace heddle::testing
