// Warp groups whose results TMA stores from shared memory, and blocks that share the tiles of the
// last wave: what the emulator makes of them is what the interpreter makes of the declaration; and
// it finds a missing fence, barrier or wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/codegen/emulator.h"
#include "heddle/ops/ops.h"
#include "heddle/target/last_round.h"
#include "meta_templates/changed_kernels.h"
#include "meta_templates/emulated_schedule.h"

namespace heddle::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Knobs stored(Knobs k) {
  k.store = 1;
  return k;
}
Knobs shared(Knobs k) {
  k.waves = 1;
  return k;
}

// Emulated, it is right. Returns the kernels.
std::string check(const selftest::RandomProgram& p, const Knobs& knobs, int sms = 132) {
  return check_emulated(p, schedule(p, knobs, with_sms(sms)));
}

// ---- stores by TMA ----

TEST(StoredTiles, SizesThatDivideNoTile) {
  EXPECT_THAT(check(product(bf16, 200, 136, 72), stored({2, 2, 128, 2})),
              AllOf(HasSubstr("bulk_store.64x64"), HasSubstr("store fence")));
  check(product(f16, 72, 88, 136), stored({}));
  check(product(bf16, 40, 72, 72, 3), stored({}));
}

// The last tiles of 256 x 128 have whole boxes beyond the ends, which are not stored.
TEST(StoredTiles, SizesThatBoxesDivide) {
  check(product(bf16, 384, 192, 136), stored({2, 2, 128, 3}));
  check(product(f16, 448, 320, 136), stored({2, 2, 128, 2}));
  check(product(bf16, 640, 576, 72), stored({1, 2, 256, 3, 2, 1}));
  check(product(f16, 384, 200, 72), stored({2, 2, 128, 2}));
}

TEST(StoredTiles, PersistentBlocksWaitForTheCopyOfTheTileBefore) {
  check(product(bf16, 256, 136, 72), stored({1, 1, 64, 3, 2}), 3);
  check(product(bf16, 240, 72, 72), stored({1, 2, 64, 3, 2, 1}));
}

TEST(StoredTiles, TilesOfAGroupOneAfterTheOther) {
  const auto by_tile = [](Knobs k) {
    k.store = 2;
    return k;
  };
  check(product(bf16, 200, 136, 72), by_tile({2, 2, 128, 2}));
  check(product(f16, 448, 320, 136), by_tile({2, 2, 128, 2, 2}), 2);
  check(product(bf16, 640, 192, 72), by_tile({2, 1, 192, 2}), 3);
  check(product(bf16, 520, 72, 72), by_tile({2, 2, 64, 3, 2, 1}));
  check(product(f16, 384, 200, 72), by_tile({2, 2, 128, 2}));
}

TEST(StoredTiles, EpiloguesAndBytes) {
  selftest::RandomProgram p = product(bf16, 72, 72, 80);
  const Tensor bias = placeholder({72}, bf16, "bias"), residual = placeholder({72, 72}, bf16, "r");
  p.inputs.push_back(bias);
  p.inputs.push_back(residual);
  p.outputs = {ops::relu(ops::add(ops::add(p.outputs[0], bias), residual))};
  p.text = "bias and residual";
  EXPECT_THAT(check(p, stored({})), HasSubstr("bulk_store"));
  selftest::RandomProgram q = product(f8e4m3, 72, 144, 272);
  EXPECT_THAT(check(q, stored({1, 1, 128, 3})), HasSubstr("bulk_store.64x128"));
}

// Rows of f32 fill whole sectors, and rows of 90 elements are no multiple of 16 bytes.
TEST(StoredTiles, OtherResultsAreStoredDirectly) {
  const AutoSchedulerOptionsScope scope(options());
  for (const selftest::RandomProgram& p :
       {product(f32, 512, 512, 512), product(bf16, 512, 90, 512)}) {
    const Template t = make_template(ComputeDag(p.outputs), h200());
    EXPECT_GE(t.knob_index("unit"), 0) << p.text;
    EXPECT_EQ(t.knob_index("group_store"), -1) << p.text;
  }
}

