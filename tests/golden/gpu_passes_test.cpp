// The effect of each pass from the sequential form to the thread form on a small kernel: the text
// before and after it is compared with checked-in text.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "golden/golden.h"
#include "gpu_product.h"
#include "heddle/dsl/tensor.h"
#include "heddle/family/schedule.h"
#include "heddle/ir/print.h"
#include "heddle/lower/lower.h"
#include "heddle/ops/ops.h"
#include "heddle/schedule/schedule.h"
#include "heddle/schedule/template.h"
#include "lower/gpu/gpu_passes.h"
#include "source_dir.h"

namespace heddle::testing {
namespace {

void expect_golden_texts(const std::string& pass, const std::string& file,
                         const std::string& before, const std::string& after) {
  EXPECT_NE(before, after) << "the subject shows nothing";
  expect_golden("gpu_passes/" + file,
                "== before " + pass + " ==\n" + before + "\n== after ==\n" + after);
}

void expect_golden_pass(const std::string& pass, const std::string& file, const Schedule& schedule,
                        const std::vector<Tensor>& args) {
  const GpuProgram program = lower_gpu(schedule, args, {.keep_passes = true});
  for (size_t i = 1; i < program.passes.size(); ++i) {
    if (program.passes[i].name != pass) continue;
    return expect_golden_texts(pass, file, to_string(program.passes[i - 1]),
                               to_string(program.passes[i]));
  }
  FAIL() << "no pass of the name " << pass;
}
void expect_golden_pass(const std::string& pass, const Schedule& schedule,
                        const std::vector<Tensor>& args) {
  expect_golden_pass(pass, pass, schedule, args);
}

TEST(GoldenGpuPasses, DistributeMakesAccumulatorsRegisters) {
  const TiledProduct p(32, 32, 64);
  expect_golden_pass("distribute", p.tiled(1), p.args());
}

TEST(GoldenGpuPasses, DistributeMakesReductionsOverThreadsShuffles) {
  Tensor a = placeholder({5, 256}, f32, "A");
  Axis k = reduce_axis(256, "k");
  Tensor out = compute({5}, [&](Axis i) { return sum(a(i, k), k); }, "S");
  Schedule s({out}, a_gpu());
  StageRef c = s[out], acc = c.cache_write();
  c.bind(c.axis(0), BX);
  StageRef part = acc.rfactor(acc.reduce_axis(0), 64, true);
  acc.compute_at(c, c.axis(0));
  acc.bind(acc.reduce_axis(0), TX);
  part.compute_at(c, c.axis(0));
  part.bind(part.axis(0), TX);
  expect_golden_pass("distribute", "distribute_reduction", s, {a, out});
  expect_golden_pass("single_out_stores", s, {a, out});
}

TEST(GoldenGpuPasses, ScatteredStoresAreOfTheOwnersOfRows) {
  const Tensor x = placeholder({70, 64}, f32, "X"), at = placeholder({70}, i64, "at");
  const Axis q = reduce_axis(70, "q");
  const Tensor sums = compute(
      {300, 64},
      [&](Axis i, Axis j) { return sum(select(at(q) == Expr(i), x(q, j), make_const(f32, 0)), q); },
      "S");
  expect_golden_pass("scattered_stores", create_schedule({sums}, a_gpu()), {at, x, sums});
}

// Rows beyond the batch: 32 images in a tile of 64 rows. Their condition is one of each warp.
TEST(GoldenGpuPasses, LiftConditionsOutOfUnrolledLoops) {
  const Buffer from = Buffer::make("A", f32, {Expr(4096)}, Scope::Global);
  const Buffer to = Buffer::make("tile", f32, {Expr(4096)}, Scope::Shared);
  const Var t("t"), i("i");
  const Expr at = Expr(t) * 64 + i;
  const Expr value = make_select(Expr(t) < 32, make_load(from, {at}) * 2, make_const(f32, 0.0));
  const Stmt rows = make_for(i, Expr(64), LoopKind::Unrolled, make_store(to, {at}, value));
  const Stmt s = make_for(t, Expr(64), LoopKind::ThreadX, rows);
  expect_golden_texts("lift_conditions", "lift_conditions", to_string(s),
                      to_string(gpu::lift_conditions(s)));
}

// The gradient of a relu behind a sum of which every second row has two terms.
TEST(GoldenGpuPasses, LoadAheadOfWhatDataChoose) {
  const Tensor y = placeholder({4, 16}, f16, "Y"), g = placeholder({4, 16}, f16, "G"),
               half = placeholder({2, 16}, f16, "H");
  const Tensor d = compute(
      {4, 16},
      [&](Axis i, Axis j) {
        const Expr zero = make_const(f16, 0);
        const Expr more = select(floormod(i, 2) == 0, half(floordiv(i, 2), j), zero);
        return select(y(i, j) > zero, g(i, j) + more, zero);
      },
      "D");
  expect_golden_pass("load_ahead", create_schedule({d}, a_gpu()), {y, g, half, d});
}

// A row is turned three times; what the first stage makes is not read by the third.
TEST(GoldenGpuPasses, ReuseSharedTakesThePlaceOfWhatIsNotReadAgain) {
  constexpr int64_t kLong = 4096;
  const auto turned = [&](const Tensor& t, const char* name) {
    return compute({8, kLong}, [&](Axis r, Axis i) { return t(r, (kLong - 1) - i) * 2; }, name);
  };
  const Tensor x = placeholder({8, kLong}, f32, "X"), a = turned(x, "A"), b = turned(a, "B"),
               c = turned(b, "C"), d = turned(c, "D");
  Schedule s({d}, a_gpu());
  StageRef last = s[d];
  last.bind(last.split(last.axis(1), 256)[1], TX);
  last.bind(last.axis(0), BX);
  for (const Tensor& t : {a, b, c}) {
    s[t].bind(s[t].split(s[t].axis(1), 256)[1], TX);
    s[t].compute_at(last, last.axis(0));
    s[t].set_scope(Scope::Shared);
  }
  expect_golden_pass("reuse_shared", s, {x, d});
}

// Padding within a padded tile. (The simplifier joins most of these before.)
TEST(GoldenGpuPasses, JoinZeroFillsMakesOneCondition) {
  const Buffer from = Buffer::make("A", f32, {Expr(60)}, Scope::Global);
  const Buffer to = Buffer::make("tile", f32, {Expr(64)}, Scope::Shared);
  const Var v("t");
  const Expr t = v;
  const Expr image = make_select(t >= 2 && t < 62, make_load(from, {t - 2}), make_const(f32, 0.0));
  const Expr tile = make_select(t < 63, image, make_const(f32, 0.0));
  const Stmt s = make_for(v, Expr(64), LoopKind::ThreadX, make_store(to, {t}, tile));
  expect_golden_texts("join_zero_fills", "join_zero_fills", to_string(s),
                      to_string(gpu::join_zero_fills(s)));
}

TEST(GoldenGpuPasses, ShortFunctionsOfResultsOf16Bits) {
  const Tensor x = placeholder({64}, f16, "X"), y = ops::gelu(x), z = ops::silu(y);
  expect_golden_pass("short_functions", create_schedule({y, z}, a_gpu()), {x, y, z});
}

TEST(GoldenGpuPasses, DistributeMakesMarkedNestsOperationsOfTheMatrixUnit) {
  Tensor a = placeholder({32, 32}, f16, "A"), b = placeholder({32, 32}, f16, "B");
  Tensor c = ops::matmul(a, b);
  const Template t = make_template(ComputeDag({c}), a_gpu(), AutoSchedulerOptions());
  expect_golden_pass("distribute", "distribute_tiles", t.static_schedule(), {a, b, c});
}

TEST(GoldenGpuPasses, WarpRolesLeaveTheLoadsToOneWarpGroup) {
  Tensor a = placeholder({256, 128}, f16, "A"), b = placeholder({128, 64}, f16, "B");
  Tensor c = ops::matmul(a, b);
  const Template t =
      make_template(ComputeDag({c}), Target::parse("cuda -gpu=h200"), AutoSchedulerOptions());
  Config config = t.default_config();
  for (const auto& [knob, value] : {std::pair{"unit", 1},
                                    {"groups", 2},
                                    {"group_tiles", 1},
                                    {"group_cols", 64},
                                    {"group_stages", 3},
                                    {"group_store", 1},
                                    {"exchanged", 0},
                                    {"raster", 1}})
    config.values.at(static_cast<size_t>(t.knob_index(knob))) = value;
  expect_golden_pass("warp_roles", t.instantiate(config), {a, b, c});
}

TEST(GoldenGpuPasses, SoftwarePipelineLoadsTilesAhead) {
  const TiledProduct p(32, 32, 64);
  expect_golden_pass("software_pipeline", p.tiled(3), p.args());
}

TEST(GoldenGpuPasses, InsertSyncSeparatesPhasesThatShareMemory) {
  const TiledProduct p(32, 32, 64);
  expect_golden_pass("insert_sync", p.tiled(1), p.args());
}

TEST(GoldenGpuPasses, TurnGridPutsTheMostBlocksAlongX) {
  const Tensor x = placeholder({70000, 3}, f32, "X");
  const Tensor y = compute({70000, 3}, [&](Axis i, Axis j) { return x(i, j) + 1.F; }, "Y");
  Schedule s({y}, a_gpu());
  s[y].bind(s[y].axis(0), LoopKind::BlockZ);
  s[y].bind(s[y].axis(1), BX);
  expect_golden_pass("turn_grid", s, {x, y});
}

// Copies of both operands of a product do so: neither reads what the other one writes.
TEST(GoldenGpuPasses, JoinLaunchesRunsKernelsSideBySide) {
  const Tensor x = placeholder({300}, f32, "X"), z = placeholder({100}, f32, "Z");
  const auto twice = [](const Tensor& t, const char* name) {
    return compute(t.shape(), [&](Axis i) { return t(i) * 2.F; }, name);
  };
  const Tensor a = twice(x, "A"), b = twice(z, "B");
  const Tensor c =
      compute({300}, [&](Axis i) { return a(i) + b(floordiv(Expr(i), Expr(3))); }, "C");
  Schedule s({c}, a_gpu());
  for (const Tensor& t : {a, b, c}) {
    const auto [block, thread] = s[t].split(s[t].axis(0), 100);
    s[t].bind(block, BX);
    s[t].bind(thread, TX);
  }
  expect_golden_pass("join_launches", s, {x, z, c});
}

// The passes that lowering for a CPU has too are shown by its own tests; the others do not change
// the loops (overlap_launch adds one wait).
TEST(GoldenGpuPasses, ShowEveryPassOfTheThreadForm) {
  const TiledProduct p(32, 32, 64);
  const std::set<std::string> others{
      "build_nest", "simplify",       "linear_scans", "loop_partition",   "launch_shape", "flatten",
      "vectorize",  "overlap_launch", "place_shared", "drop_unused_args", "collect_maps"};
  for (const GpuPassRecord& pass : lower_gpu(p.tiled(1), p.args()).passes) {
    if (others.count(pass.name)) continue;
    EXPECT_TRUE(
        std::filesystem::exists(source_dir() + "/tests/golden/gpu_passes/" + pass.name + ".txt"))
        << "no golden shows the pass " << pass.name;
  }
}

TEST(GoldenGpuPasses, HaveNoOtherFiles) {
  expect_no_other_goldens(
      "gpu_passes",
      {"gpu_passes/distribute", "gpu_passes/distribute_reduction", "gpu_passes/single_out_stores",
       "gpu_passes/join_zero_fills", "gpu_passes/software_pipeline", "gpu_passes/insert_sync",
       "gpu_passes/distribute_tiles", "gpu_passes/short_functions", "gpu_passes/turn_grid",
       "gpu_passes/scattered_stores", "gpu_passes/warp_roles", "gpu_passes/join_launches",
       "gpu_passes/reuse_shared", "gpu_passes/lift_conditions", "gpu_passes/load_ahead"});
}

}  // namespace
}  // namespace heddle::testing
