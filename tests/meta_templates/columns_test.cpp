// Reductions along columns and products of a vector and a matrix, whose rows are shared among
// threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/ops/ops.h"
#include "meta_templates/emulated_schedule.h"
#include "meta_templates/expect_right.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Columns {
  int64_t rows, cols;
  bool weighted = false, epilogue = false;
};

selftest::RandomProgram program(const Columns& f) {
  selftest::RandomProgram p;
  const Tensor matrix = placeholder({f.rows, f.cols}, f32, "B");
  p.inputs = {matrix};
  Tensor y;
  if (f.weighted) {
    p.inputs.insert(p.inputs.begin(), placeholder({1, f.rows}, f32, "x"));
    y = ops::matmul(p.inputs[0], matrix);
  } else {
    y = ops::sum(matrix, {0});
  }
  p.outputs = {f.epilogue ? ops::relu(y) : y};
  p.reduce_length = f.rows;
  p.text = std::string(f.weighted ? "vector x matrix " : "column sum ") + std::to_string(f.rows) +
           "x" + std::to_string(f.cols) + (f.epilogue ? ", relu" : "");
  return p;
}

Template on(const char* target, const Columns& f) {
  return make_template(ComputeDag(program(f).outputs), Target::parse(target));
}

TEST(Columns, ThreadsReadWholeRowsWhereTheirResultsFitL1) {
  const char* two = "llvm -mcpu=haswell -threads=2";
  for (bool weighted : {false, true}) {
    for (bool epilogue : {false, true}) {
      const Template t = on(two, {4096, 4096, weighted, epilogue});
      EXPECT_EQ(chosen(t, "split_reduction"), 1) << epilogue;
      EXPECT_EQ(chosen(t, "part_length"), 2048);
      EXPECT_EQ(chosen(t, "part_tile"), 4096);
    }
  }
  // Alone, of rows too long for L1, and of few of them beside the sum of the parts.
  EXPECT_EQ(chosen(on("llvm -mcpu=haswell -threads=1", {4096, 4096}), "split_reduction"), 0);
  EXPECT_EQ(chosen(on(two, {256, 65536}), "split_reduction"), 0);
  EXPECT_EQ(chosen(on(two, {64, 4096}), "split_reduction"), 0);
  EXPECT_EQ(chosen(on("llvm -mcpu=haswell -threads=16", {4096, 4096}), "split_reduction"), 0);
}

TEST(Columns, PartsAreAddedUpByVectors) {
  const Template t = on("llvm -mcpu=haswell -threads=2", {1024, 1024, true, true});
  const std::string text = t.instantiate(t.default_config()).to_text();
  EXPECT_THAT(text, HasSubstr("matmul.vectorize("));
  EXPECT_THAT(text, HasSubstr("matmul.compute_at(relu"));
  EXPECT_THAT(text, Not(HasSubstr("relu.parallel(")));
}

TEST(Columns, AreRightInAnyConfig) {
  uint64_t seed = 1;
  for (bool weighted : {false, true}) {
    for (bool epilogue : {false, true}) {
      for (const auto& [rows, cols] : {std::pair{300, 1003}, std::pair{515, 64}}) {
        const selftest::RandomProgram p = program({rows, cols, weighted, epilogue});
        const Template t = make_template(ComputeDag(p.outputs), Target::host());
        const selftest::Case reference(p, ++seed);
        Rng rng(seed);
        for (int i = 0; i < 6; ++i) {
          Config config = i == 0 ? t.default_config() : selftest::random_config(t, rng);
          config.values[static_cast<size_t>(t.knob_index("split_reduction"))] = i % 2;
          expect_right(p, reference, t, config);
        }
      }
    }
  }
}

// The gradient of a bias behind which heads are moved apart: x[b, c / 64, i, c % 64] is summed over b
// and i. A thread alone would go through all rows of its column.
TEST(Columns, OfHeadsThatLieApartAreSharedOnAGpu) {
  for (const int64_t width : {32, 64}) {
    selftest::RandomProgram p;
    const Tensor x = placeholder({4, 3, 50, width}, f32, "x");
    p.inputs = {x};
    p.outputs = {compute({3 * width}, [&](const Axis& c) {
      const Axis b = reduce_axis(4, "b"), i = reduce_axis(50, "i");
      return sum(x(b, floordiv(c, width), i, floormod(c, width)), {b, i});
    })};
    p.reduce_length = 200;
    p.text = "sum of heads of " + std::to_string(width);
    const Schedule s = create_schedule(p.outputs, Target::parse("cuda -gpu=h200"));
    const selftest::Case want(p, 3);
    const std::vector<NDArray> arrays = want.fresh_arrays();
    selftest::emulated(5)(s, p.args(), arrays);
    EXPECT_EQ(want.difference(arrays), "") << p.text;
    int64_t threads = 0;
    for (const GpuKernel& k : lower_gpu(s, p.args()).main)
      threads = std::max(threads, k.block[0] * k.block[1] * k.block[2] * k.grid[0]);
    EXPECT_GT(threads, 2 * 3 * width) << p.text;
  }
}

}  // namespace
}  // namespace heddle::testing
