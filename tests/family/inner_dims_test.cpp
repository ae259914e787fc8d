// Dimensions that are no outermost ones: strides that vary, reductions over a dimension, and two
// dimensions at once.
#include <algorithm>
#include <sstream>

#include "family/blocks.h"
#include "family/family_testing.h"
#include "heddle/support/rng.h"
#include "lower/lower_to_nest.h"
#include "selftest/random_schedule.h"

namespace heddle::testing {
namespace {

/// A declaration over two dimensions; the second one may be the first.
struct Family2 {
  std::string name;
  Dim n, m;
  Tensor result;
};

Dim small_dim(const char* name) { return dim(name, 1, 300); }

Family2 rows_and_columns() {
  const Dim n = small_dim("n"), m = small_dim("m");
  const Tensor x = placeholder({n, m}, f32, "x"), b = placeholder({m}, f32, "b");
  return {"rows", n, m,
          relu_of(compute({n, m}, [&](Axis i, Axis j) { return x(i, j) + b(j); }, "sum"))};
}

Family2 transposed() {
  const Dim n = small_dim("n"), m = small_dim("m");
  const Tensor x = placeholder({n, m}, f32, "x");
  return {"transposed", n, m, compute({m, n}, [&](Axis i, Axis j) { return x(j, i); }, "y")};
}

Family2 matmul_of_depth_and_columns() {
  const Dim k = small_dim("k"), m = small_dim("m");
  return {"depth and columns", k, m,
          product(placeholder({20, k}, f32, "a"), placeholder({k, m}, f32, "b"), k)};
}

Family2 matmul_of_rows_and_columns() {
  const Dim n = small_dim("n"), m = small_dim("m");
  return {"rows and columns", n, m,
          product(placeholder({n, 18}, f32, "a"), placeholder({18, m}, f32, "b"), 18)};
}

Family2 softmax_of_all() {
  const Dim n = small_dim("n"), m = small_dim("m");
  return {"softmax", n, m, softmax_of(placeholder({n, m}, f32, "x"))};
}

Family2 column_sums() {
  const Dim n = small_dim("n"), m = small_dim("m");
  const Tensor x = placeholder({n, m}, f32, "x");
  const Axis i = reduce_axis(n, "i");
  return {"column sums", n, m, compute({m}, [&](Axis j) { return sum(x(i, j), i); }, "sums")};
}

Family2 all_sum() {
  const Dim n = small_dim("n"), m = small_dim("m");
  const Tensor x = placeholder({n, m}, f32, "x");
  const Axis i = reduce_axis(n, "i"), j = reduce_axis(m, "j");
  return {"sum", n, m, compute({1}, [&](Axis) { return sum(x(i, j), {i, j}); }, "sum")};
}

std::vector<Family2> families() {
  return {rows_and_columns(),           transposed(),     matmul_of_depth_and_columns(),
          matmul_of_rows_and_columns(), softmax_of_all(), column_sums()};
}

std::string wrong_at(const Family2& f, const Kernel& kernel, int64_t n, int64_t m) {
  return testing::wrong_at(kernel, f.result, {{f.n, n}, {f.m, m}}, (n + m) % 2 == 0);
}

std::string first_wrong(const Family2& f, const Schedule& s, int64_t most, int64_t step) {
  const Kernel kernel = build(s, all_args(s.dag()));
  for (int64_t n = 1; n <= most; n += step) {
    for (int64_t m = 1; m <= most; m += step) {
      const std::string d = wrong_at(f, kernel, n, m);
      if (!d.empty()) return d;
    }
  }
  for (const auto& [n, m] : {std::pair(3, 257), std::pair(100, 31), std::pair(255, 64)}) {
    const std::string d = wrong_at(f, kernel, n, m);
    if (!d.empty()) return d;
  }
  return "";
}

TEST(InnerDims, StaticChoicesAreRightAtEveryPairOfSizes) {
  for (const Family2& f : families()) {
    const bool thin = f.name == "transposed" || f.name == "column sums";
    EXPECT_EQ(first_wrong(f, create_schedule({f.result}), 33, thin ? 2 : 1), "") << f.name;
  }
}

TEST(InnerDims, ChoicesForOneSizeAreRightAtOthers) {
  for (const Family2& f : families()) {
    for (const auto& [n, m] : {std::pair(1, 300), std::pair(300, 40)}) {
      const Schedule s = family_schedule({f.result}, {{f.n, n}, {f.m, m}});
      EXPECT_EQ(first_wrong(f, s, 33, 9), "") << f.name << " chosen at " << n << ", " << m;
    }
  }
}

TEST(InnerDims, NaiveSchedulesAreRight) {
  for (const Family2& f : families())
    EXPECT_EQ(first_wrong(f, naive_schedule({f.result}), 33, 11), "") << f.name;
}

TEST(InnerDims, SumsOverTwoDimensionsAreRight) {
  const Family2 f = all_sum();
  EXPECT_EQ(first_wrong(f, naive_schedule({f.result}), 33, 4), "");
  EXPECT_EQ(first_wrong(f, Schedule({f.result}), 33, 4), "");
  EXPECT_EQ(first_wrong(f, create_schedule({f.result}), 33, 4), "");
}

TEST(InnerDims, RandomConfigsAndStepsAreRight) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Rng rng(seed);
    const std::vector<Family2> all = families();
    const Family2& f = all[static_cast<size_t>(rng.uniform_int(0, 5))];
    Schedule s = selftest::random_schedule(Schedule({f.result}), rng);
    if (seed % 3 != 0) {
      const auto at =
          at_sizes({f.result}, {{f.n, rng.uniform_int(1, 300)}, {f.m, rng.uniform_int(1, 300)}});
      const Template t = make_template(ComputeDag(at.outputs), Target::host());
      s = for_all_sizes(t.instantiate(selftest::random_config(t, rng)), {f.result});
    }
    const Kernel kernel = build(s, all_args(s.dag()));
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(wrong_at(f, kernel, rng.uniform_int(1, 40), rng.uniform_int(1, 40)), "")
          << "seed " << seed << ", " << f.name << "\n"
          << s;
    }
  }
}

