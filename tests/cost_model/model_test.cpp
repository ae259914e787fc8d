// The learned model on made-up rows, its files, and the errors of both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "heddle/cost_model/cost_model.h"
#include "heddle/support/error.h"
#include "heddle/support/rng.h"
#include "sanitized.h"
#include "support/files/file.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

/// Throughput as a function of three columns; the others are noise.
double truth(const Features& f) {
  return std::exp2(-f[3]) * (f[10] > 4 ? 0.3 : 1.0) + 0.05 * f[40];
}

std::vector<TrainingRow> made_up(int n, uint64_t seed, uint64_t task = 1, double scale = 1) {
  Rng rng(seed);
  std::vector<TrainingRow> out;
  for (int i = 0; i < n; ++i) {
    TrainingRow r;
    r.task = task;
    r.features.assign(feature_columns().size(), 0.0f);
    for (size_t c = 0; c < 60; ++c) r.features[c] = static_cast<float>(rng.uniform_int(0, 8));
    r.throughput = scale * truth(r.features);
    out.push_back(std::move(r));
  }
  return out;
}

XgboostOptions quick() {
  XgboostOptions o;
  o.seed = 3;
  o.columns_share = 1;  // few of the made-up columns say anything
  return o;
}

std::vector<double> predict(CostModel& m, const std::vector<TrainingRow>& rows) {
  std::vector<Features> f;
  for (const TrainingRow& r : rows) f.push_back(r.features);
  return m.predict(rows.empty() ? 0 : rows[0].task, f);
}

double held_out(CostModel& m, const std::vector<TrainingRow>& rows) {
  std::vector<double> measured;
  for (const TrainingRow& r : rows) measured.push_back(r.throughput);
  return evaluate_ranking(predict(m, rows), measured).spearman;
}

class ModelFile : public ::testing::Test {
 protected:
  ModelFile() : path_(::testing::TempDir() + "heddle_cost_model_test.bin") {}
  ~ModelFile() override { std::filesystem::remove(path_); }
  /// The message of the error that loading gives.
  std::string load_error() const {
    try {
      make_xgboost_model(quick())->load(path_);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::Runtime);
      return e.message;
    }
    return "none";
  }
  std::string path_;
};

TEST(XgboostModel, LearnsAFunction) {
  auto m = make_xgboost_model(quick());
  EXPECT_FALSE(m->ready());
  m->update(made_up(500, 1));
  EXPECT_TRUE(m->ready());
  EXPECT_GT(held_out(*m, made_up(300, 2)), 0.9);
}

TEST(XgboostModel, RanksWithinTasksOfAnyScale) {
  auto m = make_xgboost_model(quick());
  m->update(made_up(250, 1, 1, 1e-3));
  m->update(made_up(250, 2, 2, 1e6));
  EXPECT_GT(held_out(*m, made_up(200, 3, 1, 1e-3)), 0.85);
  EXPECT_GT(held_out(*m, made_up(200, 4, 2, 1e6)), 0.85);
}

TEST(XgboostModel, RankingObjective) {
  XgboostOptions o = quick();
  o.objective = "rank:pairwise";
  auto m = make_xgboost_model(o);
  // Tasks interleaved: the model has to bring them together.
  std::vector<TrainingRow> rows, a = made_up(250, 1, 1), b = made_up(250, 2, 2, 50);
  for (size_t i = 0; i < a.size(); ++i) {
    rows.push_back(a[i]);
    rows.push_back(b[i]);
  }
  m->update(rows);
  EXPECT_GT(held_out(*m, made_up(300, 3)), 0.85);
}

