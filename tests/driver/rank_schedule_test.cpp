// The static choice by a cost model: what is ranked, what is believed, and where the model is
// found.
#include "driver/rank_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "heddle/cost_model/features.h"
#include "heddle/driver/build.h"
#include "heddle/ops/linalg.h"
#include "heddle/records/tophub.h"
#include "heddle/schedule/meta_template.h"
#include "heddle/support/error.h"
#include "heddle/support/rng.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

const Target& target() {
  static const Target t = Target::parse("llvm -mcpu=znver3 -threads=2");
  return t;
}

Tensor product(int64_t m, int64_t n, int64_t k) {
  return ops::matmul(placeholder({m, k}, f32, "A"), placeholder({k, n}, f32, "B"));
}

Template template_of(int64_t m, int64_t n, int64_t k) {
  return make_static_template(ComputeDag({product(m, n, k)}), target(), {});
}

/// The score of a program grows with the sum of its features. Counts what it was asked.
class PlantedModel : public CostModel {
 public:
  explicit PlantedModel(double weight) : weight_(weight) {}
  std::string name() const override { return "planted"; }
  void update(std::span<const TrainingRow>) override {}
  std::vector<double> predict(uint64_t, std::span<const Features> programs) override {
    std::vector<double> out;
    for (const Features& f : programs) {
      double sum = 0;
      for (const float x : f) sum += double(x);
      out.push_back(std::exp(weight_ * sum));
    }
    asked_ += static_cast<int>(programs.size());
    return out;
  }
  bool ready() const override { return true; }
  void save(const std::string&) const override {}
  void load(const std::string&) override {}
  int asked() const { return asked_; }

 private:
  double weight_;
  int asked_ = 0;
};

TEST(RankSchedule, TheBestRankedConfigIsLegalAndTheSameEachTime) {
  const Template t = template_of(200, 300, 400);
  PlantedModel model(0.1);
  const RankedConfig found = best_ranked(t, model);
  EXPECT_EQ(t.why_invalid(found.config), "");
  EXPECT_NE(found.config, t.default_config());
  EXPECT_GT(found.score, 1.1 * found.default_score);
  EXPECT_EQ(found.ranked, model.asked());
  EXPECT_LE(found.ranked, 160);
  PlantedModel again(0.1);
  EXPECT_EQ(best_ranked(t, again).config, found.config);
}

// All scores lie within a tenth of the default's: none is believed.
TEST(RankSchedule, SmallPredictedGainsAreNotBelieved) {
  const Template t = template_of(200, 300, 400);
  PlantedModel model(1e-9);
  const RankedConfig found = best_ranked(t, model);
  EXPECT_EQ(found.config, t.default_config());
  EXPECT_GT(found.ranked, 10);
}

/// A folder of tophub of the test's own.
class RankWithModel : public ::testing::Test {
 protected:
  RankWithModel() {
    std::filesystem::create_directories(folder_);
    ::setenv("HEDDLE_TOPHUB", ("off:" + folder_).c_str(), 1);
    reload_tophub();
  }
  ~RankWithModel() override {
    std::filesystem::remove_all(folder_);
    ::setenv("HEDDLE_TOPHUB", "off", 1);
    reload_tophub();
  }
  /// A model that learned that configs of this template are the faster the larger their tiles are,
  /// or the smaller.
  void install(const Template& t, bool larger) {
    const size_t rows = static_cast<size_t>(t.knob_index("tile_rows"));
    std::vector<TrainingRow> data;
    Rng rng(1);
    while (data.size() < 200) {
      Config c;
      for (const Knob& k : t.knobs()) c.values.push_back(rng.choose(k.values));
      if (!t.why_invalid(c).empty()) continue;
      const Schedule s = t.instantiate(c);
      const std::vector<Tensor> out = s.dag().outputs();
      std::vector<Tensor> args;
      for (int i = 0; i < s.dag().size(); ++i) {
        if (s.dag().stage(i).is_placeholder()) args.push_back(s.dag().stage(i).output(0));
      }
      args.insert(args.end(), out.begin(), out.end());
      const double tile = double(c.values[rows]);
      data.push_back({1, schedule_features(s, args), larger ? tile : 1 / tile});
    }
    const std::unique_ptr<CostModel> model = make_xgboost_model();
    model->update(data);
    model->save(folder_ + "/llvm-znver3.model");
    reload_tophub();
  }
  std::string folder_ = ::testing::TempDir() + "rank_with_model_" + std::to_string(::getpid());
  const AutoSchedulerOptions by_model_{.use_records = false, .rank_with_model = true};
};

int64_t tile_rows(const Schedule& s, const Template& t) {
  for (const int64_t rows : t.knobs()[static_cast<size_t>(t.knob_index("tile_rows"))].values) {
    if (s.to_text().find(".split(i, " + std::to_string(rows) + ")") != std::string::npos)
      return rows;
  }
  return 0;
}

TEST_F(RankWithModel, TheInstalledModelDecides) {
  const Template t = template_of(240, 256, 256);
  install(t, false);
  const Schedule s = create_schedule({product(240, 256, 256)}, target(), by_model_);
  EXPECT_THAT(s.provenance, HasSubstr("cost model llvm-znver3.model, the best of "));
  const Schedule by_rule =
      create_schedule({product(240, 256, 256)}, target(), {.use_records = false});
  EXPECT_LT(tile_rows(s, t), tile_rows(by_rule, t)) << s.to_text();
}

TEST_F(RankWithModel, WithoutAModelTheStaticChoiceStandsAndSaysWhy) {
  const Schedule s = create_schedule({product(240, 256, 256)}, target(), by_model_);
  const Schedule by_rule =
      create_schedule({product(240, 256, 256)}, target(), {.use_records = false});
  EXPECT_EQ(s.to_json().at("steps").dump(), by_rule.to_json().at("steps").dump());
  EXPECT_THAT(s.provenance, HasSubstr("no cost model is shipped for znver3"));
}

// The model must not outlive XGBoost's own objects, which end before static objects do.
TEST_F(RankWithModel, AProcessThatRankedEndsWell) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  install(template_of(240, 256, 256), false);
  const auto rank_and_leave = [&] {
    create_schedule({product(240, 256, 256)}, target(), by_model_);
    std::exit(0);
  };
  EXPECT_EXIT(rank_and_leave(), ::testing::ExitedWithCode(0), "");
}

TEST_F(RankWithModel, ABrokenModelIsAnErrorThatNamesTheFile) {
  std::ofstream(folder_ + "/llvm-znver3.model") << "nothing of the kind";
  reload_tophub();
  try {
    create_schedule({product(240, 256, 256)}, target(), by_model_);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("llvm-znver3.model"));
  }
}

}  // namespace
}  // namespace heddle::testing
