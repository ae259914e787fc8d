// Records that answer for cases near their own, where races say that such a record wins.
#include "driver/near_schedule.h"

#include <limits>

#include "driver/constant_schedule.h"
#include "driver/program_args.h"
#include "heddle/cost_model/cost_model.h"
#include "records/records_testing.h"
#include "records/transfer_races.h"
#include "schedule/steps/schedule_state.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A race that a record of twice the threads won.
records::Transfer race(double gain, double threads = 1) {
  return {.subject = "matmul:8x8x8",
          .target = test_target(),
          .template_name = "complex_reduction",
          .from = "matmul:8x8x8 for 'llvm'",
          .by = {.threads = threads},
          .agreed = true,
          .gain = gain};
}

TEST(TransferRaces, SurviveTheFile) {
  records::Transfers all{
      .machine = "m", .build = "b", .model = "x.model", .rank_correlation = 0.25};
  all.races = {race(1.125), race(0.5, 2)};
  all.races[1].agreed = false;
  const records::Transfers read = records::parse_transfers(records::to_text(all), "f");
  EXPECT_EQ(records::to_text(read), records::to_text(all));
  EXPECT_EQ(read.model, "x.model");
  EXPECT_EQ(read.races[1].by, all.races[1].by);
}

TEST(TransferRaces, HostileFilesAreUserErrorsWithTheLine) {
  const std::string good = records::to_text({.races = {race(1.1)}});
  EXPECT_THAT(error_of([] { records::parse_transfers("", "f"); }),
              HasSubstr("f: the file is empty"));
  EXPECT_THAT(error_of([&] { records::parse_transfers(good.substr(0, good.size() - 9), "f"); }),
              StartsWith("f:2: "));
  EXPECT_THAT(error_of([&] { records::parse_transfers(good + "{}\n", "f"); }),
              HasSubstr("f:3: key 'target' is missing"));
  for (const auto& [from, to] : {std::pair{"\"version\":1", "\"version\":9"},
                                 {"heddle-transfers", "heddle-plan"},
                                 {"\"gain\":1.1", "\"gain\":-1"},
                                 {"\"gain\":1.1", "\"gain\":1.1,\"more\":1"},
                                 {"\"agreed\":true", "\"agreed\":1"}}) {
    std::string bad = good;
    bad.replace(bad.find(from), std::string(from).size(), to);
    const std::string error = error_of([&] { records::parse_transfers(bad, "f"); });
    EXPECT_THAT(error, StartsWith("f:")) << to;
    EXPECT_THAT(error, HasSubstr("help: ")) << to;
  }
}

TEST(TransferRaces, AProofNeedsEightRacesAGainAndNoLoser) {
  const std::string name = "complex_reduction";
  const auto proven = [&](std::vector<records::Transfer> races, double threads = 1) {
    return records::proof_of_transfer(races, name, {.threads = threads}).has_value();
  };
  std::vector<records::Transfer> won(8, race(1.1));
  EXPECT_TRUE(proven(won));
  EXPECT_FALSE(proven({won.begin(), won.end() - 1}));
  EXPECT_FALSE(proven(std::vector<records::Transfer>(9, race(1.01))));
  EXPECT_FALSE(proven(won, 2)) << "farther than any race";
  EXPECT_FALSE(records::proof_of_transfer(won, "tile_product", {.threads = 1}));
  EXPECT_FALSE(records::proof_of_transfer(won, name, {.sizes = 1}));
  EXPECT_FALSE(records::proof_of_transfer(won, name, {.sizes = 1, .threads = 1}));
  std::vector<records::Transfer> lost = won;
  lost.push_back(race(0.96));
  EXPECT_FALSE(proven(lost));
  lost.back() = race(0.96, 2);  // farther away
  EXPECT_TRUE(proven(lost));
  EXPECT_FALSE(proven(lost, 2));
  lost.back() = race(0);  // it failed
  EXPECT_FALSE(proven(lost));
  lost.back().agreed = false;  // and would not have been taken
  EXPECT_TRUE(proven(lost));
  const auto proof = records::proof_of_transfer(won, name, {.threads = 0.5});
  ASSERT_TRUE(proof);
  EXPECT_EQ(proof->races, 8);
  EXPECT_NEAR(proof->mean, 1.1, 1e-9);
}

Record won_record(const Template& t, const Config& c) {
  Record r = make_record("near", t, c);
  r.seconds = {1e-4};
  r.verdict = Verdict::Won;
  return r;
}

