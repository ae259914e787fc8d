// Helpers of the tests of searching: tasks, a landscape of times, a fake measurer and a fake model.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "heddle/ops/ops.h"
#include "heddle/search/tune.h"
#include "heddle/support/error.h"
#include "search/candidate_book.h"
#include "support/hashing/hash.h"

namespace heddle::testing {

inline const Target& test_target() {
  static const Target t = Target::parse("llvm -mcpu=skylake -threads=2");
  return t;
}

inline TuneTask matmul_task(int64_t m = 64, int64_t n = 96, int64_t k = 128) {
  Tensor c = ops::matmul(placeholder({Expr(m), Expr(k)}), placeholder({Expr(k), Expr(n)}));
  return make_task("matmul:" + std::to_string(m), {c}, test_target());
}
inline TuneTask softmax_task() {
  return make_task("softmax", {ops::softmax(placeholder({200, 300}))}, test_target());
}

/// B = A + 1 with the given knobs: what a test needs to know every config of.
inline TuneTask knobs_task(
    const std::vector<std::pair<std::string, std::vector<int64_t>>>& knobs,
    const std::function<void(TemplateBuilder&, const std::vector<Param>&)>& write) {
  Tensor a = placeholder({64, 96}, f32, "A");
  Tensor b = compute({64, 96}, [&](Axis i, Axis j) { return a(i, j) + 1.f; }, "B");
  ComputeDag dag({b});
  TemplateBuilder t(dag, test_target());
  std::vector<Param> params;
  for (const auto& [name, values] : knobs) params.push_back(t.knob(name, values, values[0]));
  write(t, params);
  return {.name = "knobs", .args = {a, b}, .tmpl = t.finish("knobs")};
}
/// Two split factors and nothing else.
inline TuneTask splits_task(std::vector<int64_t> x = {1, 2, 4, 8},
                            std::vector<int64_t> y = {1, 2, 4}) {
  return knobs_task({{"x", x}, {"y", y}}, [](TemplateBuilder& t, const std::vector<Param>& p) {
    StageRef s = t.stage(1);
    auto [xo, xi] = s.split(s.axis(0), p[0]);
    auto [yo, yi] = s.split(s.axis(1), p[1]);
    (void)xo, (void)xi, (void)yo, (void)yi;
  });
}

/// A uniform number of [0, 1) for a key.
inline double unit(uint64_t key) { return double(mix64(key) >> 11) * 0x1p-53; }

/// Seconds of a schedule, smooth in the logarithms of its numbers, with optima that depend on the
/// seed and steps that cost or gain something by being there. Numbers next to each other interact.
inline double landscape(const Schedule& schedule, uint64_t seed) {
  double log_time = 0, previous = 0;
  for (const Step& s : schedule.steps()) {
    uint64_t id = hash_combine(seed, uint64_t(s.kind));
    for (int a : s.axes) id = hash_combine(id, uint64_t(a));
    log_time += 0.06 * (unit(id) - 0.5);
    if (s.kind == StepKind::Prefetch) {
      const double off = std::log2(double(s.params[2].value)) - 6 * unit(id + 1);
      log_time += 0.015 * off * off;
    }
    if (s.kind != StepKind::Split) continue;
    double size = std::log2(double(s.params[0].value));
    double off = size - 6 * unit(id + 1), pair = size + previous - 8 * unit(id + 2);
    log_time += 0.015 * off * off + 0.01 * pair * pair;
    previous = size;
  }
  return 1e-3 * std::exp(log_time);
}

/// A column for every number of a step, by the axis that it belongs to.
inline Features step_features(const TuneTask&, const Schedule& schedule) {
  Features row(64, 0.f);
  for (const Step& s : schedule.steps()) {
    uint64_t id = uint64_t(s.kind);
    for (int a : s.axes) id = hash_combine(id, uint64_t(a));
    const size_t number = s.kind == StepKind::Prefetch ? 2 : 0;  // which says what, and how far
    const int64_t value = s.params.empty() ? 1 : std::max<int64_t>(1, s.params[number].value);
    const float size = float(std::log2(double(value)));
    row[id % row.size()] += 1 + size;
  }
  return row;
}

/// The weighted mean of the nearest rows: needs no library and no luck.
class NearestModel : public CostModel {
 public:
  std::string name() const override { return "nearest"; }
  void update(std::span<const TrainingRow> rows) override {
    for (const TrainingRow& r : rows) {
      rows_[r.task].push_back(r);
      best_[r.task] = std::max(best_[r.task], r.throughput);
    }
  }
  std::vector<double> predict(uint64_t task, std::span<const Features> programs) override {
    std::vector<double> out;
    for (const Features& f : programs) out.push_back(predict_one(task, f));
    return out;
  }
  bool ready() const override { return !rows_.empty(); }
  void save(const std::string&) const override {}
  void load(const std::string&) override {}

