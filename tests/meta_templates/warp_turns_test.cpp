// Blocks that share groups of tiles, of which a run ends one and begins the next, and warp groups
// that take turns at tiles: what the emulator makes of them is what the interpreter makes of the
// declaration; and it finds a missing arrival, wait or order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/codegen/emulator.h"
#include "heddle/ops/ops.h"
#include "meta_templates/changed_kernels.h"
#include "meta_templates/emulated_schedule.h"

namespace heddle::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Knobs with(Knobs k, int64_t waves, int64_t turns = 0, int64_t store = 0) {
  k.waves = waves;
  k.turns = turns;
  k.store = store;
  return k;
}

std::string check(const selftest::RandomProgram& p, const Knobs& knobs, int sms) {
  return check_emulated(p, schedule(p, knobs, with_sms(sms)));
}

// ---- groups of tiles ----

TEST(SharedGroups, AfterFullRounds) {
  // A round of three blocks, and two tiles for three blocks.
  EXPECT_THAT(check(product(bf16, 320, 64, 64 * 24), with({}, 1), 3),
              AllOf(HasSubstr("last_to_arrive of"), HasSubstr("last_arrival of")));
  check(product(f16, 320, 64, 64 * 25 + 8, 0, false), with({1, 1, 64, 2}, 1), 3);
  check(product(bf16, 64, 72, 1544, 7), with({1, 1, 64, 3}, 1), 4);
  check(product(bf16, 576, 136, 64 * 27), with({1, 2, 128, 2}, 1, 0, 1), 4);
}

// Groups of two, three and four tiles, of which the last one may have fewer.
TEST(SharedGroups, OfFewTiles) {
  check(product(bf16, 128, 64, 64 * 24), with({}, 1), 3);
  check(product(f16, 192, 64, 64 * 33), with({}, 1), 4);
  check(product(bf16, 192, 64, 64 * 41), with({}, 1), 5);
  check(product(bf16, 320, 64, 64 * 24), with({}, 1), 9);
  check(product(bf16, 320, 64, 64 * 40), with({}, 1), 8);
  check(product(i8, 136, 88, 128 * 40), with({1, 1, 96, 3}, 1), 5);
  check(product(f8e4m3, 72, 88, 128 * 24), with({}, 1), 3);
  EXPECT_THAT(check(product(bf16, 384, 64, 64 * 40), with({}, 1), 10),
              HasSubstr("last_arrival of several"));
}

// The order of the blocks is drawn by the emulator.
TEST(SharedGroups, TheResultDoesNotDependOnTheOrderOfTheBlocks) {
  for (const int sms : {3, 13}) {
    const selftest::RandomProgram p = product(bf16, 512, 64, 64 * 40);
    const Schedule s = schedule(p, with({}, 1), with_sms(sms));
    const GpuProgram lowered = lower_gpu(s, p.args());
    const selftest::Case want(p, 3);
    std::vector<double> first;
    for (const uint64_t seed : {1, 2, 3, 4}) {
      const std::vector<NDArray> arrays = want.fresh_arrays();
      emulate(lowered, arrays, {.seed = seed});
      EXPECT_EQ(want.difference(arrays), "");
      std::vector<double> got;
      for (int64_t i = 0; i < arrays.back().size(); ++i) got.push_back(arrays.back().get(i));
      if (first.empty()) first = got;
      EXPECT_EQ(got, first);
    }
  }
}

TEST(SharedGroups, TheEmulatorFindsPartsThatAreReadTooEarly) {
  const selftest::RandomProgram p = product(bf16, 128, 64, 64 * 24);
  const Schedule s = schedule(p, with({}, 1), with_sms(3));
  EXPECT_EQ(complaint_about(p, s, [](const Stmt& x) { return x; }), "");
  EXPECT_NE(complaint_about(p, s, without<tile::LastArrival>()), "");
  // The parts begin one element later than what the last arrival makes visible.
  const auto fewer = [](const Stmt& x) {
    const TileOp* op = x.as<TileOp>();
    if (!op || !op->as<tile::LastArrival>()) return x;
    std::vector<TileOperand> operands = op->operands;
    operands[4].index = operands[3].index;
    return make_tile_op(op->op, std::move(operands));
  };
  EXPECT_THAT(complaint_about(p, s, fewer), HasSubstr("race"));
}

// ---- turns ----

TEST(Turns, WarpGroupsComputeTilesInTurn) {
  EXPECT_THAT(check(product(bf16, 448, 64, 64 * 7), with({}, 0, 1), 3),
              AllOf(HasSubstr("order"), HasSubstr("threadIdx.z")));
  check(product(f16, 328, 136, 200, 0, false), with({2, 1, 128, 4}, 0, 1), 2);
  check(product(bf16, 64, 72, 136, 5), with({1, 1, 64, 2}, 0, 1), 2);
  check(product(f8e4m3, 200, 88, 704), with({}, 0, 1), 3);
}

TEST(Turns, EachGroupHasResultsOfItsOwn) {
  check(product(bf16, 448, 128, 72), with({1, 1, 64, 3}, 0, 1, 1), 3);
  check(product(f16, 328, 264, 264), with({2, 1, 128, 3}, 0, 1, 1), 2);
}

TEST(Turns, OfSharedTiles) {
  check(product(bf16, 448, 64, 64 * 24), with({}, 1, 1), 5);
  check(product(bf16, 128, 64, 64 * 24), with({}, 1, 1, 1), 3);
  check(product(bf16, 448, 128, 64 * 12), with({1, 1, 64, 4}, 1, 1, 1), 6);
}

TEST(Turns, OfPairs) {
  Knobs k = with({1, 1, 64, 3, 2, 1}, 0, 1);
  EXPECT_THAT(check(product(bf16, 448, 136, 64 * 9), k, 6), HasSubstr("order"));
  k.store = 1;
  check(product(bf16, 448, 136, 64 * 9), k, 6);
  check(product(f16, 640, 264, 64 * 5, 0, false), with({2, 1, 128, 3, 2, 1}, 0, 1, 2), 4);
}

TEST(Turns, TheEmulatorFindsGroupsThatDoNotWaitForTheirTurn) {
  const selftest::RandomProgram p = product(bf16, 448, 64, 64 * 9);
  const Schedule s = schedule(p, with({}, 0, 1), with_sms(2));
  EXPECT_EQ(complaint_about(p, s, [](const Stmt& x) { return x; }), "");
  EXPECT_NE(complaint_about(p, s, not_waiting_for("order")), "");
  EXPECT_NE(complaint_about(p, s, not_waiting_for("full")), "");
}

TEST(Turns, CompileWithoutWarnings) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  for (const Knobs& knobs :
       {with({1, 2, 256, 4}, 1), with({2, 2, 192, 3}, 1), with({1, 2, 256, 3}, 1, 0, 1),
        with({2, 1, 128, 4}, 0, 1, 1), with({2, 1, 192, 3}, 0, 1), with({1, 1, 256, 4}, 0, 1, 1),
        with({2, 1, 128, 4}, 1, 1, 1), with({2, 1, 192, 3}, 1, 1)}) {
    const selftest::RandomProgram p = product(bf16, 3064, 3104, 7720, 0, false);
    const cuda::Cubin cubin =
        cuda::compile_cuda(emit_cuda(lower_gpu(schedule(p, knobs), p.args())), "sm_90a");
    EXPECT_THAT(cubin.warnings, IsEmpty()) << cubin.log;
    for (const cuda::KernelResources& use : cubin.kernels) EXPECT_EQ(use.spill_stores, 0);
  }
}

}  // namespace
}  // namespace heddle::testing
