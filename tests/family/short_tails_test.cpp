// What is left of tiles and rows along axes of varying length: whole vectors whose lanes beyond the
// axis are left out, rows that are no part of a longer run, and matrices of one column.
#include <algorithm>
#include <sstream>

#include "family/blocks.h"
#include "family/family_testing.h"
#include "family/near.h"

namespace heddle::testing {
namespace {

Dim columns() { return dim("n", 1, 600); }

/// A product of n columns with a bias for each column, and a row of the table for its number.
Family columns_family(bool adds) {
  const Dim n = columns();
  Tensor c = product(placeholder({37, 24}, f32, "a"), placeholder({24, n}, f32, "b"), 24);
  if (adds) {
    const Tensor bias = placeholder({n}, f32, "bias"), table = placeholder({600}, f32, "table");
    c = relu_of(
        compute({37, n}, [&](Axis i, Axis j) { return c(i, j) + bias(j) * table(j); }, "sum"));
  }
  return {adds ? "columns with bias" : "columns", n, c};
}

/// Each column is read from the last one on, by a stage in the tile.
Family reversed_family() {
  const Dim n = columns();
  const Tensor b = placeholder({24, n}, f32, "b"), a = placeholder({37, 24}, f32, "a");
  const Axis k = reduce_axis(24, "k");
  return {
      "reversed columns", n,
      compute(
          {37, n}, [&](Axis i, Axis j) { return sum(a(i, k) * b(k, Expr(n) - 1 - j), k); }, "c")};
}

Family filters_family() {
  const Dim n = columns();
  const Tensor x = placeholder({1, 5, 9, 9}, f32, "x"), w = constant_placeholder({n, 5, 3, 3}, f32);
  const Axis rc = reduce_axis(5, "rc"), ry = reduce_axis(3, "ry"), rx = reduce_axis(3, "rx");
  return {"filters", n,
          compute(
              {1, n, 7, 7},
              [&](Axis b, Axis o, Axis y, Axis z) {
                return sum(x(b, rc, y + ry, z + rx) * w(o, rc, ry, rx), {rc, ry, rx});
              },
              "conv")};
}

Family bias_family() {
  const Dim n = columns();
  const Tensor x = placeholder({11, n}, f32, "x"), b = placeholder({n}, f32, "b");
  return {"bias", n, compute({11, n}, [&](Axis i, Axis j) { return exp(x(i, j) + b(j)); }, "y")};
}

/// The attention of three heads among n rows, whose queries, keys and values lie in one row.
Family attention_family() {
  const Dim n = dim("n", 1, 300);
  constexpr int64_t kHeads = 3, kDepth = 16;
  const Tensor x = placeholder({n, 3 * kHeads * kDepth}, f32, "x");
  const Axis k = reduce_axis(kDepth, "k"), j = reduce_axis(n, "j"), l = reduce_axis(n, "l"),
             m = reduce_axis(n, "m");
  const Tensor scores = compute(
      {kHeads, n, n},
      [&](Axis h, Axis row, Axis col) {
        return sum(x(row, h * kDepth + k) * x(col, (h + kHeads) * kDepth + k), k);
      },
      "scores");
  const Tensor most =
      compute({kHeads, n}, [&](Axis h, Axis i) { return max(scores(h, i, j), j); }, "most");
  const Tensor power = compute(
      {kHeads, n, n}, [&](Axis h, Axis i, Axis c) { return exp(scores(h, i, c) - most(h, i)); },
      "power");
  const Tensor total =
      compute({kHeads, n}, [&](Axis h, Axis i) { return sum(power(h, i, l), l); }, "total");
  const Tensor weights = compute(
      {kHeads, n, n}, [&](Axis h, Axis i, Axis c) { return power(h, i, c) / total(h, i); },
      "weights");
  return {"attention", n,
          compute(
              {kHeads, n, kDepth},
              [&](Axis h, Axis i, Axis d) {
                return sum(weights(h, i, m) * x(m, (h + 2 * kHeads) * kDepth + d), m);
              },
              "mixed")};
}

Schedule chosen_at(const Family& f, int64_t at, int cores, const Target& of = Target::host()) {
  Target target = of;
  target.cores = cores;
  const family::NearChoice near =
      family::choice_for_range({f.result}, {{f.n, at}}, target, current_auto_scheduler_options());
  return family::shared_at_all_sizes(near.schedule, {f.result});
}

std::string loops_of(const Schedule& s) {
  std::ostringstream text;
  text << lower(s, all_args(s.dag())).main.body;
  return text.str();
}

TEST(ShortTails, AreRightAtEverySize) {
  for (const Family& f : {columns_family(false), columns_family(true), reversed_family(),
                          filters_family(), bias_family()}) {
    for (const int64_t at : {1, 8, 71, 600}) {
      const Schedule s = chosen_at(f, at, at == 8 ? 2 : 1);
      const Kernel kernel = build(s, all_args(s.dag()));
      for (int64_t n = 1; n <= 600; n += n < 100 ? 1 : 37)
        ASSERT_EQ(wrong_at(kernel, f.result, {{f.n, n}}, n % 2 == 0), "")
            << f.name << " chosen at " << at << "\n"
            << s;
    }
  }
}

TEST(ShortTails, AttentionIsRightAtEverySize) {
  const Family f = attention_family();
  for (const int64_t at : {2, 13, 81, 300}) {
    const Schedule s = chosen_at(f, at, 2);
    const Kernel kernel = build(s, all_args(s.dag()));
    for (int64_t n = 1; n <= 300; n += n < 40 ? 1 : 29)
      ASSERT_EQ(wrong_at(kernel, f.result, {{f.n, n}}, n % 2 == 0), "")
          << "chosen at " << at << "\n"
          << s;
  }
}

// A block of 13 rows has tiles of 13 rows and 16 columns inside. Twelve tails of the block would
// have fifteen of the columns each.
TEST(ShortTails, TailsAreNotCopiedForEveryTailAroundThem) {
  const Family f = attention_family();
  for (const char* cpu : {"llvm -mcpu=sapphirerapids", "llvm -mcpu=haswell"}) {
    for (const int64_t at : {2, 13, 81, 300}) {
      const std::string loops = loops_of(chosen_at(f, at, 2, Target::parse(cpu)));
      EXPECT_LT(std::count(loops.begin(), loops.end(), '\n'), 5000) << cpu << " at " << at;
    }
  }
}

// The accumulators of a sum are the same at each of its steps, which need no copy for each remainder.
TEST(ShortTails, TheTailOfAnUnrolledSumIsALoop) {
  const Dim n = usual_dim();
  const Tensor x = placeholder({16, n}, f32, "x");
  const Axis k = reduce_axis(n, "k");
  const Tensor sums = compute({16}, [&](Axis i) { return sum(x(i, k), k); }, "sums");
  Schedule s({sums});
  const auto [outer, inner] = s[sums].split(s[sums].reduce_axis(0), 8);
  s[sums].reorder({outer, inner, s[sums].axis(0)});
  s[sums].unroll(inner);
  s[sums].vectorize(s[sums].axis(0));
  const std::string loops = loops_of(s);
  EXPECT_NE(loops.find(" in 0..floormod(n, 8)"), std::string::npos) << loops;
  EXPECT_EQ(loops.find("floormod(n, 8) == "), std::string::npos) << loops;
  const Kernel kernel = build(s, all_args(s.dag()));
  for (int64_t size = 1; size <= 40; ++size)
    ASSERT_EQ(wrong_at(kernel, sums, {{n, size}}, size % 2 == 0), "");
}

// 31 columns are two vectors of a tile of three, and no longer five tiles.
TEST(ShortTails, TilesOfColumnsEndInWholeVectors) {
  const Schedule s =
      chosen_at(columns_family(false), 71, 1, Target::parse("llvm -mcpu=sapphirerapids"));
  const std::string loops = loops_of(s);
  EXPECT_NE(loops.find("if ramp(0, 1, 16) < x16(floormod(n, "), std::string::npos) << loops;
  EXPECT_EQ(loops.find("ramp(0, 1, 8)"), std::string::npos) << loops;
}

TEST(ShortTails, CpusThatCannotLeaveOutLanesHaveShorterTiles) {
  const Schedule s = chosen_at(columns_family(false), 71, 1, Target::parse("llvm -mcpu=haswell"));
  const std::string loops = loops_of(s);
  EXPECT_EQ(loops.find("if ramp("), std::string::npos) << loops;
}

TEST(ShortTails, VectorsOfFewColumnsHaveTheLanesOfLongerOnes) {
  const Schedule s =
      chosen_at(columns_family(false), 13, 1, Target::parse("llvm -mcpu=sapphirerapids"));
  EXPECT_NE(loops_of(s).find("ramp(0, 1, 16)"), std::string::npos) << s;
  EXPECT_EQ(loops_of(s).find("ramp(0, 1, 13)"), std::string::npos) << s;
}

TEST(ShortTails, NoLaneDividesByTheLengthOfRows) {
  for (const int64_t at : {1, 13, 64, 256}) {
    const Schedule s = chosen_at(bias_family(), at, 1);
    EXPECT_EQ(loops_of(s).find("floormod(ramp"), std::string::npos) << s;
  }
}

TEST(ShortTails, OneColumnIsReadByVectors) {
  const Dim m = columns();
  const Tensor a = placeholder({37, 768}, f32, "a"), b = placeholder({768, m}, f32, "b");
  const Family f{"deep", m, product(a, b, 768)};
  const std::string loops = loops_of(chosen_at(f, 1, 1));
  const size_t one = loops.find("if n == 1 {"), other = loops.find("} else {");
  ASSERT_NE(one, std::string::npos) << loops;
  EXPECT_EQ(loops.substr(one, other - one).find(", n, "), std::string::npos) << loops;
}

}  // namespace
}  // namespace heddle::testing