 private:
  double predict_one(uint64_t task, const Features& f) {
    double sum = 0, weights = 1e-12;
    for (const TrainingRow& r : rows_[task]) {
      double d = 0;
      for (size_t i = 0; i < f.size(); ++i) d += std::pow(f[i] - r.features[i], 2.0);
      double w = std::exp(-0.3 * d);
      sum += w * r.throughput / std::max(best_[task], 1e-30);
      weights += w;
    }
    return sum / weights;
  }
  std::map<uint64_t, std::vector<TrainingRow>> rows_;
  std::map<uint64_t, double> best_;
};

inline MeasureResult failure(MeasureError error) {
  MeasureResult r;
  r.error = error;
  r.message = "injected";
  return r;
}

/// Times by a function. Counts what it measures; notices a repetition.
class FakeMeasurer : public Measurer {
 public:
  using Function = std::function<MeasureResult(const TuneTask&, const Schedule&)>;
  explicit FakeMeasurer(Function screen) : screen_(std::move(screen)), truth_(screen_) {}
  FakeMeasurer(Function screen, Function truth)
      : screen_(std::move(screen)), truth_(std::move(truth)) {}

  void measure(const TuneTask& task, std::span<const Schedule> schedules, double best,
               const TuneClock& clock,
               const std::function<void(size_t, const MeasureResult&)>& done) override {
    best_given.push_back(best);
    ++batches;
    largest_batch = std::max(largest_batch, schedules.size());
    // Backwards: results come in any order.
    for (size_t i = schedules.size(); i-- > 0;) {
      if (before_each) before_each(measured.size());
      while (measured.size() == last_before_the_end && !clock.expired()) std::this_thread::yield();
      if (clock.expired()) return;
      const uint64_t key = hash_combine(task.hash(), measuring::steps_hash(schedules[i]));
      repeated += !keys.insert(key).second;
      announced[task.name].erase(key);
      measured.push_back(task.name);
      done(i, screen_(task, schedules[i]));
    }
  }
  std::vector<MeasureResult> race(const TuneTask& task, std::span<const Schedule> schedules,
                                  double seconds, const TuneClock& clock) override {
    raced.push_back(schedules.size());
    race_seconds.push_back(seconds);
    std::vector<MeasureResult> out;
    for (const Schedule& s : schedules) {
      out.push_back(truth_(task, s));
      if (clock.expired()) out.back() = failure(MeasureError::Cancelled);
      if (out.back().ok()) out.back().seconds.assign(9, out.back().seconds[0]);
    }
    return out;
  }
  bool prefetch(const TuneTask& task, std::span<const Schedule> schedules) override {
    for (const Schedule& s : schedules) {
      const uint64_t key = hash_combine(task.hash(), measuring::steps_hash(s));
      if (!keys.contains(key)) announced[task.name].insert(key);
    }
    most_ahead = std::max(most_ahead, announced[task.name].size());
    return ahead > 0;
  }
  int look_ahead() const override { return ahead; }
  int width() const override { return devices; }
  std::string protocol() const override { return protocol_name; }
  std::vector<std::pair<std::string, double>> time_spent() const override { return {{"run", 1}}; }

  std::set<uint64_t> keys;
  std::vector<std::string> measured;  ///< task of each trial
  std::vector<double> best_given, race_seconds;
  std::vector<size_t> raced;
  int batches = 0, repeated = 0;
  int devices = 1;  ///< what width() returns
  size_t largest_batch = 0;
  int ahead = 0;                                        ///< what look_ahead() returns
  std::map<std::string, std::set<uint64_t>> announced;  ///< not measured yet, by task
  size_t most_ahead = 0;
  std::string protocol_name = "warm fake";
  std::function<void(size_t)> before_each;
  /// After so many trials, the next lasts until the time is over.
  size_t last_before_the_end = std::numeric_limits<size_t>::max();

 private:
  Function screen_, truth_;
};

inline MeasureResult seconds_of(double seconds) {
  MeasureResult r;
  r.seconds = {seconds};
  r.compile_seconds = 0.01;
  r.run_seconds = 0.02;
  return r;
}

inline FakeMeasurer::Function on_landscape(uint64_t seed) {
  return [seed](const TuneTask&, const Schedule& s) { return seconds_of(landscape(s, seed)); };
}

inline uint64_t key_of(const TuneTask& task, const Config& c) {
  return measuring::steps_hash(task.tmpl.instantiate(c));
}

/// Runs a policy for so many trials on a landscape; the best time after each.
inline std::vector<double> run_policy(const TuneTask& task, SearchPolicy& policy, CostModel* model,
                                      uint64_t landscape_seed, int trials, int batch = 16) {
  std::vector<double> best;
  while (static_cast<int>(best.size()) < trials) {
    std::vector<Config> configs =
        policy.propose(std::min<int>(batch, trials - static_cast<int>(best.size())));
    if (configs.empty()) break;
    std::vector<Trial> results;
    std::vector<TrainingRow> rows;
    for (const Config& c : configs) {
      Schedule s = task.tmpl.instantiate(c);
      double seconds = landscape(s, landscape_seed);
      results.push_back({c, seconds});
      rows.push_back({task.hash(), step_features(task, s), 1 / seconds});
      best.push_back(best.empty() ? seconds : std::min(best.back(), seconds));
    }
    policy.report(results);
    if (model) model->update(rows);
  }
  return best;
}

}  // namespace heddle::testing
