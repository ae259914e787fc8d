// Columns of programs for GPUs, on nests whose numbers are known.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "cost_model/gpu_features.h"
#include "heddle/cost_model/cost_model.h"
#include "heddle/driver/build.h"
#include "heddle/lower/lower.h"
#include "heddle/ops/ops.h"
#include "heddle/support/error.h"
#include "heddle/support/rng.h"

namespace heddle::testing {
namespace {

const Target& an_h200() {
  static const Target t = Target::parse("cuda -gpu=h200");
  return t;
}

double column(const Features& row, const std::string& name) {
  const auto& columns = feature_columns("cuda");
  EXPECT_EQ(row.size(), columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == name) return row.at(i);
  }
  ADD_FAILURE() << "no column " << name;
  return NAN;
}
double count(const Features& row, const std::string& name) {
  return std::round(std::exp2(column(row, name)) - 1);
}

struct Scale {
  Tensor a = placeholder({1024, 1024}, f32, "A");
  Tensor b = compute({1024, 1024}, [&](Axis i, Axis j) { return a(i, j) * 2.f; }, "B");
  std::vector<Tensor> args() const { return {a, b}; }
};

// Rows over blocks; a row's elements over 256 threads, `lanes` side by side in each, or each thread
// its own piece of the row.
Features of_scale(bool side_by_side, int64_t lanes) {
  Scale p;
  Schedule s({p.b}, an_h200());
  StageRef st = s.stage(1);
  st.bind(st.axis(0), LoopKind::BlockX);
  if (side_by_side) {
    auto [rest, vector] = st.split(st.axis(1), lanes);
    auto [serial, thread] = st.split(rest, 256);
    (void)serial;
    st.bind(thread, LoopKind::ThreadX);
    if (lanes > 1) st.vectorize(vector);
  } else {
    auto [thread, piece] = st.split(st.axis(1), 4);
    (void)piece;
    st.bind(thread, LoopKind::ThreadX);
  }
  return schedule_features(s, p.args());
}

TEST(GpuFeatures, KnowTheLaunch) {
  const Features row = of_scale(true, 1);
  EXPECT_EQ(column(row, "total.kernels"), 1);
  EXPECT_EQ(count(row, "kernel0.grid.x"), 1024);
  EXPECT_EQ(count(row, "kernel0.threads"), 256);
  EXPECT_EQ(count(row, "kernel0.shared"), 0);
  // 8 blocks of 256 threads fill an SM of 2048; 132 SMs hold 1056 of them.
  EXPECT_EQ(column(row, "kernel0.resident"), 8);
  EXPECT_EQ(column(row, "kernel0.occupancy"), 1);
  EXPECT_NEAR(std::exp2(column(row, "kernel0.waves")) - 1, 1024.0 / (132 * 8), 1e-3);
  EXPECT_EQ(count(row, "store0.serial"), 4);
  EXPECT_EQ(count(row, "total.flop.mul"), 1 << 20);
  EXPECT_NEAR(count(row, "total.global.asked"), 2 << 22, 16);  // in single precision
}

// Blocks are those of the hardware, and what the last of them does is no launch.
TEST(GpuFeatures, CountTheBlocksOfClusters) {
  const Tensor x = placeholder({64, 4096}, f32, "x");
  const Tensor y = compute({64, 4096}, [&](Axis i, Axis j) { return x(i, j) * 2.f; }, "y");
  Schedule s({y}, an_h200());
  StageRef st = s[y];
  auto [rest, thread] = st.split(st.axis(1), 1024);
  (void)rest;
  st.bind(st.axis(0), LoopKind::clusters(4)).bind(thread, LoopKind::ThreadX);
  const Features row = schedule_features(s, {x, y});
  EXPECT_EQ(count(row, "kernel0.grid.x"), 256);
  EXPECT_EQ(count(row, "kernel0.threads"), 256);
  EXPECT_EQ(column(row, "kernel0.resident"), 8);

  const Tensor all = ops::sum(x, {});
  const Template t = make_template(ComputeDag({all}), an_h200());
  Config c = t.default_config();
  const int one = t.knob_index("one_launch");
  ASSERT_GE(one, 0);
  c.values[static_cast<size_t>(one)] = 1;
  const Features once = schedule_features(t.instantiate(c), {x, all});
  EXPECT_EQ(column(once, "total.kernels"), 1);
  c.values[static_cast<size_t>(one)] = 0;
  const Features twice = schedule_features(t.instantiate(c), {x, all});
  EXPECT_GT(column(twice, "total.kernels"), 1);
}

TEST(GpuFeatures, SeeWhetherAWarpReadsSideBySide) {
  const Features scalar = of_scale(true, 1), wide = of_scale(true, 4), apart = of_scale(false, 4);
  EXPECT_EQ(column(scalar, "store0.buf0.vector"), 4);
  EXPECT_EQ(column(scalar, "store0.buf0.transactions"), 4);
  EXPECT_EQ(column(scalar, "store0.buf0.efficiency"), 1);
  EXPECT_EQ(column(wide, "store0.buf0.vector"), 16);
  EXPECT_EQ(column(wide, "store0.buf0.transactions"), 16);
  EXPECT_EQ(column(wide, "store0.buf0.efficiency"), 1);
  EXPECT_EQ(column(wide, "total.global.coalescing"), 1);
  // 16 bytes apart: two threads share a sector.
  EXPECT_EQ(column(apart, "store0.buf0.transactions"), 16);
  EXPECT_EQ(column(apart, "store0.buf0.efficiency"), 0.25);
  EXPECT_EQ(count(apart, "store0.buf0.stride"), 16);
  EXPECT_GT(column(apart, "kernel0.estimate"), column(wide, "kernel0.estimate") - 1e-6);
}

TEST(GpuFeatures, SeeATransposeReadAgainstTheGrain) {
  Tensor a = placeholder({1024, 1024}, f32, "A");
  Tensor t = compute({1024, 1024}, [&](Axis i, Axis j) { return a(j, i) + 0.f; }, "T");
  const Features direct = [&] {
    Schedule d({t}, an_h200());
    StageRef st = d.stage(1);
    auto [block, thread] = st.split(st.axis(1), 256);
    st.bind(st.axis(0), LoopKind::BlockY);
    st.bind(block, LoopKind::BlockX);
    st.bind(thread, LoopKind::ThreadX);
    return schedule_features(d, {a, t});
  }();
  // What is written lies side by side, what is read a row apart.
  EXPECT_EQ(column(direct, "store0.buf0.efficiency"), 1);
  EXPECT_EQ(column(direct, "store0.buf1.transactions"), 32);
  EXPECT_EQ(column(direct, "store0.buf1.efficiency"), 0.125);
}

TEST(GpuFeatures, AreSoundForWhatTemplatesMake) {
  const Tensor a = placeholder({256, 192}, f32, "A"), b = placeholder({192, 320}, f32, "B");
  const Tensor ha = placeholder({256, 256}, f16, "HA"), hb = placeholder({256, 128}, f16, "HB");
  for (const Tensor& out : {ops::matmul(a, b), ops::matmul(ha, hb)}) {
    const ComputeDag dag({out});
    std::vector<Tensor> args = dag.placeholders();
    args.push_back(out);
    const Template t = make_template(dag, an_h200());
    Rng rng(7);
    std::set<std::vector<float>> different;
    int made = 0;
    for (int i = 0; i < 400 && made < 40; ++i) {
      Config c = t.default_config();
      if (i > 0) {
        c.values.clear();
        for (const Knob& k : t.knobs()) c.values.push_back(rng.choose(k.values));
      }
      if (!t.why_invalid(c).empty()) continue;
      ++made;
      const Schedule s = t.instantiate(c);
      const Features row = schedule_features(s, args);
      ASSERT_EQ(row.size(), feature_columns("cuda").size());
      for (float x : row) ASSERT_TRUE(std::isfinite(x));
      different.insert(row);
      GpuProgram p;
      try {
        p = lower_gpu(s, args);
      } catch (const Error&) {
        continue;
      }
      // The launch is the one that lowering makes; of several kernels the longest comes first.
      std::set<int64_t> threads, blocks, shared;
      for (const GpuKernel& k : p.main) {
        threads.insert(k.block[0] * k.block[1] * k.block[2]);
        blocks.insert(k.grid[0] * k.grid[1] * k.grid[2]);
      }
      EXPECT_EQ(column(row, "total.kernels"), static_cast<double>(p.main.size()))
          << t.config_to_json(c).dump();
      EXPECT_TRUE(threads.contains(static_cast<int64_t>(count(row, "kernel0.threads"))))
          << to_string(p.main[0]) << count(row, "kernel0.threads");
      EXPECT_TRUE(blocks.contains(static_cast<int64_t>(count(row, "kernel0.blocks"))));
    }
    EXPECT_GT(made, 5);
    EXPECT_GT(different.size(), 5u);
  }
}

TEST(GpuFeatures, HaveAModelOfTheirOwn) {
  const auto& columns = feature_columns("cuda");
  EXPECT_NE(columns.size(), feature_columns().size());
  std::set<std::string> names;
  for (const FeatureColumn& c : columns) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    EXPECT_FALSE(c.unit.empty());
    EXPECT_FALSE(c.about.empty());
  }
  // Throughput that falls with the column of the estimate: it is learned.
  const auto at = std::find_if(columns.begin(), columns.end(),
                               [](const auto& c) { return c.name == "kernel0.estimate"; });
  ASSERT_NE(at, columns.end());
  const auto estimate = static_cast<size_t>(at - columns.begin());
  std::vector<TrainingRow> rows;
  for (int i = 0; i < 60; ++i) {
    TrainingRow r{.task = 1, .features = Features(columns.size(), 0.f), .throughput = 1000.0 - i};
    r.features[estimate] = static_cast<float>(i);
    rows.push_back(r);
  }
  const auto model = make_xgboost_model({.target_kind = "cuda"});
  model->update(rows);
  ASSERT_TRUE(model->ready());
  const std::vector<double> p =
      model->predict(1, std::vector<Features>{rows[2].features, rows[50].features});
  EXPECT_GT(p[0], p[1]);
  EXPECT_THROW(make_xgboost_model()->update(rows), Error);  // that one is for CPUs
  const std::string path = ::testing::TempDir() + "gpu.model";
  model->save(path);
  EXPECT_THROW(make_xgboost_model()->load(path), Error);
  make_xgboost_model({.target_kind = "cuda"})->load(path);
}

}  // namespace
}  // namespace heddle::testing
