// From schedules with bound loops to kernels: the result of each pass on small programs, each of
// which runs in the emulator (which finds races and missing barriers) and is compared with the
// interpreter.
#include <gtest/gtest.h>

#include <cmath>

#include "gpu_product.h"
#include "heddle/codegen/emulator.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/ir/print.h"
#include "heddle/lower/lower.h"
#include "heddle/support/error.h"
#include "lower/gpu/threads/buffer_uses.h"

namespace heddle {
namespace {

using heddle::testing::a_gpu, heddle::testing::TiledProduct;
using heddle::testing::BX, heddle::testing::BY, heddle::testing::TX, heddle::testing::TY;

// The program's text, after it gave the interpreter's result in the emulator, in several orders of
// the warps. Integers of small size: sums are exact in any order.
std::string run(const Schedule& s, const std::vector<Tensor>& inputs,
                const std::vector<Tensor>& outputs) {
  std::vector<Tensor> args = inputs;
  args.insert(args.end(), outputs.begin(), outputs.end());
  const GpuProgram program = lower_gpu(s, args);
  std::vector<TensorValue> values;
  std::vector<NDArray> arrays;
  for (size_t i = 0; i < inputs.size(); ++i) {
    NDArray a = NDArray::random(inputs[i].extents(), inputs[i].dtype(), i + 1, -4, 4);
    for (int64_t e = 0; e < a.size(); ++e) a.set(e, std::round(a.get(e)));
    values.push_back({inputs[i], a});
    arrays.push_back(a);
  }
  const std::vector<NDArray> want = interpret(outputs, values);
  for (uint64_t seed : {0, 7}) {
    std::vector<NDArray> all = arrays;
    for (const Tensor& t : outputs) all.push_back(NDArray::zeros(t.extents(), t.dtype()));
    emulate(program, all, {seed});
    for (size_t o = 0; o < outputs.size(); ++o) {
      const NDArray& got = all[inputs.size() + o];
      for (int64_t e = 0; e < got.size(); ++e) {
        EXPECT_EQ(got.get(e), want[o].get(e)) << outputs[o].name() << "[" << e << "]";
        if (got.get(e) != want[o].get(e)) return to_string(program);
      }
    }
  }
  return to_string(program);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A step of a reduction of several results reads all of them before it stores one: what it reads waits for the threads
// that stored it, too.
TEST(Gpu, StepsOfSeveralResultsWaitForWhatTheyRead) {
  const Tensor x = placeholder({4, 64}, f32, "X");
  const Tensor y = compute({4, 64}, [&](Axis r, Axis i) { return x(r, i) * 2; }, "Y");
  const Reducer first = reducer(
      "first", {f32, i32}, {lowest_value(f32), make_const(i32, 0)},
      [](const std::vector<Expr>& a, const std::vector<Expr>& b) {
        return std::vector<Expr>{select(a[0] < b[0], b[0], a[0]), select(a[0] < b[0], b[1], a[1])};
      },
      false);
  const Axis k = reduce_axis(64, "k");
  const std::vector<Tensor> most = compute_all(
      {Expr(4)}, [&](Axis r) { return first({y(r, k), cast(i32, Expr(k))}, {k}); }, "M");
  const Tensor out = compute(
      {4, 64}, [&](Axis r, Axis i) { return y(r, i) + most[0](r) + cast(f32, most[1](r)); }, "Z");
  Schedule s({out}, a_gpu());
  StageRef last = s[out];
  last.bind(last.axis(0), BX);
  last.bind(last.axis(1), TX);
  s[y].bind(s[y].axis(1), TX);
  for (const Tensor& t : {y, most[0]}) {
    s[t].set_scope(Scope::Shared);
    s[t].compute_at(last, last.axis(0));
  }
  run(s, {x}, {out});
}

TEST(Gpu, AccumulatorsOfABlockBecomeRegistersOfItsThreads) {
  const TiledProduct m(32, 32, 16);
  const std::string text = run(m.tiled(1), {m.a, m.b}, {m.c});
  EXPECT_TRUE(has(text, "// grid 2 x 2 x 1, block 8 x 4 x 1, 1024 bytes of shared memory")) << text;
  EXPECT_TRUE(has(text, "local C.local: f32[4, 2]")) << text;
}

TEST(Gpu, TilesThatDoNotDivideKeepTheirThreads) {
  const TiledProduct m(37, 29, 19);
  const std::string text = run(m.tiled(1), {m.a, m.b}, {m.c});
  EXPECT_FALSE(has(text, "shared C.local")) << text;
}

TEST(Gpu, PipelineLoadsAheadWithOneBarrierARound) {
  const TiledProduct m(32, 32, 64);
  const std::string text = run(m.tiled(3), {m.a, m.b}, {m.c});
  EXPECT_TRUE(has(text, "shared 3 x")) << text;
  EXPECT_TRUE(has(text, "async A.copy[")) << text;
  const size_t loop = text.find("for k.o in 0..8");
  ASSERT_NE(loop, std::string::npos) << text;
  size_t barriers = 0;
  for (size_t at = text.find("sync block", loop); at != std::string::npos;
       at = text.find("sync block", at + 1))
    ++barriers;
  EXPECT_EQ(barriers, 1u) << text;
}

TEST(Gpu, PipelineOfFewerRoundsThanCopies) {
  for (int k : {8, 16, 21}) {
    const TiledProduct m(16, 16, k);
    run(m.tiled(4), {m.a, m.b}, {m.c});
    run(m.tiled(4, true), {m.a, m.b}, {m.c});
  }
}

TEST(Gpu, RegistersAreLoadedAheadOverTheEndOfATile) {
  for (int copies : {2, 3}) {
    const TiledProduct m(32, 32, 64);
    const std::string text = run(m.tiled(copies, true), {m.a, m.b}, {m.c});
    EXPECT_TRUE(has(text, "local 2 x")) << text;
    // The loads of a tile's first step stand before the uses of the last step of the tile before.
    const size_t loop = text.find("for k.o in 0..8");
    ASSERT_NE(loop, std::string::npos) << text;
    const size_t barrier = text.find("sync block", loop);
    EXPECT_TRUE(has(text.substr(barrier), "min(k.o + 1, 7)")) << text;
    EXPECT_TRUE(has(text.substr(loop, barrier - loop), "in 0..7")) << text;
  }
}

// sum over rows of `n`, `threads` threads a row; a row is for a block, or for a cluster.
Schedule row_sum(const Tensor& out, int threads, LoopKind rows = BX) {
  Schedule s({out}, a_gpu());
  StageRef c = s[out], acc = c.cache_write();
  Loop row = c.axis(0);
  c.bind(row, rows);
  StageRef part = acc.rfactor(acc.reduce_axis(0), threads, true);
  acc.compute_at(c, row);
  acc.bind(acc.reduce_axis(0), TX);
  part.compute_at(c, row);
  part.bind(part.axis(0), TX);
  return s;
}

Tensor sum_of_rows(const Tensor& a) {
  Axis k = reduce_axis(a.extents()[1], "k");
  return compute({static_cast<int>(a.extents()[0])}, [&](Axis i) { return sum(a(i, k), k); }, "S");
}

TEST(Gpu, ReductionOverAWarpShuffles) {
  Tensor a = placeholder({5, 100}, f32, "A"), s = sum_of_rows(a);
  const std::string text = run(row_sum(s, 32), {a}, {s});
  EXPECT_TRUE(has(text, "shuffle_xor(S.local.part[0], 16)")) << text;
  EXPECT_TRUE(has(text, " 0 bytes of shared memory")) << text;
  EXPECT_FALSE(has(text, "sync block")) << text;
}

TEST(Gpu, ReductionOverABlockGoesThroughSharedMemoryOnce) {
  Tensor a = placeholder({5, 300}, f32, "A"), s = sum_of_rows(a);
  const std::string text = run(row_sum(s, 128), {a}, {s});
  EXPECT_TRUE(has(text, "shared S.local.warps: f32[4]")) << text;
}

TEST(Gpu, ReductionOverThreadsThatAreNoWholeWarpsIsSerial) {
  Tensor a = placeholder({5, 300}, f32, "A"), s = sum_of_rows(a);
  const std::string text = run(row_sum(s, 24), {a}, {s});
  EXPECT_FALSE(has(text, "shuffle_xor")) << text;
}

TEST(Gpu, TupleReductionShufflesAllItsComponents) {
  Tensor a = placeholder({6, 200}, f32, "A");
  Axis k = reduce_axis(200, "k");
  Reducer larger =
      reducer("argmax", {i64, f32}, {int64_t{1} << 40, -1e30f},
              [](const std::vector<Expr>& x, const std::vector<Expr>& y) {
                Expr take = y[1] < x[1] || (x[1] == y[1] && x[0] < y[0]);
                return std::vector<Expr>{select(take, x[0], y[0]), select(take, x[1], y[1])};
              });
  auto m = compute_all({6}, [&](Axis i) { return larger({k, a(i, k)}, {k}); });
  Schedule s({m[0], m[1]}, a_gpu());
  StageRef c = s[m[0]], acc = c.cache_write();
  Loop row = c.axis(0);
  c.bind(row, BX);
  StageRef part = acc.rfactor(acc.reduce_axis(0), 64, true);
  acc.compute_at(c, row);
  acc.bind(acc.reduce_axis(0), TX);
  part.compute_at(c, row);
  part.bind(part.axis(0), TX);
  const std::string text = run(s, {a}, {m[0], m[1]});
  EXPECT_TRUE(has(text, "shuffle_xor")) << text;
}

TEST(Gpu, AnOutputThatIsNoArgumentIsKeptInTheWorkspace) {
  Tensor a = placeholder({40}, f32, "A");
  auto both =
      compute_all({40}, [&](Axis i) { return std::vector<Expr>{a(i) + 1.f, a(i) * 2.f}; }, "both");
  Schedule s({both[1]}, a_gpu());
  StageRef r = s[both[1]];
  auto [block, thread] = r.split(r.axis(0), 8);
  r.bind(block, BX).bind(thread, TX);
  run(s, {a}, {both[1]});
}

TEST(Gpu, ARowInRegistersServesTwoStages) {
  Tensor a = placeholder({4, 256}, f32, "A");
  Axis k = reduce_axis(256, "k");
  Tensor top = compute({4}, [&](Axis i) { return max(a(i, k), k); }, "top");
  Tensor out = compute({4, 256}, [&](Axis i, Axis j) { return a(i, j) - top(i); }, "out");
  Schedule s({out}, a_gpu());
  StageRef o = s[out], t = s[top];
  auto [i, j] = o.axes<2>();
  auto [jo, jt] = o.split(j, 64);
  o.reorder({i, jt, jo});
  o.bind(i, BX).bind(jt, TX);
  StageRef part = t.rfactor(t.reduce_axis(0), 64, true);
  StageRef row = s[a].cache_read({part, o});
  t.compute_at(o, i);
  t.bind(t.reduce_axis(0), TX);
  part.compute_at(o, i);
  part.bind(part.axis(0), TX);
  row.compute_at(o, i);
  auto [ro, rt] = row.split(row.axis(1), 64);
  row.reorder({rt, ro});
  row.bind(rt, TX);
  const std::string text = run(s, {a}, {out});
  EXPECT_TRUE(has(text, "local A.copy: f32[1, 4]")) << text;
}

TEST(Gpu, WhatThreadsReadOfEachOtherGoesThroughSharedMemoryWithABarrier) {
  Tensor a = placeholder({128}, f32, "A");
  Tensor b = compute({128}, [&](Axis i) { return a(i) * 2.f; }, "B");
  Tensor c = compute({128}, [&](Axis i) { return b(127 - i); }, "C");
  Schedule s({c}, a_gpu());
  StageRef out = s[c];
  auto [block, thread] = out.split(out.axis(0), 128);
  out.bind(block, BX).bind(thread, TX);
  StageRef mid = s[b];
  mid.compute_at(out, block);
  mid.bind(mid.axis(0), TX);
  const std::string text = run(s, {a}, {c});
  EXPECT_TRUE(has(text, "shared B")) << text;
  EXPECT_TRUE(has(text, "sync block")) << text;
}

TEST(Gpu, StagesAtTheRootAreKernelsOfTheirOwn) {
  Tensor a = placeholder({64}, f32, "A");
  Tensor b = compute({64}, [&](Axis i) { return a(i) + 1.f; }, "B");
  Tensor c = compute({64}, [&](Axis i) { return b(63 - i); }, "C");
  Schedule s({c}, a_gpu());
  for (const Tensor& t : {b, c}) {
    StageRef r = s[t];
    auto [block, thread] = r.split(r.axis(0), 32);
    r.bind(block, BX).bind(thread, TX);
  }
  const GpuProgram p = lower_gpu(s, {a, c});
  EXPECT_EQ(p.main.size(), 2u);
  EXPECT_EQ(p.workspace.size(), 1u);
  run(s, {a}, {c});
}

TEST(Gpu, AScheduleThatBindsNothingStillRuns) {
  Tensor a = placeholder({7, 9}, f32, "A"), s = sum_of_rows(a);
  run(Schedule({s}, a_gpu()), {a}, {s});
}

TEST(Gpu, ConstantsArePreparedByKernelsOfTheirOwn) {
  const TiledProduct m(16, 16, 8);
  Tensor w = constant_placeholder({8, 16}, f32, "W");
  Tensor twice = compute({8, 16}, [&](Axis i, Axis j) { return w(i, j) * 2.f; }, "W2");
  Axis k = reduce_axis(8, "k");
  Tensor c =
      compute({16, 16}, [&](Axis i, Axis j) { return sum(m.a(i, k) * twice(k, j), k); }, "C");
  const GpuProgram p = lower_gpu(Schedule({c}, a_gpu()), {m.a, w, c});
  EXPECT_EQ(p.prepare.size(), 1u);
  EXPECT_EQ(p.persistent.size(), 1u);
}

TEST(Gpu, TooManyThreadsIsAnError) {
  Tensor a = placeholder({4096}, f32, "A");
  Tensor b = compute({4096}, [&](Axis i) { return a(i) + 1.f; }, "B");
  Schedule s({b}, a_gpu());
  s[b].bind(s[b].axis(0), TX);
  try {
    lower_gpu(s, {a, b});
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_TRUE(has(e.what(), "4096 threads")) << e.what();
  }
}

TEST(Gpu, AClusterReducesARowThroughTheMemoryOfAllItsBlocks) {
  for (const int rows : {1, 5}) {
    Tensor a = placeholder({rows, 5000}, f32, "A"), s = sum_of_rows(a);
    const std::string text = run(row_sum(s, 128, LoopKind::clusters(4)), {a}, {s});
    const std::string blocks = std::to_string(4 * rows);
    EXPECT_TRUE(has(text, "// grid " + blocks +
                              " x 1 x 1, block 32 x 1 x 1, 16 bytes of shared "
                              "memory, clusters of 4"))
        << text;
    EXPECT_LT(text.find("sync started"), text.find("async S.local.warps[")) << text;
    EXPECT_LT(text.find("async S.local.warps["), text.find("async wait 0")) << text;
    EXPECT_FALSE(has(text, "sync block")) << text;
  }
}

// More warps than a warp has lanes: each warp shares their results out once more.
TEST(Gpu, AClusterOfManyWarpsShufflesTwice) {
  Tensor a = placeholder({3, 9000}, f32, "A"), s = sum_of_rows(a);
  const std::string text = run(row_sum(s, 4096, LoopKind::clusters(8)), {a}, {s});
  EXPECT_TRUE(has(text, "shared S.local.warps: f32[128]")) << text;
  EXPECT_TRUE(has(text, "block 512 x 1 x 1")) << text;
}

TEST(Gpu, WhatAClusterKeepsInSharedMemoryAllItsBlocksHave) {
  Tensor a = placeholder({2, 128}, f32, "A");
  Tensor b = compute({2, 128}, [&](Axis i, Axis j) { return a(i, j) * 2.f; }, "B");
  Tensor c = compute({2, 128}, [&](Axis i, Axis j) { return b(i, 127 - j) + b(i, j); }, "C");
  Schedule s({c}, a_gpu());
  StageRef out = s[c], mid = s[b];
  out.bind(out.axis(0), LoopKind::clusters(2)).bind(out.axis(1), TX);
  mid.compute_at(out, out.axis(0));
  mid.bind(mid.axis(1), TX);
  const std::string text = run(s, {a}, {c});
  EXPECT_TRUE(has(text, "shared B")) << text;
}

TEST(Gpu, ClustersOfBlocksThatAreNoWholeWarpsAreAnError) {
  Tensor a = placeholder({2, 96}, f32, "A");
  Tensor b = compute({2, 96}, [&](Axis i, Axis j) { return a(i, j) + 1.f; }, "B");
  Schedule s({b}, a_gpu());
  s[b].bind(s[b].axis(0), LoopKind::clusters(2)).bind(s[b].axis(1), TX);
  try {
    lower_gpu(s, {a, b});
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_TRUE(has(e.what(), "shares threadIdx.x of 96 among clusters of 2 blocks")) << e.what();
  }
  // A loop over blocks and one over clusters are both along x.
  Schedule both({b}, a_gpu());
  both[b].bind(both[b].axis(0), LoopKind::clusters(2));
  EXPECT_THROW(both[b].bind(both[b].axis(1), BX), Error);
}

// The sum of all: `parts` of them by blocks of 64 threads.
Schedule sum_of_parts(const Tensor& out, int length, bool last_block) {
  Schedule s({out}, a_gpu());
  StageRef c = s[out];
  StageRef parts = c.rfactor(c.reduce_axis(0), length, false);
  StageRef sum = parts.cache_write();
  StageRef lanes = sum.rfactor(sum.reduce_axis(0), 64, true);
  parts.bind(parts.axis(0), BX);
  sum.compute_at(parts, parts.axis(0));
  sum.bind(sum.reduce_axis(0), TX);
  lanes.compute_at(parts, parts.axis(0));
  lanes.bind(lanes.axis(0), TX);
  if (last_block) c.by_last_block();
  c.bind(c.reduce_axis(0), TX);
  return s;
}

TEST(Gpu, TheLastBlockCombinesTheParts) {
  Tensor a = placeholder({6400}, f32, "A");
  Axis k = reduce_axis(6400, "k");
  Tensor total = compute({}, [&](const std::vector<Axis>&) { return sum(a(k), k); }, "total");
  for (const int length : {200, 100}) {  // 32 and 64 parts, of the block's 64 threads
    const Schedule s = sum_of_parts(total, length, true);
    const GpuProgram p = lower_gpu(s, {a, total});
    ASSERT_EQ(p.main.size(), 1u);
    EXPECT_EQ(p.workspace.size(), 2u);  // the parts, the tickets
    const std::string text = run(s, {a}, {total});
    EXPECT_TRUE(has(text, "// then, in the last block to finish")) << text;
    EXPECT_TRUE(has(text, "shuffle_xor(total.part[0], 16)")) << text;
    EXPECT_EQ(lower_gpu(sum_of_parts(total, length, false), {a, total}).main.size(), 2u);
    const Schedule replayed = Schedule::from_json(s.to_json(), s.dag());
    EXPECT_EQ(replayed.to_text(), s.to_text());
  }
}

// Of a kernel that has one block, or where there is none before, it is no more than that.
TEST(Gpu, TheOnlyBlockIsTheLast) {
  Tensor a = placeholder({6400}, f32, "A");
  Axis k = reduce_axis(6400, "k");
  Tensor total = compute({}, [&](const std::vector<Axis>&) { return sum(a(k), k); }, "total");
  const GpuProgram one = lower_gpu(sum_of_parts(total, 6400, true), {a, total});
  ASSERT_EQ(one.main.size(), 1u);
  EXPECT_FALSE(one.main[0].tail);
  run(sum_of_parts(total, 6400, true), {a}, {total});
  Schedule alone({total}, a_gpu());
  alone[total].by_last_block();
  EXPECT_EQ(lower_gpu(alone, {a, total}).main.size(), 1u);
  run(alone, {a}, {total});
}

TEST(Gpu, TheLastBlockIsOne) {
  Tensor a = placeholder({64}, f32, "A");
  Tensor b = compute({64}, [&](Axis i) { return a(i) + 1.f; }, "B");
  Schedule s({b}, a_gpu());
  s[b].bind(s[b].axis(0), BX);
  EXPECT_THROW(s[b].by_last_block(), Error);
  Schedule t({b}, a_gpu());
  t[b].by_last_block();
  EXPECT_THROW(t[b].bind(t[b].axis(0), BX), Error);
}

TEST(Gpu, AnIndexIsBoundOnceAStage) {
  Tensor a = placeholder({8, 8}, f32, "A");
  Tensor b = compute({8, 8}, [&](Axis i, Axis j) { return a(i, j) + 1.f; }, "B");
  Schedule s({b}, a_gpu());
  s[b].bind(s[b].axis(0), TX);
  EXPECT_THROW(s[b].bind(s[b].axis(1), TX), Error);
  const Schedule replayed = Schedule::from_json(s.to_json(), s.dag());
  EXPECT_EQ(replayed.to_text(), s.to_text());
}

// The text of a kernel must not depend on where its buffers lie in memory.
TEST(Gpu, UsesOfBuffersAreInTheOrderOfTheirCreation) {
  const auto make = [] {
    std::vector<Buffer> out;
    for (int i = 0; i < 6; ++i) out.push_back(Buffer::make("b", f32, {Expr(1)}, Scope::Local));
    return out;
  };
  make();  // what is freed last is given out first, so the next addresses often fall
  const std::vector<Buffer> buffers = make();
  gpu::BufferUses uses;
  for (const Buffer& b : buffers) uses[b.get()];
  std::vector<const BufferNode*> order, wanted;
  for (const auto& [b, use] : uses) order.push_back(b);
  for (const Buffer& b : buffers) wanted.push_back(b.get());
  EXPECT_EQ(order, wanted);
}

}  // namespace
}  // namespace heddle