// Lanes store pieces of 16 bytes of tiles of any width.
TEST(StoredTiles, PiecesOfTilesOfAnyWidth) {
  const auto pieces = [](Knobs k) {
    k.store = 3;
    return k;
  };
  EXPECT_THAT(check(product(bf16, 200, 136, 72), pieces({2, 2, 72, 2})),
              AllOf(HasSubstr("wgmma.m64n72k16"), Not(HasSubstr("bulk_store"))));
  check(product(f16, 448, 320, 136), pieces({1, 2, 104, 2, 2}), 2);
  check(product(f16, 200, 328, 136), pieces({1, 2, 216, 2}));
  check(product(bf16, 520, 72, 72, 2), pieces({1, 1, 40, 3, 1}), 3);
  check(product(bf16, 72, 200, 72, 0, false), pieces({1, 1, 64, 3, 1}));
  check(product(bf16, 520, 72, 72), pieces({1, 1, 48, 3, 2, 1}));
  check(product(f8e4m3, 72, 144, 272), pieces({1, 1, 112, 3}));
  check(product(f16, 448, 136, 136), pieces({1, 3, 72, 2, 1}), 3);
  Knobs turns = pieces({1, 1, 56, 3});
  turns.turns = 1;
  check(product(f16, 328, 136, 136), turns, 2);
  check(product(f16, 328, 136, 520), shared(pieces({1, 2, 88, 3})), 4);
}

// Tiles of the transposed product: the rows of a tile are columns of the results.
TEST(StoredTiles, ExchangedProducts) {
  const auto exchanged = [](Knobs k, int64_t store = 1) {
    k.exchanged = 1;
    k.store = store;
    return k;
  };
  EXPECT_THAT(check(product(bf16, 200, 136, 72, 0, false), exchanged({1, 2, 72, 2})),
              AllOf(HasSubstr("wgmma.m64n72k16"), HasSubstr("bulk_store.72x64")));
  check(product(f16, 24, 200, 136), exchanged({1, 1, 32, 3}));
  check(product(f16, 104, 328, 136, 0, false), exchanged({2, 1, 104, 2}), 2);
  check(product(bf16, 72, 520, 72, 2), exchanged({1, 1, 40, 3}), 3);
  check(product(bf16, 72, 520, 72, 0, false), exchanged({1, 1, 48, 3, 2, 1}));
  check(product(bf16, 72, 200, 72, 0, false), exchanged({1, 1, 40, 3}, 0));
  check(product(f32, 200, 136, 100), exchanged({2, 1, 72, 2}, 0));
  check(product(i8, 72, 88, 272), exchanged({1, 1, 80, 3}, 0));
  check(product(bf16, 72, 448, 136, 0, false), exchanged({1, 3, 40, 3}), 3);
  Knobs turns = exchanged({1, 1, 56, 3});
  turns.turns = 1;
  check(product(f16, 136, 328, 136), turns, 2);
  check(product(f16, 136, 328, 520, 0, false), shared(exchanged({1, 2, 88, 3})), 4);
}

std::string complaint_of_store(const Change& change, int64_t store = 1) {
  const selftest::RandomProgram p = product(bf16, 192, 64, 72);
  Knobs knobs = stored({1, 1, 64, 3});
  knobs.store = store;
  return complaint_about(p, schedule(p, knobs, with_sms(2)), change);
}

Change without_sync(SyncKind kind, int number = -1) {
  auto seen = std::make_shared<int>(0);
  return [=](const Stmt& s) {
    const Sync* y = s.as<Sync>();
    const bool drop = y && y->sync == kind && (number < 0 || (*seen)++ == number);
    return drop ? Stmt() : s;
  };
}

TEST(StoredTiles, TheEmulatorFindsMissingFencesBarriersAndWaits) {
  EXPECT_EQ(complaint_of_store([](const Stmt& s) { return s; }), "");
  EXPECT_THAT(complaint_of_store(without_sync(SyncKind::StoreFence)), HasSubstr("no StoreFence"));
  // The first barrier follows the wait for the earlier copy, the second one the fence.
  EXPECT_THAT(complaint_of_store(without_sync(SyncKind::WarpGroup, 0)), HasSubstr("race on"));
  EXPECT_THAT(complaint_of_store(without_sync(SyncKind::WarpGroup, 1)),
              HasSubstr("no barrier after its StoreFence"));
  EXPECT_THAT(complaint_of_store(without_sync(SyncKind::StoreWait, 0)),
              HasSubstr("TMA may still read"));
  EXPECT_THAT(complaint_of_store(without_sync(SyncKind::StoreWait, 1)),
              HasSubstr("when the block ends"));
  EXPECT_THAT(complaint_of_store(without_sync(SyncKind::StoreCommit)), Not(HasSubstr("internal")));
  EXPECT_NE(complaint_of_store(without_sync(SyncKind::StoreCommit)), "");
  EXPECT_EQ(complaint_of_store([](const Stmt& s) { return s; }, 3), "");
  for (const int barrier : {0, 1})
    EXPECT_THAT(complaint_of_store(without_sync(SyncKind::WarpGroup, barrier), 3),
                HasSubstr("race on"));
}

