// Families for Hopper: warp groups multiply what TMA loads, for as many rows as a call has.
#include <gmock/gmock.h>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "driver/program_args.h"
#include "emulated_kernels.h"
#include "family/family_testing.h"
#include "heddle/codegen/emulator.h"
#include "ir/sizes.h"
#include "meta_templates/emulated_schedule.h"

namespace heddle::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// n rows of f16 times a matrix, with sums of f32.
Family half_rows(const Dim& n, const Expr& depth, const Expr& columns) {
  const Tensor a = placeholder({n, depth}, f16, "a"), b = placeholder({depth, columns}, f16, "b");
  const Axis k = reduce_axis(depth, "k");
  const Tensor sums = compute(
      {n, columns}, [&](Axis i, Axis j) { return sum(cast(f32, a(i, k)) * cast(f32, b(k, j)), k); },
      "sums");
  return {"half_rows", n,
          compute({n, columns}, [&](Axis i, Axis j) { return cast(f16, sums(i, j)); }, "c")};
}

/// Warp groups of these knobs, as they are chosen at one size, for all sizes.
Schedule by_warp_groups(const Tensor& result, const std::vector<SizeValue>& at, const Knobs& knobs,
                        const Target& target = h200()) {
  selftest::RandomProgram p;
  p.outputs = at_sizes({result}, at).outputs;
  p.inputs = ComputeDag(p.outputs).placeholders();
  return for_all_sizes(schedule(p, knobs, target), {result});
}

GpuProgram lowered(const Schedule& s) {
  GpuProgram program = lower_gpu(s, all_args(s.dag()));
  EXPECT_EQ(program.main.size(), 1U);
  EXPECT_GE(program.main.at(0).maps.size(), 2U) << to_string(program);
  EXPECT_THAT(emit_cuda(program), HasSubstr("wgmma"));
  return program;
}

/// "" when the program gives what the interpreter gives at these sizes.
std::string wrong_at(const GpuProgram& program, const Tensor& result,
                     const std::vector<SizeValue>& at) {
  const ComputeDag dag(at_sizes({result}, at).outputs);
  const std::vector<NDArray> arrays = call_arrays(dag);
  std::string text;
  for (const SizeValue& v : at) text += v.size->name + " = " + std::to_string(v.value) + " ";
  try {
    emulate(program, arrays, {.seed = 1});
  } catch (const Error& e) {
    return text + e.message;
  }
  const std::string d = differs(dag, arrays, 1e-2);
  return d.empty() ? d : text + d;
}

const Knobs kTwoGroups{.tiles = 2, .groups = 2, .stages = 2};

TEST(WarpGroupFamily, RowsAreAnArgument) {
  const Family f = half_rows(dim("n", 1, 400), 136, 88);
  for (const Knobs& knobs : {Knobs{}, kTwoGroups, Knobs{.cols = 128, .stages = 4, .raster = 2},
                             Knobs{.tiles = 2, .groups = 2, .stages = 2, .store = 1}}) {
    const GpuProgram program = lowered(by_warp_groups(f.result, {{f.n, 255}}, knobs));
    EXPECT_EQ(program.main[0].maps.size(), knobs.store ? 3U : 2U) << "boxes of the results";
    for (const int64_t n : {1, 63, 64, 65, 129, 256, 257, 400})
      EXPECT_EQ(wrong_at(program, f.result, {{f.n, n}}), "");
  }
}

// Three blocks take the tiles of any number of rows in turns, and the ring of tiles goes on.
TEST(WarpGroupFamily, BlocksTakeTurns) {
  const Family f = half_rows(dim("n", 1, 600), 136, 104);
  const Target few = Target::parse("cuda -gpu=h200 -sms=3");
  const GpuProgram program = lowered(by_warp_groups(f.result, {{f.n, 255}}, {}, few));
  ASSERT_TRUE(program.main[0].grid_of[0].defined());
  EXPECT_EQ(program.main[0].grid[0], 3);
  for (const int64_t n : {1, 64, 65, 128, 191, 193, 300, 600})
    EXPECT_EQ(wrong_at(program, f.result, {{f.n, n}}), "");
}