/// What a record makes here; nothing where it is what the rule chooses.
std::optional<Schedule> transferred(const ComputeDag& dag, const Schedule& rule, const Record& r) {
  RecordDatabase known;
  known.add(r);
  const auto model = make_random_model();
  const auto all = driver::near_candidates(dag, rule, {}, known, *model);
  return all.empty() ? std::nullopt : all[0].schedule;
}

/// Iterations of the parallel loop with the fewest: copies of operands have more than the product.
int64_t tasks_of(const Schedule& s) {
  int64_t tasks = std::numeric_limits<int64_t>::max();
  for (const AxisState& a : s.state().axes) {
    if (a.loop == LoopKind::Parallel) tasks = std::min(tasks, a.static_extent);
  }
  return tasks;
}

TEST(NearTasks, AreThoseOfTheRuleForTheTileOfTheRecord) {
  const ComputeDag dag({matmul(480, 512, 256)});
  const Template two = make_template(dag, test_target(2));
  Config c = two.default_config();
  const auto set = [&](const char* knob, int64_t value) {
    c.values[static_cast<size_t>(two.knob_index(knob))] = value;
  };
  set("tile_rows", 3);  // not what the rule chooses
  const auto cut_for_two = [&](const Record& r, int threads) {
    const Schedule rule = make_static_template(dag, test_target(threads), {}).static_schedule();
    return transferred(dag, rule, r);
  };
  const std::optional<Schedule> by_rule = cut_for_two(won_record(two, c), 16);
  for (const size_t k : two.task_knobs()) c.values[k] = two.knobs()[k].values.back();
  ASSERT_EQ(two.why_invalid(c), "");
  ASSERT_LE(tasks_of(two.instantiate(c)), 4);
  const std::optional<Schedule> here = cut_for_two(won_record(two, c), 16);
  ASSERT_TRUE(here && by_rule);
  EXPECT_GE(tasks_of(*here), 16);
  EXPECT_EQ(here->to_json().dump(), by_rule->to_json().dump()) << "the blocks of the record count";
  const auto has_tile = [](const Schedule& s) {
    return std::any_of(s.state().axes.begin(), s.state().axes.end(), [](const AxisState& a) {
      return a.loop == LoopKind::Unrolled && a.static_extent == 3;
    });
  };
  EXPECT_TRUE(has_tile(*here));
  // For as many threads as here, the record's blocks are its own.
  const ComputeDag other({matmul(960, 512, 256)});
  const Schedule rule = make_static_template(other, test_target(2), {}).static_schedule();
  const std::optional<Schedule> sized = transferred(other, rule, won_record(two, c));
  ASSERT_TRUE(sized);
  EXPECT_LE(tasks_of(*sized), 8);
}

/// A record for two threads of a schedule that the estimate does not find slower, and a cost model
/// that prefers it; four threads are asked for.
class NearSchedule : public ::testing::Test {
 protected:
  const Folder folder_;
  const Variable tophub_{"HEDDLE_TOPHUB", "off:" + folder_.path()};
  const Variable log_{"HEDDLE_LOG_FILE", ""};
  const Tensor tensor_ = matmul(100, 128, 64);
  const ComputeDag dag_{std::vector<Tensor>{tensor_}};
  const Target target_ = test_target(4);
  const Schedule rule_ = make_static_template(dag_, target_, {}).static_schedule();

  NearSchedule() {
    const std::optional<Record> better = preferred();
    if (!better) throw_internal_error("no config is as good as the rule's by the estimate");
    write(folder_ / "near.jsonl", to_lines({*better}));
    reload_tophub();
  }
  ~NearSchedule() override { reload_tophub(); }

  void put_races(const std::vector<records::Transfer>& races) const {
    write(folder_ / "llvm-haswell.transfers", records::to_text({.races = races}));
    reload_tophub();
  }
  Schedule create() const { return create_schedule({tensor_}, target_); }
  std::string near_text() const { return driver::source_answers(dag_, target_, {})[1].text; }

