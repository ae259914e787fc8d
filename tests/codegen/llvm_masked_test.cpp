// Stores that leave out lanes, and parallel loops that run alone where a call has little work.
#include <gtest/gtest.h>

#include "codegen/llvm/loop_work.h"
#include "codegen/llvm_util.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/dsl/dim.h"
#include "heddle/ir/simplify.h"
#include "heddle/runtime/ndarray.h"
#include "ir/op_class.h"

namespace heddle::testing {
namespace {

/// out[begin + stride * lane] = in[..] + in[..], in the lanes below `length`.
LoweredFunction masked(DataType t, int lanes, int64_t begin, int64_t stride, int64_t elements) {
  const Buffer n = argument("n", i64, 1), in = argument("in", t, elements),
               out = argument("out", t, elements);
  const Var length("length");
  const Expr at = make_ramp(Expr(begin), Expr(stride), lanes), x = make_load(in, {at}),
             value = t.is_bool() ? !x : x + x;
  const Expr mask = make_ramp(Expr(0), Expr(1), lanes) < make_broadcast(length, lanes);
  const Stmt store = make_if(mask, make_store(out, {at}, value));
  return {"masked", {n, in, out}, make_let(length, make_load(n, {Expr(0)}), store)};
}

TEST(LlvmMasked, LanesThatAreLeftOutAreNeitherReadNorWritten) {
  for (const DataType t : {f32, f64, f16, bf16, i8, i32, i64, boolean}) {
    for (const int lanes : {2, 5, 8, 16, 32, 64}) {
      for (const int64_t stride : {1, 3, -1}) {
        for (const int64_t length :
             {int64_t{0}, int64_t{1}, int64_t{lanes / 2 + 1}, int64_t{lanes}}) {
          const int64_t elements = std::max<int64_t>(1, (length - 1) * std::abs(stride) + 1);
          const int64_t begin = stride < 0 ? elements - 1 : 0;
          const LoweredFunction f = masked(t, lanes, begin, stride, elements);
          const auto bytes = static_cast<size_t>(elements * t.bytes());
          GuardedArray<char> in(bytes, stride < 0), out(bytes, stride < 0);
          const NDArray values = NDArray::random({elements}, t, 7),
                        want = NDArray::zeros({elements}, t);
          std::memcpy(in.data(), values.data(), bytes);
          std::memset(out.data(), 0, bytes);
          int64_t n = length;
          interpret(f, {NDArray::wrap(&n, {1}, i64), values, want});
          ASSERT_EQ(call(compile(f), &n, in.data(), out.data()), 0);
          EXPECT_EQ(std::memcmp(out.data(), want.data(), bytes), 0)
              << to_string(t) << ", " << length << " of " << lanes << " lanes, stride " << stride;
        }
      }
    }
  }
}

TEST(LlvmMasked, BuffersInRegistersKeepTheLanesThatAreLeftOut) {
  const Buffer n = argument("n", i64, 1), out = argument("out", f32, 8),
               kept = local("kept", f32, 8);
  const Expr at = make_ramp(Expr(0), Expr(1), 8);
  const Stmt all = make_store(kept, {at}, make_broadcast(Expr(1.f), 8));
  const Stmt some = make_if(at < make_broadcast(make_load(n, {Expr(0)}), 8),
                            make_store(kept, {at}, make_broadcast(Expr(2.f), 8)));
  const Stmt body = make_block({all, some, make_store(out, {at}, make_load(kept, {at}))});
  const CompiledModule m = compile({"kept", {n, out}, make_allocate(kept, body)});
  for (int64_t length = 0; length <= 8; ++length) {
    std::vector<float> result(8);
    ASSERT_EQ(call(m, &length, result.data()), 0);
    for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(result[static_cast<size_t>(i)], i < length ? 2 : 1);
  }
}

double work_at(const Stmt& loop, const Dim& n, int64_t size) {
  const Expr work =
      simplify(substitute(codegen::work_of(*loop.as<For>()), {{n.variable(), Expr(size)}}));
  const FloatImm* value = work.as<FloatImm>();
  return value ? value->value : -1;
}

TEST(LoopWork, CountsOperationsAtTheSizesOfACall) {
  const Dim n = dim("n", 1, 4096);
  const Buffer x = argument("x", f32, 4096), y = argument("y", f32, 4096);
  const Var i("i"), j("j");
  const auto rows = [&](const Stmt& body) {
    return make_for(i, Expr(n), LoopKind::Parallel, body);
  };
  const Stmt add = make_store(y, {i}, make_load(x, {i}) + 1.f);
  EXPECT_EQ(work_at(rows(add), n, 1), 2);
  EXPECT_EQ(work_at(rows(add), n, 100), 200);
  // A slow function counts as several, a vector as its lanes.
  const Expr lanes = make_ramp(i * 8, Expr(1), 8);
  EXPECT_EQ(work_at(rows(make_store(y, {lanes}, exp(make_load(x, {lanes})))), n, 10),
            10 * 8 * (1 + kSlowOperation));
  // Full tiles and tails count as what runs first.
  const Expr full = i < floordiv(Expr(n), Expr(4));
  const Stmt tile = make_for(j, 4, LoopKind::Serial, add),
             tail = make_for(j, floormod(Expr(n), Expr(4)), LoopKind::Serial, add);
  const auto tiles =
      make_for(i, floordiv(Expr(n) + 3, Expr(4)), LoopKind::Parallel, make_if(full, tile, tail));
  EXPECT_EQ(work_at(tiles, n, 3), 6);
  EXPECT_EQ(work_at(tiles, n, 41), 88);
}

TEST(LoopWork, ALengthThatMemoryHoldsIsNotLittleWork) {
  const Buffer x = argument("x", i64, 8), y = argument("y", i64, 8);
  const Var i("i"), j("j");
  const Stmt inner = make_for(j, make_load(x, {i}), LoopKind::Serial, make_store(y, {i}, j.expr()));
  const Stmt loop = make_for(i, 8, LoopKind::Parallel, inner);
  const FloatImm* work = codegen::work_of(*loop.as<For>()).as<FloatImm>();
  ASSERT_NE(work, nullptr);
  EXPECT_GE(work->value, codegen::kLeastParallelWork);
}

TEST(LoopWork, OnlyLoopsOverSizesAskForIt) {
  const Dim n = dim("n", 1, 4096);
  const Buffer y = argument("y", f32, 4096);
  const Var i("i");
  const auto text = [&](const Expr& extent, const std::vector<Var>& sizes) {
    LoweredFunction f{"f", {y}, make_for(i, extent, LoopKind::Parallel, make_store(y, {i}, 1.f))};
    f.sizes = sizes;
    return emit_llvm({f}, test_target(), "ll");
  };
  EXPECT_NE(text(Expr(n), {n.variable()}).find("alone:"), std::string::npos);
  EXPECT_EQ(text(Expr(4096), {}).find("alone:"), std::string::npos);
}

}  // namespace
}  // namespace heddle::testing
