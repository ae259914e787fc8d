// Rows of any length begin anywhere. Kernels for GPUs read and write them by aligned vectors.
#include "codegen/cuda/nvrtc/nvrtc.h"
#include "family/gpu_family_testing.h"
#include "heddle/family/generic.h"

namespace heddle::testing {
namespace {

Tensor half_softmax(const Tensor& x) {
  const Expr rows = x.shape()[0], n = x.shape()[1];
  const Axis j = reduce_axis(n, "j"), k = reduce_axis(n, "k");
  const Tensor most = compute({rows}, [&](Axis i) { return max(cast(f32, x(i, j)), j); }, "most");
  const Tensor power = compute(
      {rows, n}, [&](Axis i, Axis c) { return exp(cast(f32, x(i, c)) - most(i)); }, "power");
  const Tensor total = compute({rows}, [&](Axis i) { return sum(power(i, k), k); }, "total");
  return compute({rows, n}, [&](Axis i, Axis c) { return cast(f16, power(i, c) / total(i)); }, "y");
}

Family half_softmax_family() {
  const Dim n = dim("n", 1, 8192);
  return {"half_softmax", n, half_softmax(placeholder({5, n}, f16, "x"))};
}

/// Rows over their root mean square, times a row that all share, which begins elsewhere.
Family scaled_rows_family() {
  const Dim n = dim("n", 1, 4096);
  const Tensor x = placeholder({5, n}, f32, "x"), g = placeholder({n}, f32, "g");
  const Axis k = reduce_axis(n, "k");
  const Tensor squares = compute({5}, [&](Axis i) { return sum(x(i, k) * x(i, k), k); }, "squares");
  return {
      "scaled_rows", n,
      compute(
          {5, n},
          [&](Axis i, Axis j) { return x(i, j) / sqrt(squares(i) / cast(f32, Expr(n))) * g(j); },
          "y")};
}

Family long_sums_family() {
  const Dim n = dim("n", 1, 20000);
  const Tensor x = placeholder({7, n}, f32, "x");
  const Axis k = reduce_axis(n, "k");
  return {"long_sums", n, compute({7}, [&](Axis i) { return sum(x(i, k), k); }, "sums")};
}

/// The first of two columns of rows, which begin at odd places of longer ones.
Family part_of_rows_family() {
  const Dim n = dim("n", 1, 600);
  const Tensor x = placeholder({6, 2 * n + 1}, f32, "x");
  const Axis j = reduce_axis(n, "j");
  const Tensor most = compute({6}, [&](Axis i) { return max(x(i, j + n), j); }, "most");
  return {"part_of_rows", n,
          compute({6, n}, [&](Axis i, Axis c) { return x(i, c + n) - most(i); }, "y")};
}

std::string text_of(const Schedule& s) { return emit_cuda(lower_gpu(s, all_args(s.dag()))); }

bool has_vectors(const std::string& text) {
  return text.find("const uint2*)") != std::string::npos ||
         text.find("const uint4*)") != std::string::npos ||
         text.find("const float4*)") != std::string::npos;
}

/// Elements that depend on their place, and on what a product left in registers.
Family scaled_product_family() {
  const Dim n = dim("n", 1, 9);
  const Tensor a = placeholder({3, n, 4}, f32, "a"), b = placeholder({3, n, 4}, f32, "b");
  const Axis k = reduce_axis(4, "k");
  const Tensor p = compute(
      {3, n, n}, [&](Axis h, Axis i, Axis j) { return sum(a(h, i, k) * b(h, j, k), k); }, "p");
  return {"scaled_product", n,
          compute({3, n, n}, [&](Axis h, Axis i, Axis j) { return p(h, i, j) * 0.5f; }, "y")};
}

Family counted_rows_family() {
  const Dim n = dim("n", 1, 4096);
  const Tensor x = placeholder({5, n}, f32, "x");
  const Axis k = reduce_axis(n, "k");
  const Tensor most = compute({5}, [&](Axis i) { return max(x(i, k), k); }, "most");
  return {
      "counted_rows", n,
      compute({5, n}, [&](Axis i, Axis j) { return x(i, j) - most(i) + cast(f32, j % 4); }, "y")};
}

TEST(AlignedRows, LeaveRowsAloneWhosePlacesCount) {
  const Family product = scaled_product_family(), counted = counted_rows_family();
  for (const int64_t at : {8, 9}) {
    const Schedule s = family_schedule({product.result}, {{product.n, at}}, gpu("h200"));
    EXPECT_EQ(first_wrong(s, product, {1, 2, 3, 4, 5, 6, 7, 8, 9}), "") << at;
  }
  for (const int64_t at : {8, 64, 1000}) {
    const Schedule s = family_schedule({counted.result}, {{counted.n, at}}, gpu("h200"));
    EXPECT_EQ(first_wrong(s, counted, {1, 2, 3, 5, 63, 64, 65, 1001}), "") << at;
  }
}

TEST(AlignedRows, AreRightAtEverySize) {
  for (const Family& f : {half_softmax_family(), scaled_rows_family(), long_sums_family()}) {
    const Schedule s = family_schedule({f.result}, {{f.n, 256}}, gpu("h200"));
    EXPECT_TRUE(has_vectors(text_of(s))) << f.name << text_of(s);
    EXPECT_EQ(first_wrong(s, f, every_size(), 1e-2), "") << f.name;
  }
}

TEST(AlignedRows, AreRightWhereVersionsEnd) {
  const std::vector<int64_t> sizes{1,    7,    253,  254,  256,  257,  1021, 1022,
                                   1023, 1024, 1025, 1149, 1150, 2047, 4093, 4096};
  for (const Family& f : {half_softmax_family(), scaled_rows_family(), long_sums_family()}) {
    for (const int64_t at : {16, 64, 1000, 4096}) {
      const Schedule s = family_schedule({f.result}, {{f.n, at}}, gpu("h200"));
      EXPECT_EQ(first_wrong(s, f, sizes, 1e-2), "") << f.name << " chosen at " << at;
    }
  }
}

TEST(AlignedRows, LongestRowsAreRight) {
  const Family f = half_softmax_family(), sums = long_sums_family();
  EXPECT_EQ(
      first_wrong(family_schedule({f.result}, {{f.n, 256}}, gpu("h200")), f, {8191, 8192}, 1e-2),
      "");
  EXPECT_EQ(first_wrong(family_schedule({sums.result}, {{sums.n, 20000}}, gpu("h200")), sums,
                        {19997, 19999, 20000}, 1e-2),
            "");
}

// The rounds of the longest row are all full.
TEST(AlignedRows, ShiftedRowsTakeOneRoundMore) {
  const Dim n = dim("n", 1, 8192);
  const Tensor x = placeholder({7, n}, f16, "x");
  const Axis k = reduce_axis(n, "k");
  const Tensor y = compute({7}, [&](Axis i) { return sum(cast(f32, x(i, k)), k); }, "sums");
  const Schedule s = family_schedule({y}, {{n, 8192}}, gpu("h200"));
  EXPECT_TRUE(has_vectors(text_of(s))) << text_of(s);
  EXPECT_EQ(first_wrong(s, {"full rounds", n, y}, few_sizes(), 1e-2), "");
  EXPECT_EQ(first_wrong(s, {"full rounds", n, y}, {4095, 4097, 8185, 8189, 8190, 8191, 8192}, 1e-2),
            "");
}

TEST(AlignedRows, OfOtherPlacesInLongerRows) {
  const Family f = part_of_rows_family();
  for (const int64_t at : {8, 64, 600})
    EXPECT_EQ(first_wrong(family_schedule({f.result}, {{f.n, at}}, gpu()), f, every_size()), "");
}

TEST(AlignedRows, TwoSizesAtOnce) {
  const Dim m = dim("m", 1, 33), n = dim("n", 1, 33);
  const Tensor y = half_softmax(placeholder({m, n}, f16, "x"));
  const Schedule s = family_schedule({y}, {{m, 16}, {n, 32}}, gpu("h200"));
  const GpuProgram program = lower_gpu(s, all_args(s.dag()));
  EXPECT_TRUE(has_vectors(emit_cuda(program)));
  for (int64_t i = 1; i <= 33; ++i)
    for (int64_t j = 1; j <= 33; ++j) ASSERT_EQ(wrong_at(program, y, {{m, i}, {n, j}}, 1e-2), "");
}

// Long rows are chosen at multiples of vectors, and short ones at odd sizes.
TEST(AlignedRows, AreChosenAtMultiplesOfVectors) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const Family f = half_softmax_family();
  const FamilyKernel kernels = generic_family(all_args(ComputeDag({f.result})), gpu("h200"));
  ASSERT_GT(kernels.variants().size(), 3U);
  for (const FamilyKernel::Variant& v : kernels.variants()) {
    const int64_t n = std::stoll(v.name.substr(std::string("n = ").size()));
    EXPECT_TRUE(n < 256 ? n % 2 == 1 : n % 8 == 0) << v.name;
  }
}

// A row that is added to others begins at a multiple of vectors, and they do not: lanes that take
// neighbours one by one are faster there.
TEST(AlignedRows, AreNotChosenWhereRowsDiffer) {
  const Dim n = dim("n", 1, 4096);
  const Tensor x = placeholder({5, n}, f16, "x"), b = placeholder({n}, f16, "b");
  const Tensor y = compute({5, n}, [&](Axis i, Axis j) { return x(i, j) + b(j); }, "y");
  const Schedule s = family_schedule({y}, {{n, 1000}}, gpu());
  EXPECT_EQ(text_of(s).find("& -"), std::string::npos) << text_of(s);
  EXPECT_EQ(first_wrong(s, {"biased", n, y}, few_sizes(), 1e-2), "");
}

}  // namespace
}  // namespace heddle::testing