TEST(XgboostModel, DeterministicForASeed) {
  XgboostOptions o = quick();
  o.columns_share = 0.5;
  auto a = make_xgboost_model(o), b = make_xgboost_model(o);
  o.seed = 4;
  auto c = make_xgboost_model(o);
  for (CostModel* m : {a.get(), b.get(), c.get()}) m->update(made_up(200, 1));
  std::vector<TrainingRow> rows = made_up(50, 2);
  EXPECT_EQ(predict(*a, rows), predict(*b, rows));
  EXPECT_NE(predict(*a, rows), predict(*c, rows));
}

TEST(XgboostModel, LabelsFollowTheBestOfTheTask) {
  XgboostOptions o = quick();
  o.refit_growth = 0;
  auto m = make_xgboost_model(o);
  std::vector<TrainingRow> rows = made_up(100, 1);
  m->update(rows);
  double before = predict(*m, rows)[0];
  // A far better program: what was the best before is not any more.
  std::vector<TrainingRow> better = made_up(1, 9);
  better[0].features[3] = 20;
  better[0].throughput = 1000;
  m->update(better);
  EXPECT_LT(predict(*m, rows)[0], 0.3 * before);
}

TEST(XgboostModel, RefitsWhenEnoughIsNew) {
  XgboostOptions o = quick();
  o.refit_growth = 0.5;
  auto m = make_xgboost_model(o);
  std::vector<TrainingRow> ask = made_up(20, 7);
  m->update(made_up(100, 1));
  std::vector<double> first = predict(*m, ask);
  m->update(made_up(30, 2));
  EXPECT_EQ(predict(*m, ask), first);  // 130 < 150
  m->update(made_up(30, 3));
  EXPECT_NE(predict(*m, ask), first);
}

TEST(XgboostModel, FailuresAndNonsenseAreZero) {
  auto m = make_xgboost_model(quick());
  std::vector<TrainingRow> rows = made_up(100, 1);
  for (size_t i = 0; i < rows.size(); i += 2) {
    rows[i].features[50] = 100;
    rows[i].throughput = i % 4 == 0 ? 0 : NAN;
  }
  m->update(rows);
  std::vector<double> score = predict(*m, rows);
  EXPECT_LT(score[0], 0.2);
  EXPECT_LT(score[2], 0.2);
  for (double s : score) EXPECT_TRUE(std::isfinite(s));
  // A task in which nothing works.
  auto n = make_xgboost_model(quick());
  for (TrainingRow& r : rows) r.throughput = 0;
  n->update(rows);
  for (double s : predict(*n, rows)) EXPECT_NEAR(s, 0, 0.2);
}

TEST(XgboostModel, FewRowsAndNone) {
  auto m = make_xgboost_model(quick());
  m->update({});
  m->update(made_up(3, 1));
  EXPECT_FALSE(m->ready());
  EXPECT_EQ(predict(*m, made_up(4, 2)), std::vector<double>(4, 0.0));
  EXPECT_TRUE(predict(*m, {}).empty());
}

TEST(XgboostModel, RowsOfAnotherWidthAreRefused) {
  auto m = make_xgboost_model(quick());
  TrainingRow r;
  r.features = {1, 2, 3};
  std::vector<TrainingRow> rows{r};
  EXPECT_THROW(m->update(rows), Error);
  m->update(made_up(50, 1));
  EXPECT_THROW(predict(*m, rows), Error);
}

// The tuner forks workers after the model has learned: a pool of threads would be lost in them.
TEST(XgboostModel, StartsNoThreadsAndPrintsNothing) {
  auto threads = [] {
    int n = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      (void)task;
      ++n;
    }
    return n;
  };
  int before = threads();
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  auto m = make_xgboost_model(quick());
  m->update(made_up(600, 1));
  predict(*m, made_up(600, 2));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(threads(), before);
}

TEST(XgboostModel, XgboostsOwnErrorsAreOurs) {
  XgboostOptions o = quick();
  o.objective = "no:such";
  auto m = make_xgboost_model(o);
  try {
    m->update(made_up(50, 1));
    FAIL() << "an objective that does not exist was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::Runtime);
    EXPECT_THAT(e.message, HasSubstr("no:such"));
  }
}

