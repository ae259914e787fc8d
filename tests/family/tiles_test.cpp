// Families on a CPU with registers for tiles (AMX), whose tiles have no tails. Kernels are built
// for this machine: without the unit, tiles run as plain loops.
#include "family/family_testing.h"

namespace heddle::testing {
namespace {

const Target& with_tiles() {
  static const Target target = Target::parse("llvm -mcpu=sapphirerapids");
  return target;
}

Family bf16_family(const Dim& n, bool relu = false) {
  const Tensor a = placeholder({n, 64}, bf16, "a"), b = constant_placeholder({64, 48}, bf16, "b");
  const Axis k = reduce_axis(64, "k");
  const Tensor c = compute(
      {n, 48}, [&](Axis i, Axis j) { return sum(cast(f32, a(i, k)) * cast(f32, b(k, j)), k); },
      "c");
  return {"bf16 product", n, relu ? relu_of(c) : c};
}

bool uses_tiles(const Schedule& s) {
  for (const Step& step : s.steps()) {
    if (step.kind == StepKind::Tensorize) return true;
  }
  return false;
}

Kernel kernel_of(const Schedule& s) {
  return build(s.for_target(Target::host()), all_args(s.dag()));
}

TEST(FamilyTiles, PaddedSumsAreRight) {
  const Dim n = usual_dim();
  const Tensor a = placeholder({n, 24}, f32, "a"), b = placeholder({24, 40}, f32, "b"),
               c = product(a, b, 24);
  Schedule s({c});
  s[a].cache_read({s[c]});
  s[b].cache_read({s[c]});
  s[c].pad({{s[c].axis(0), 8}, {s[c].axis(1), 16, 3}});
  const Kernel kernel = build(s, {a, b, c});
  for (const int64_t rows : {1, 7, 8, 9, 100, 300})
    EXPECT_EQ(wrong_at(kernel, c, {{n, rows}}, rows % 2 == 0), "");
}

TEST(FamilyTiles, RowsArePaddedToWholeTiles) {
  // The choice for 100 rows pads, that for 64 rows does not, so it is made for 63.
  for (const int64_t at : {100, 64}) {
    const Family f = bf16_family(usual_dim(), at == 64);
    const Schedule s = family_schedule({f.result}, {{f.n, at}}, with_tiles());
    ASSERT_TRUE(uses_tiles(s)) << s;
    const Kernel kernel = kernel_of(s);
    for (int64_t n = 1; n <= 257; n += n < 70 ? 1 : 11)
      EXPECT_EQ(wrong_at(kernel, f.result, {{f.n, n}}, n % 2 == 0), "") << at;
  }
}

TEST(FamilyTiles, MultiplesOfTheTileNeedNoPadding) {
  const Dim n = dim("n", 32, 256).multiple_of(32);
  const Family f = bf16_family(n);
  const Schedule s = family_schedule({f.result}, {{n, 64}}, with_tiles());
  ASSERT_TRUE(uses_tiles(s)) << s;
  for (const Step& step : s.steps()) EXPECT_NE(step.kind, StepKind::Pad);
  const Kernel kernel = kernel_of(s);
  for (int64_t rows = 32; rows <= 256; rows += 32)
    EXPECT_EQ(wrong_at(kernel, f.result, {{n, rows}}), "");
}

TEST(FamilyTiles, TilesThatWouldNeedATailAreRefused) {
  const Family f = bf16_family(usual_dim());
  const Schedule one = create_schedule(at_sizes({f.result}, {{f.n, 64}}).outputs, with_tiles(), {});
  ASSERT_TRUE(uses_tiles(one)) << one;
  const std::string error = error_of([&] { for_all_sizes(one, {f.result}); });
  EXPECT_NE(error.find("have no tail for the extent n"), std::string::npos) << error;
}

// Too few rows for tiles near the size: the kernel has vectors.
TEST(FamilyTiles, FewRowsHaveKernelsWithoutTiles) {
  const Family f = bf16_family(usual_dim());
  const Schedule s = family_schedule({f.result}, {{f.n, 1}}, with_tiles());
  EXPECT_FALSE(uses_tiles(s)) << s;
  const Kernel kernel = kernel_of(s);
  for (const int64_t n : {1, 2, 17, 300}) EXPECT_EQ(wrong_at(kernel, f.result, {{f.n, n}}), "");
}

}  // namespace
}  // namespace heddle::testing