 private:
  /// A record for two threads whose schedule here has an estimate that is not larger than the rule's,
  /// after a model that prefers it was written.
  std::optional<Record> preferred() const {
    const Template t = make_template(dag_, test_target(2));
    const std::vector<Tensor> args = driver::declared_args(dag_);
    const Features by_rule = schedule_features(rule_, args);
    for (size_t k = 0; k < t.knobs().size(); ++k) {
      for (const int64_t value : t.knobs()[k].values) {
        Config c = t.default_config();
        c.values[k] = value;
        if (!t.why_invalid(c).empty()) continue;
        const Record r = won_record(t, c);
        const std::optional<Schedule> here = transferred(dag_, rule_, r);
        if (!here) continue;
        const Features row = schedule_features(*here, args);
        const auto model = make_xgboost_model();
        std::vector<TrainingRow> rows;
        for (int i = 0; i < 32; ++i) {
          rows.push_back({1, by_rule, 1});
          rows.push_back({1, row, 2});
        }
        model->update(rows);
        const std::vector<Features> both = {by_rule, row};
        const std::vector<double> scores = model->predict(1, both);
        if (cycles(row) > cycles(by_rule) || scores[1] <= scores[0]) continue;
        model->save(folder_ / "llvm-haswell.model");
        return r;
      }
    }
    return std::nullopt;
  }
  static float cycles(const Features& row) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (feature_columns()[i].name == "total.cycles") return row[i];
    }
    return 0;
  }
};

TEST_F(NearSchedule, IsNotTakenWithoutRaces) {
  EXPECT_THAT(create().provenance, StartsWith("analytic rule"));
  EXPECT_THAT(near_text(), HasSubstr("no races on this chip"));
}

TEST_F(NearSchedule, IsTakenWhereRacesSayThatItWins) {
  put_races(std::vector<records::Transfer>(8, race(1.1)));
  const Schedule s = create();
  EXPECT_THAT(s.provenance, StartsWith("from the record of " + folder_.path()));
  EXPECT_THAT(s.provenance, HasSubstr("at distance 1.00 (threads 1.00)"));
  EXPECT_THAT(s.provenance, HasSubstr("8 races of such records gained 1.10"));
  EXPECT_NE(s.to_json().at("steps").dump(), rule_.to_json().at("steps").dump());
  EXPECT_EQ(s.target().cores, 4);
  const std::vector<driver::SourceAnswer> answers = driver::source_answers(dag_, target_, {});
  EXPECT_FALSE(answers[0].answers);
  EXPECT_TRUE(answers[1].answers);
  EXPECT_FALSE(recorded_schedule({tensor_}, target_)) << "no record is of this case";
  AutoSchedulerOptions off;
  off.use_records = false;
  EXPECT_THAT(create_schedule({tensor_}, target_, off).provenance, StartsWith("analytic rule"));
}

TEST_F(NearSchedule, IsNotTakenWhereARaceWasLost) {
  std::vector<records::Transfer> races(9, race(1.1));
  races.push_back(race(0.9));
  put_races(races);
  EXPECT_THAT(create().provenance, StartsWith("analytic rule"));
  EXPECT_THAT(near_text(), HasSubstr("no races show that such a record wins here"));
}

TEST_F(NearSchedule, FilesThatAreBrokenChangeNothing) {
  put_races(std::vector<records::Transfer>(8, race(1.1)));
  const std::string races = read_file(folder_ / "llvm-haswell.transfers"),
                    model = read_file(folder_ / "llvm-haswell.model");
  write(folder_ / "llvm-haswell.transfers", races.substr(0, races.size() / 2));
  reload_tophub();
  EXPECT_THAT(create().provenance, StartsWith("analytic rule"));
  write(folder_ / "llvm-haswell.transfers", races);
  write(folder_ / "llvm-haswell.model", model.substr(0, model.size() / 2));
  reload_tophub();
  EXPECT_THAT(create().provenance, StartsWith("analytic rule"));
  EXPECT_THAT(near_text(), HasSubstr("no cost model"));
  write(folder_ / "llvm-haswell.model", model);
  reload_tophub();
  EXPECT_THAT(create().provenance, StartsWith("from the record"));
}

TEST_F(NearSchedule, TheModelOfTheNearestChipIsFound) {
  EXPECT_EQ(tophub_nearest_model(Target::parse("llvm -mcpu=broadwell")),
            folder_ / "llvm-haswell.model");
  write(folder_ / "llvm-skylake-avx512.model", "x");
  EXPECT_EQ(tophub_nearest_model(Target::parse("llvm -mcpu=emeraldrapids")),
            folder_ / "llvm-skylake-avx512.model");
  EXPECT_EQ(tophub_nearest_model(Target::parse("cuda -gpu=h100")), std::nullopt);
}

}  // namespace
}  // namespace heddle::testing