// Columns of every size, with the rows of one.
TEST(InnerDims, RowsOfEveryLengthAreRight) {
  const Family2 f = softmax_of_all();
  const Schedule s = family_schedule({f.result}, {{f.n, 8}, {f.m, 256}});
  const Kernel kernel = build(s, all_args(s.dag()));
  for (int64_t m = 1; m <= 257; ++m) EXPECT_EQ(wrong_at(f, kernel, 3, m), "");
}

std::string loops_of(const Schedule& s) {
  std::ostringstream text;
  text << lower(s, all_args(s.dag())).main.body;
  return text.str();
}

/// Whether the kernel has versions for rows of a few elements (short_rows).
bool has_short_rows(const Schedule& s) { return loops_of(s).find("m == 3 {") != std::string::npos; }

// Where threads share rows. One thread computes functions of short rows for all rows first.
TEST(InnerDims, ShortRowsHaveVersionsOfTheirOwn) {
  const Target threads = Target::parse("llvm -mcpu=native -threads=2");
  for (const auto& [lo, hi] : {std::pair(1, 300), std::pair(3, 300), std::pair(2, 6)}) {
    const Dim m = dim("m", lo, hi);
    const Tensor y = softmax_of(placeholder({2000, m}, f32, "x"));
    for (const int64_t at : {5, 20}) {
      const Schedule s = family_schedule({y}, {{m, std::min<int64_t>(at, hi)}}, threads);
      EXPECT_TRUE(has_short_rows(s)) << s;
      const Kernel kernel = build(s, all_args(s.dag()));
      for (int64_t cols = lo; cols <= std::min(hi, 34); ++cols) {
        for (const bool front : {false, true})
          EXPECT_EQ(testing::wrong_at(kernel, y, {{m, cols}}, front), "") << "chosen at " << at;
      }
    }
  }
}

TEST(InnerDims, ShortRowsOfAnyNumberHaveVersionsToo) {
  const Family2 f = softmax_of_all();
  const Schedule s = family_schedule({f.result}, {{f.n, 300}, {f.m, 20}},
                                     Target::parse("llvm -mcpu=native -threads=2"));
  EXPECT_TRUE(has_short_rows(s)) << s;
  EXPECT_EQ(first_wrong(f, s, 33, 4), "");
}

TEST(InnerDims, NestsOfMoreThanRowsHaveNoVersions) {
  const Family2 product = matmul_of_depth_and_columns(), rows = softmax_of_all();
  EXPECT_FALSE(
      has_short_rows(family_schedule({product.result}, {{product.n, 64}, {product.m, 8}})));
  EXPECT_FALSE(has_short_rows(family_schedule({rows.result}, {{rows.n, 40}, {rows.m, 300}})));
}

// A row of up to 127 elements is vectors and a tail, without a loop, also where a block has several
// rows at once. Inside of an array of 257 columns each length from 1 on is right.
TEST(InnerDims, RowsOfAFewVectorsHaveVersionsByTheirNumber) {
  const Dim m = dim("m", 1, 257);
  const Tensor y = softmax_of(placeholder({7, m}, f32, "x"));
  for (const int64_t at : {20, 60, 200}) {
    const Schedule s = family_schedule({y}, {{m, at}});
    if (lowering::masks_lanes(s.target())) {
      const std::string loops = loops_of(s);
      EXPECT_NE(loops.find("floordiv(m, 16) == 7 {"), std::string::npos) << loops;
      EXPECT_EQ(loops.find("floordiv(m, 16) == 8 {"), std::string::npos) << loops;
    }
    const Kernel kernel = build(s, all_args(s.dag()));
    for (int64_t cols = 1; cols <= 257; ++cols)
      EXPECT_EQ(testing::wrong_at(kernel, y, {{m, cols}}, cols % 2 == 0), "") << "chosen at " << at;
  }
}

// The parallel loop has blocks of rows, whose number is constant, outside of blocks of columns.
// Rows of a register tile would be a loop of varying length if the number of their blocks had no
// bound.
TEST(InnerDims, RegisterTilesOfConstantRowsHaveAllTheirRows) {
  const Dim m = dim("m", 1, 2048);
  const Tensor c = product(placeholder({64, 32}, f32, "a"), placeholder({32, m}, f32, "b"), 32);
  const Schedule one = choice_for(2, c, {{m, 2000}});
  for (const Schedule& s : {for_all_sizes(one, {c}), family::shared_at_all_sizes(one, {c})}) {
    const std::string loops = loops_of(s);
    EXPECT_EQ(loops.find("for i in 0..min"), std::string::npos) << loops;
    const Kernel kernel = build(s, all_args(s.dag()));
    for (const int64_t cols : {1, 31, 48, 300, 2047})
      EXPECT_EQ(testing::wrong_at(kernel, c, {{m, cols}}, cols % 2 == 0), "");
  }
}

}  // namespace
}  // namespace heddle::testing
