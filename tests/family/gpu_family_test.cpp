// Kernels for GPUs whose extents are arguments: the emulator runs them, which checks every access.
#include "codegen/cuda/nvrtc/nvrtc.h"
#include "family/gpu_family_testing.h"
#include "runtime/cuda/fake_driver.h"

namespace heddle::testing {
namespace {

Family half_product_family(const Dim& n = usual_dim()) {
  const Tensor a = placeholder({n, 48}, f16, "a"), b = placeholder({48, 64}, f16, "b");
  const Axis k = reduce_axis(48, "k");
  return {"half_product", n,
          compute(
              {n, 64},
              [&](Axis i, Axis j) {
                return cast(f16, sum(cast(f32, a(i, k)) * cast(f32, b(k, j)), k));
              },
              "c")};
}

/// The sums of the columns of n rows.
Family columns_family(const Dim& n = usual_dim()) {
  const Tensor x = placeholder({n, 40}, f32, "x");
  const Axis k = reduce_axis(n, "k");
  return {"columns", n, compute({40}, [&](Axis j) { return sum(x(k, j), k); }, "sums")};
}

/// A softmax along rows of n elements.
Family long_rows_family(const Dim& n = usual_dim()) {
  return {"long_rows", n, softmax_of(placeholder({5, n}, f32, "x"))};
}

double tolerance_of(const Family& f) { return f.name == "half_product" ? 1e-2 : 1e-4; }

const std::vector<Family>& families() {
  static const std::vector<Family> all{
      elementwise_family(),  rows_family(),     matmul_family(),   chain_family(),
      softmax_family(),      row_sums_family(), conv_family(),     scaled_family(),
      half_product_family(), columns_family(),  long_rows_family()};
  return all;
}

TEST(GpuFamily, StaticChoicesAreRightAtEverySize) {
  for (const Family& f : families()) {
    EXPECT_EQ(first_wrong(family_schedule({f.result}, usual_sizes({f.result}), gpu()), f,
                          f.name == "elementwise" ? every_size() : few_sizes(), tolerance_of(f)),
              "")
        << f.name;
  }
}

TEST(GpuFamily, ChoicesForOneSizeAreRightAtOthers) {
  for (const Family& f : families()) {
    for (const int64_t at : {1, 7, 64, 300}) {
      // A batch of one can be a part of rows or of columns.
      if (f.name == "conv" && at == 1) continue;
      EXPECT_EQ(first_wrong(family_schedule({f.result}, {{f.n, at}}, gpu()), f, {1, 31, 33, 257},
                            tolerance_of(f)),
                "")
          << f.name << " chosen at " << at;
    }
  }
}

// Blocks of several rows, of which there are 4 n: the last block has fewer.
TEST(GpuFamily, AllThreadsReachBarriersWhereRowsFillNoWarp) {
  const Dim n = dim("n", 1, 64);
  const Tensor x = placeholder({4, n, n}, f32, "x");
  const Axis j = reduce_axis(n, "j"), k = reduce_axis(n, "k");
  const Tensor most = compute({4, n}, [&](Axis b, Axis i) { return max(x(b, i, j), j); }, "most");
  const Tensor total = compute(
      {4, n}, [&](Axis b, Axis i) { return sum(exp(x(b, i, k) - most(b, i)), k); }, "total");
  const Tensor y = compute(
      {4, n, n}, [&](Axis b, Axis i, Axis c) { return exp(x(b, i, c) - most(b, i)) / total(b, i); },
      "y");
  const Family f{"rows_of_two_dims", n, y};
  for (const int64_t at : {5, 16, 24, 40, 64}) {
    const Schedule s = family_schedule({y}, {{n, at}}, gpu());
    EXPECT_EQ(first_wrong(s, f, {1, 2, 3, 5, 15, 16, 17, 33, 64}), "") << at;
  }
}

TEST(GpuFamily, TwoSizesAtOnce) {
  const Dim n = dim("n", 1, 33), m = dim("m", 1, 33);
  const Tensor a = placeholder({n, 12}, f32, "a"), b = placeholder({12, m}, f32, "b");
  for (const Tensor& t : {product(a, b, 12), softmax_of(placeholder({n, m}, f32, "x"))}) {
    const Schedule s = family_schedule({t}, {{n, 17}, {m, 9}}, gpu());
    const GpuProgram program = lower_gpu(s, all_args(s.dag()));
    for (int64_t i = 1; i <= 33; i += 4)
      for (int64_t j = 1 + i % 3; j <= 33; j += 8)
        EXPECT_EQ(wrong_at(program, t, {{n, i}, {m, j}}, 1e-4), "");
  }
}

TEST(GpuFamily, ArraysOfAnyLengthAreReadByVectors) {
  const Dim any = dim("n", 1, 2048), eights = dim("n", 1, 2048).multiple_of(8);
  const auto schedule_of = [](const Dim& n, int64_t rows) {
    const Tensor x = placeholder({rows, n}, f32, "x");  // 64 rows would be whole vectors
    return family_schedule({relu_of(x)}, {{n, 1024}}, gpu());
  };
  for (const Dim& n : {any, eights}) {
    const Schedule s = schedule_of(n, 63);
    const std::string text = emit_cuda(lower_gpu(s, all_args(s.dag())));
    EXPECT_NE(text.find("float4"), std::string::npos) << text;
  }
  const Schedule s = schedule_of(any, 3), promised = schedule_of(eights, 3);
  const Family f{"any", any, s.dag().outputs()[0]},
      e{"eights", eights, promised.dag().outputs()[0]};
  EXPECT_EQ(first_wrong(s, f, {1, 2, 3, 5, 999, 1000, 1001, 1365, 1366, 2048}), "");
  EXPECT_EQ(first_wrong(promised, e, {8, 16, 1000, 2048}), "");
}

// A thread's part of a short row is in registers, that of the longest one in memory.
TEST(GpuFamily, ShortRowsAreKeptInRegisters) {
  const Dim n = dim("n", 1, 8192);
  const Tensor y = softmax_of(placeholder({2, n}, f32, "x"));
  const Schedule s = family_schedule({y}, {{n, 63}}, gpu());
  const GpuProgram program = lower_gpu(s, all_args(s.dag()));
  const std::string text = emit_cuda(program);
  EXPECT_NE(text.find("if (n < 97) {"), std::string::npos) << text;
  for (const int64_t size : {1, 31, 63, 64, 65, 255, 256, 257, 1023, 1025, 3000, 8192})
    EXPECT_EQ(wrong_at(program, y, {{n, size}}, 1e-4), "");
}

// Rows of a thread each: the shortest have versions of their length, others of bounded length.
TEST(GpuFamily, RowsOfAThreadHaveVersionsByLength) {
  const Dim n = dim("n", 1, 300);
  const Tensor y = softmax_of(placeholder({5, n}, f32, "x"));
  const Schedule s = family_schedule({y}, {{n, 5}}, gpu());
  const std::string text = emit_cuda(lower_gpu(s, all_args(s.dag())));
  const size_t first = text.find("if (n < 8) {"), masked = text.find("if (n < 13) {"),
               last = text.find("< n; ++");
  ASSERT_NE(first, std::string::npos) << text;
  ASSERT_NE(masked, std::string::npos) << text;
  EXPECT_LT(masked, last) << "a version for short rows has a loop of unknown length\n" << text;
  EXPECT_EQ(text.substr(first, masked - first).find("< n"), std::string::npos) << text;
  EXPECT_EQ(first_wrong(s, {"own rows", n, y}, every_size()), "");
}

// A round's loads do not wait for those before it: its mask is all that guards it.
TEST(GpuFamily, MaskedSumsHaveNoBranches) {
  const Family f = columns_family();
  const Schedule s = family_schedule({f.result}, {{f.n, 27}}, gpu());
  const std::string text = emit_cuda(lower_gpu(s, all_args(s.dag())));
  GpuProgram program = lower_gpu(s, all_args(s.dag()), {.name = "sums", .keep_passes = true});
  const auto at = std::find_if(program.passes.begin(), program.passes.end(),
                               [](const auto& p) { return p.name == "drop_implied_guards"; });
  ASSERT_NE(at, program.passes.end());
  EXPECT_FALSE(equal(at->main[0].body, (at - 1)->main[0].body)) << text;
  EXPECT_EQ(first_wrong(s, f, every_size()), "");
}

// A row beyond the last one has no part in a sum, and its lanes take part in the shuffles.
TEST(GpuFamily, LanesSumRowsOfAnyNumber) {
  const Dim n = dim("n", 1, 5000);
  for (const int64_t columns : {96, 40}) {  // a warp for each row; a part of a warp
    const Tensor y = softmax_of(placeholder({n, columns}, f32, "x"));
    const Schedule s = family_schedule({y}, {{n, 4999}}, gpu("h200"));
    const std::string text = emit_cuda(lower_gpu(s, all_args(s.dag())));
    EXPECT_NE(text.find("__shfl_xor_sync"), std::string::npos) << text;
    EXPECT_EQ(text.find("__syncthreads"), std::string::npos) << text;
    EXPECT_EQ(first_wrong(s, {"rows", n, y}, every_size()), "") << columns;
  }
}

// The columns of a product: parts of a block are as long as those of a schedule for one size.
TEST(GpuFamily, ColumnsOfAProductAreTilesOfAnyWidth) {
  const Dim n = dim("n", 1, 300);
  const Tensor a = placeholder({64, 192}, f16, "a"), b = placeholder({192, n}, f16, "b");
  const Axis k = reduce_axis(192, "k");
  const Tensor c = compute(
      {64, n},
      [&](Axis i, Axis j) { return cast(f16, sum(cast(f32, a(i, k)) * cast(f32, b(k, j)), k)); },
      "c");
  for (const int64_t at : {5, 27, 57, 123, 255}) {
    for (const char* name : {"a100", "h200"}) {
      const Schedule s = family_schedule({c}, {{n, at}}, gpu(name));
      EXPECT_EQ(first_wrong(s, {"columns of a product", n, c}, {1, 8, 33, 65, 257}, 1e-2), "")
          << at << " " << name;
    }
  }
}

// A fake GPU whose kernels the emulator runs.
TEST(GpuFamily, LaunchesTakeTheSizesOfTheCall) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const Family f = rows_family();
  const Schedule s = family_schedule({f.result}, {{f.n, 64}}, gpu());
  const GpuProgram program = lower_gpu(s, all_args(s.dag()));
  ASSERT_EQ(program.main.size(), 1U);
  cuda::FakeDriver driver;
  const cuda::ScopedDriver installed(&driver.api());
  driver.kernels[program.main[0].name] = {
      4, [&](const std::vector<void*>& p) {
        const auto n = reinterpret_cast<int64_t>(p[3]);
        emulate(program, {NDArray::wrap(p[0], {n, 37}, f32), NDArray::wrap(p[1], {37}, f32),
                          NDArray::wrap(p[2], {n, 37}, f32)});
      }};
  const Kernel kernel = build(s, all_args(s.dag()));
  std::vector<unsigned> blocks;
  for (const int64_t n : {1, 100, 300}) {
    EXPECT_EQ(testing::wrong_at(kernel, f.result, {{f.n, n}}), "");
    blocks.push_back(driver.launches.back().grid[0]);
  }
  EXPECT_LT(blocks[0], blocks[1]);
  EXPECT_LT(blocks[1], blocks[2]);
}

// A step that tensor cores need; kernels for CPUs take it, too.
TEST(GpuFamily, PaddedSumsAreRightOnACpu) {
  const Dim n = usual_dim();
  const Tensor a = placeholder({n, 24}, f32, "a"), b = placeholder({24, 40}, f32, "b");
  const Tensor c = product(a, b, 24);
  Schedule s({c});
  s[a].cache_read({s[c]});
  s[b].cache_read({s[c]});
  s[c].pad({{s[c].axis(0), 8}});
  const Kernel kernel = build(s, {a, b, c});
  for (const int64_t size : few_sizes()) EXPECT_EQ(testing::wrong_at(kernel, c, {{n, size}}), "");
}

TEST(GpuFamily, NvrtcTakesEach) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  for (const Family& f : families()) {
    const Schedule s = family_schedule({f.result}, usual_sizes({f.result}), gpu());
    const std::string text = emit_cuda(lower_gpu(s, all_args(s.dag())));
    EXPECT_FALSE(cuda::compile_cuda(text, "sm_80").bytes.empty()) << f.name;
  }
}

}  // namespace
}  // namespace heddle::testing