TEST_F(ModelFile, SaveAndLoad) {
  auto m = make_xgboost_model(quick());
  m->update(made_up(200, 1));
  m->save(path_);
  auto n = make_xgboost_model(quick());
  n->load(path_);
  EXPECT_TRUE(n->ready());
  std::vector<TrainingRow> rows = made_up(50, 2);
  EXPECT_EQ(predict(*m, rows), predict(*n, rows));
}

TEST_F(ModelFile, LearnsOnFromWhatWasLoaded) {
  auto m = make_xgboost_model(quick());
  m->update(made_up(500, 1));
  m->save(path_);
  auto fresh = make_xgboost_model(quick()), warm = make_xgboost_model(quick());
  warm->load(path_);
  std::vector<TrainingRow> few = made_up(20, 5, 2), test = made_up(300, 6, 2);
  fresh->update(few);
  warm->update(few);
  EXPECT_GT(held_out(*warm, test), held_out(*fresh, test) + 0.1);
  EXPECT_GT(held_out(*warm, test), 0.85);
  // And what it learned on top is saved too.
  warm->save(path_);
  auto again = make_xgboost_model(quick());
  again->load(path_);
  EXPECT_EQ(predict(*again, test), predict(*warm, test));
}

TEST_F(ModelFile, NothingToSave) {
  EXPECT_THROW(make_xgboost_model(quick())->save(path_), Error);
  EXPECT_THROW(make_random_model()->save(path_), Error);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ModelFile, BadFilesAreRefused) {
  EXPECT_THAT(load_error(), HasSubstr(path_));  // there is none
  write_file_atomic(path_, "");
  EXPECT_THAT(load_error(), HasSubstr("not a cost model"));
  write_file_atomic(path_, "garbage\nmore of it");
  EXPECT_THAT(load_error(), HasSubstr("not a cost model"));

  auto m = make_xgboost_model(quick());
  m->update(made_up(50, 1));
  m->save(path_);
  std::string good = read_file(path_);
  size_t line = good.find('\n');

  write_file_atomic(path_, good.substr(0, good.size() - 10));
  EXPECT_THAT(load_error(), HasSubstr("bytes of"));

  // XGBoost asks for as much memory as such a file says, and takes the refusal for damage.
  if (!testing::kSanitized) {
    std::string broken = good;
    for (size_t i = line + 1; i < broken.size(); i += 3) broken[i] = '#';
    write_file_atomic(path_, broken);
    EXPECT_THAT(load_error(), HasSubstr("damaged"));
  }

  std::string other = good;
  size_t at = other.find("\"columns\":\"") + 11;
  other[at] = other[at] == '1' ? '2' : '1';
  write_file_atomic(path_, other);
  EXPECT_THAT(load_error(), HasSubstr("other features"));

  std::string later = good;
  later.replace(later.find("\"heddle_cost_model\":1") + 20, 1, "9");
  write_file_atomic(path_, later);
  EXPECT_THAT(load_error(), HasSubstr("version 9"));

  // A model that refused a file is as good as before.
  m->update(made_up(50, 2));
  EXPECT_THROW(m->load(path_), Error);
  EXPECT_TRUE(m->ready());
  EXPECT_EQ(predict(*m, made_up(5, 3)).size(), 5u);
}

TEST(RandomModel, Uniform) {
  auto a = make_random_model(1), b = make_random_model(1);
  std::vector<TrainingRow> rows = made_up(200, 1);
  a->update(rows);
  EXPECT_FALSE(a->ready());
  EXPECT_LT(std::abs(held_out(*a, rows)), 0.25);
  std::vector<double> x = predict(*make_random_model(1), rows);
  EXPECT_EQ(x, predict(*b, rows));
  for (double v : x) EXPECT_TRUE(v >= 0 && v < 1);
}

}  // namespace
}  // namespace heddle