// Blocks share the tiles of the last round (stream-K): few rows are cut into more parts than many.
TEST(WarpGroupFamily, BlocksShareTilesAtEverySize) {
  const Family f = half_rows(dim("n", 1, 400), 64 * 8 + 8, 104);
  for (const Knobs& knobs : {Knobs{.waves = 1}, Knobs{.store = 1, .waves = 1}}) {
    for (const int sms : {5, 20}) {
      const Target target = Target::parse("cuda -gpu=h200 -sms=" + std::to_string(sms));
      const GpuProgram program = lowered(by_warp_groups(f.result, {{f.n, 63}}, knobs, target));
      EXPECT_TRUE(program.main[0].tickets) << "tiles are shared";
      EXPECT_LE(program.main[0].grid[0], sms);
      for (const int64_t n : {1, 65, 129, 193, 400})
        EXPECT_EQ(wrong_at(program, f.result, {{f.n, n}}), "");
    }
  }
}

/// Whether an arm of a choice computes with what it loads from memory.
bool computes_with_loads_in_a_choice(const Stmt& s) {
  bool found = false;
  const auto loads = [](const Expr& e) {
    const Load* load = e.as<Load>();
    return load && load->buffer->scope != Scope::Local;
  };
  visit(
      s, [](const Stmt&) {},
      [&](const Expr& e) {
        const Select* choice = e.as<Select>();
        found |= choice && !choice->on_true.as<Load>() && any_below(choice->on_true, loads);
      });
  return found;
}

// The epilogue reads a residual, of which there are no rows beyond those of the call.
TEST(WarpGroupFamily, EpiloguesLoadAheadOfTheirArithmetic) {
  const Dim n = dim("n", 1, 300);
  const Family f = half_rows(n, 136, 88);
  const Tensor residual = placeholder({n, 88}, f16, "residual"),
               bias = placeholder({88}, f16, "bias"), sums = f.result.op()->inputs()[0];
  const Tensor c = compute(
      {n, 88},
      [&](Axis i, Axis j) { return cast(f16, sums(i, j)) + bias(j) + exp(residual(i, j)); }, "c");
  for (const Knobs& knobs : {Knobs{}, Knobs{.store = 1}}) {
    const GpuProgram program = lowered(by_warp_groups(c, {{n, 255}}, knobs));
    EXPECT_FALSE(computes_with_loads_in_a_choice(program.main[0].body)) << to_string(program);
    for (const int64_t rows : {1, 63, 64, 65, 200, 300})
      EXPECT_EQ(wrong_at(program, c, {{n, rows}}), "");
  }
}

// Rows that another kernel of the program computes: the map of its result has those of the call,
// beyond which TMA fills with zeros.
TEST(WarpGroupFamily, ComputedRowsAreLoadedByTma) {
  const Dim n = dim("n", 1, 200);
  const Tensor a = placeholder({1, 2, n, 64}, f16, "a"), b = placeholder({128, 64}, f16, "b");
  const Tensor rows =
      compute({1, n, 128}, [&](Axis i, Axis r, Axis c) { return a(i, c / 64, r, c % 64); }, "rows");
  const Axis k = reduce_axis(128, "k");
  const Tensor sums = compute(
      {1, n, 64},
      [&](Axis i, Axis r, Axis j) { return sum(cast(f32, rows(i, r, k)) * cast(f32, b(k, j)), k); },
      "sums");
  const Tensor c =
      compute({1, n, 64}, [&](Axis i, Axis r, Axis j) { return cast(f16, sums(i, r, j)); }, "c");
  Knobs knobs;
  knobs.location = 0;
  const Schedule s = by_warp_groups(c, {{n, 127}}, knobs);
  const GpuProgram program = lower_gpu(s, all_args(s.dag()));
  ASSERT_EQ(program.main.size(), 2U) << to_string(program);
  EXPECT_THAT(emit_cuda(program), HasSubstr("wgmma"));
  ASSERT_EQ(program.main[1].maps.size(), 2U) << to_string(program);
  EXPECT_TRUE(is_symbolic(program.main[1].maps[0].source->shape[1]));
  for (const int64_t r : {1, 64, 127, 200}) EXPECT_EQ(wrong_at(program, c, {{n, r}}), "");
}