// ---- the last wave ----

TEST(LastWave, IsSharedByAllBlocks) {
  EXPECT_EQ(last_round(20, 132, 32).group_blocks, 6);
  EXPECT_EQ(last_round(20, 132, 32).run, 6);
  EXPECT_EQ(last_round(132 * 3 + 120, 132, 64).group_blocks, 1);
  EXPECT_FALSE(last_round(132 * 3, 132, 64).shares());
  EXPECT_FALSE(last_round(1, 132, 7).shares());  // too short
  const LastRound uneven = last_round(1, 3, 13);
  EXPECT_EQ(uneven.group_blocks, 3);
  EXPECT_EQ(uneven.run, 5);  // 5, 5, 3
}

// 72 tiles for 132 blocks: groups of three tiles and five blocks; 88: of two and three.
TEST(LastWave, HasGroupsOfTiles) {
  const LastRound five = last_round(132 + 72, 132, 120);
  EXPECT_EQ(five.group_tiles, 3);
  EXPECT_EQ(five.group_blocks, 5);
  EXPECT_EQ(five.run, 72);
  EXPECT_EQ(five.units(), 120);
  EXPECT_EQ(five.most_parts(), 3);
  EXPECT_EQ(last_round(88, 132, 120).run, 80);
  EXPECT_EQ(last_round(88, 132, 120).group_tiles, 2);
  for (int64_t tiles = 1; tiles < 40; ++tiles) {
    for (const int64_t depth : {5, 8, 16, 33, 121}) {
      const LastRound r = last_round(tiles, 40, depth);
      EXPECT_LE(r.units(), 40);
      EXPECT_LE(r.run, depth);
      EXPECT_GE(r.group_blocks * r.run, r.group_tiles * depth);
      EXPECT_EQ(r.shares(), r.run < depth);
    }
  }
}

TEST(LastWave, OfFewTiles) {
  EXPECT_THAT(check(product(bf16, 128, 64, 64 * 13), shared({}), 6),
              HasSubstr("last_arrival of 3"));
  check(product(f16, 72, 88, 64 * 9 + 8, 0, false), shared({}), 9);
  check(product(bf16, 136, 72, 520), shared(stored({1, 2, 64, 2})), 9);
  check(product(i8, 72, 88, 1200), shared({}), 8);
  check(product(f8e4m3, 72, 88, 1200), shared({}), 8);
}

TEST(LastWave, AfterFullOnes) {
  EXPECT_THAT(check(product(bf16, 256, 64, 64 * 9), shared({}), 3), HasSubstr("last_arrival of 2"));
  check(product(bf16, 320, 72, 520), shared(stored({1, 1, 64, 3})), 8);
  check(product(bf16, 64, 72, 520, 5), shared({1, 1, 64, 3}), 7);
}

// The order of the blocks is drawn by the emulator.
TEST(LastWave, TheResultDoesNotDependOnWhichBlockIsLast) {
  const selftest::RandomProgram p = product(bf16, 72, 88, 1000);
  const Schedule s = schedule(p, shared({}), with_sms(20));
  const GpuProgram lowered = lower_gpu(s, p.args());
  const selftest::Case want(p, 3);
  std::vector<double> first;
  for (const uint64_t seed : {1, 2, 3}) {
    const std::vector<NDArray> arrays = want.fresh_arrays();
    emulate(lowered, arrays, {.seed = seed});
    EXPECT_EQ(want.difference(arrays), "");
    std::vector<double> got;
    for (int64_t i = 0; i < arrays.back().size(); ++i) got.push_back(arrays.back().get(i));
    if (first.empty()) first = got;
    EXPECT_EQ(got, first);
  }
}

TEST(LastWave, TheEmulatorFindsPartsThatAreReadTooEarly) {
  const selftest::RandomProgram p = product(bf16, 128, 64, 640);
  const Schedule s = schedule(p, shared({}), with_sms(4));
  EXPECT_EQ(complaint_about(p, s, [](const Stmt& x) { return x; }), "");
  // Without the arrival each block reads the parts of all.
  EXPECT_NE(complaint_about(p, s, without<tile::LastArrival>()), "");
  // With an arrival more, nobody is the last one.
  const auto more = [](const Stmt& x) {
    const TileOp* op = x.as<TileOp>();
    if (!op || !op->as<tile::LastArrival>()) return x;
    std::vector<TileOperand> operands = op->operands;
    operands[2].index = operands[2].index + Expr(1);
    return make_tile_op(op->op, std::move(operands));
  };
  EXPECT_THAT(complaint_about(p, s, more), HasSubstr("waits for more arrivals"));
}