// The groups in which a rule takes the blocks would be computed as a whole at every size.
TEST(WarpGroupFamily, NoBlockIsBeyondTheRows) {
  const Family f = half_rows(dim("n", 1, 2048), 136, 64);
  const GpuProgram program = lowered(by_warp_groups(f.result, {{f.n, 1023}}, Knobs{.raster = 16}));
  const Expr blocks = substitute(program.main[0].grid_of[0], {{f.n.variable(), Expr(65)}});
  EXPECT_EQ(*as_int(simplify(blocks)), 2);
}

TEST(WarpGroupFamily, AllExtentsMayBeArguments) {
  const Dim n = dim("n", 1, 200), depth = dim("k", 72, 400).multiple_of(8),
            columns = dim("m", 8, 200).multiple_of(8);
  const Family f = half_rows(n, depth, columns);
  const GpuProgram program =
      lowered(by_warp_groups(f.result, {{n, 127}, {depth, 136}, {columns, 88}}, {}));
  for (const int64_t k : {72, 128, 200})
    for (const int64_t m : {8, 72, 136})
      for (const int64_t rows : {1, 65})
        EXPECT_EQ(wrong_at(program, f.result, {{n, rows}, {depth, k}, {columns, m}}), "");
}

TEST(WarpGroupFamily, RowsOfAnyLengthAreRefused) {
  const Dim n = dim("n", 1, 200), depth = dim("k", 72, 400);
  const Family f = half_rows(n, depth, 64);
  const Schedule s = by_warp_groups(f.result, {{n, 127}, {depth, 136}}, {});
  const std::string error = error_of([&] { lower_gpu(s, all_args(s.dag())); });
  EXPECT_THAT(error, HasSubstr("rows of a multiple of 16 bytes"));
  EXPECT_THAT(error, HasSubstr("multiple_of(8)"));
}

TEST(WarpGroupFamily, TheChoiceForManyRowsHoldsForAll) {
  const Family f = half_rows(dim("n", 1, 2048), 768, 768);
  const Schedule many = family_schedule({f.result}, {{f.n, 2047}}, h200());
  EXPECT_EQ(many.target(), h200());
  const GpuProgram program = lowered(many);
  for (const int64_t n : {1, 17, 64, 130}) EXPECT_EQ(wrong_at(program, f.result, {{f.n, n}}), "");
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  EXPECT_FALSE(cuda::compile_cuda(emit_cuda(program), "sm_90a").bytes.empty());
}

// The driver is told the extents of each call.
TEST(WarpGroupFamily, MapsHaveTheRowsOfTheCall) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const Family f = half_rows(dim("n", 1, 300), 136, 88);
  const Schedule s = by_warp_groups(f.result, {{f.n, 255}}, {});
  cuda::FakeDriver driver;
  const cuda::ScopedDriver installed(&driver.api());
  emulate_kernels(driver, driver::lower_for_gpu(s, all_args(s.dag()), {.name = "rows"}));
  const Kernel kernel = build(s, all_args(s.dag()), {.name = "rows"});
  for (const int64_t n : {1, 100, 300}) {
    const ComputeDag dag(at_sizes({f.result}, {{f.n, n}}).outputs);
    const std::vector<NDArray> arrays = call_arrays(dag);
    kernel.call(arrays);
    EXPECT_EQ(differs(dag, arrays, 1e-2), "");
    const cuda::FakeDriver::Call& call = driver.launches.back();
    ASSERT_EQ(call.maps.size(), 2U);
    EXPECT_THAT(call.maps[0].extents, ElementsAre(136, n));
    EXPECT_THAT(call.maps[1].extents, ElementsAre(88, 136));
    EXPECT_EQ(call.grid[0], (n + 63) / 64 * 2);
  }
}

}  // namespace
}  // namespace heddle::testing