TEST(LastWave, CompilesWithoutWarnings) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  for (const Knobs& knobs : {stored({1, 2, 256, 3}), stored({2, 2, 128, 3}), shared({1, 2, 128, 4}),
                             shared(stored({1, 2, 128, 4})), stored({1, 2, 256, 3, 2, 1})}) {
    const selftest::RandomProgram p = product(bf16, 1024, 1024, 512, 0, false);
    const cuda::Cubin cubin =
        cuda::compile_cuda(emit_cuda(lower_gpu(schedule(p, knobs), p.args())), "sm_90a");
    EXPECT_THAT(cubin.warnings, IsEmpty()) << cubin.log;
    for (const cuda::KernelResources& use : cubin.kernels) EXPECT_EQ(use.spill_stores, 0);
  }
}

// 192 accumulators of a thread leave registers for a bias and an activation, but for a few words.
TEST(LastWave, TheLargestTilesOfTheRuleHardlySpill) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  selftest::RandomProgram p = product(bf16, 1024, 768, 512, 0, false);
  const Tensor bias = placeholder({768}, bf16, "bias");
  p.inputs.push_back(bias);
  p.outputs = {ops::gelu(ops::add(p.outputs[0], bias))};
  for (const Knobs& knobs :
       {Knobs{2, 2, 192, 3}, Knobs{2, 2, 192, 3, 1, 0, -1, 2}, stored({1, 2, 256, 3})}) {
    const cuda::Cubin cubin =
        cuda::compile_cuda(emit_cuda(lower_gpu(schedule(p, knobs), p.args())), "sm_90a");
    EXPECT_THAT(cubin.warnings, IsEmpty()) << cubin.log;
    for (const cuda::KernelResources& use : cubin.kernels) EXPECT_LE(use.spill_stores, 16);
  }
}

// What the rule chooses by the model of an H200 (cuda/products/warp_group_rule.cpp).
TEST(LastWave, TheRuleChoosesByWavesAndRows) {
  const AutoSchedulerOptionsScope scope(options());
  const auto chosen = [](int64_t m, int64_t n, int64_t k, const std::string& knob) {
    const selftest::RandomProgram p = product(bf16, m, n, k, 0, false);
    const Template t = make_template(ComputeDag(p.outputs), h200());
    return t.default_config().values.at(static_cast<size_t>(t.knob_index(knob)));
  };
  EXPECT_EQ(chosen(4096, 4096, 4096, "group_store"), 1);
  EXPECT_EQ(chosen(4096, 4096, 4096, "waves"), 0);
  EXPECT_EQ(chosen(4096, 4096, 4096, "pairs"), 0);
  // Rows of 16 bytes more than whole sectors cost the second cache twice.
  EXPECT_EQ(chosen(7112, 7960, 1064, "pairs"), 1);
  // 29 x 22 tiles of 256 x 192 are 4.8 waves; 57 x 17 of 128 x 256 are 7.3.
  EXPECT_EQ(chosen(7272, 4224, 7872, "group_cols"), 192);
  // Few tiles and a long reduction.
  EXPECT_EQ(chosen(512, 512, 16384, "waves"), 1);
  // A block of few steps leaves shared memory to the next kernel's; a long one loads far ahead.
  EXPECT_EQ(chosen(704, 768, 256, "group_stages"), 6);
  EXPECT_EQ(chosen(704, 768, 4096, "group_stages"), 12);
  // Columns that lie across the depth are the rows of a tile where its width should divide the rows.
  EXPECT_EQ(chosen(264, 1808, 3872, "exchanged"), 1);
  EXPECT_EQ(chosen(264, 1808, 3872, "group_cols"), 72);
}

// Rows of a result of 32 bytes leave TMA slowly.
TEST(StoredTiles, LanesStoreShortRows) {
  const AutoSchedulerOptionsScope scope(options());
  const auto store = [](int64_t columns) {
    const selftest::RandomProgram p = product(f16, 401408, columns, 64, 0, false);
    const Template t = make_template(ComputeDag(p.outputs), h200());
    return t.default_config().values.at(static_cast<size_t>(t.knob_index("group_store")));
  };
  EXPECT_EQ(store(16), 0);
  EXPECT_NE(store(64), 0);
}

}  // namespace
}  // namespace heddle::testing
