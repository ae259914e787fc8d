// A select does not load in the arm that is not taken: arrays end at pages that fault.
#include <gtest/gtest.h>

#include "codegen/llvm_util.h"

namespace heddle::testing {
namespace {

// out[i] = lo <= i - pad < n ? in[i - pad] * 2 : fill, as a padded convolution reads its image.
LoweredFunction padded_copy(DataType t, int64_t n, int64_t pad, int lanes) {
  const int64_t total = n + 2 * pad;
  Buffer in = argument("in", t, n), out = argument("out", t, total);
  const auto body = [&](Expr index) {
    const int count = index.dtype().lanes;
    const auto splat = [&](int64_t v) { return make_int(i64.with_lanes(count), v); };
    Expr at = index - splat(pad);
    Expr inside = (splat(0) <= at) && (at < splat(n));
    Expr fill = make_const(t.element(), 7);
    return make_store(
        out, {index},
        make_select(inside, make_load(in, {at}), count > 1 ? make_broadcast(fill, count) : fill));
  };
  Var i("i"), r("r");
  const int64_t whole = lanes > 1 ? total / lanes : 0;
  std::vector<Stmt> parts;
  if (whole > 0) {
    parts.push_back(
        make_for(i, whole, LoopKind::Serial, body(make_ramp(i * Expr(lanes), Expr(1), lanes))));
  }
  parts.push_back(
      make_for(r, total - whole * lanes, LoopKind::Serial, body(r + Expr(whole * lanes))));
  return {"padded", {in, out}, make_block(parts)};
}

template <class T>
void check_padded(DataType t) {
  for (int lanes : {1, 3, 4, 8, 16}) {
    for (int64_t n : {1, 5, 32, 33}) {
      for (int64_t pad : {0, 1, 9, 5000}) {
        CompiledModule m = compile(padded_copy(t, n, pad, lanes));
        for (bool front : {false, true}) {
          GuardedArray<T> in(n, front), out(n + 2 * pad, front);
          for (int64_t i = 0; i < n; ++i) in[i] = static_cast<T>(i + 1);
          ASSERT_EQ(call(m, in.data(), out.data()), 0);
          for (int64_t i = 0; i < n + 2 * pad; ++i) {
            const bool inside = i >= pad && i < pad + n;
            ASSERT_EQ(out[i], static_cast<T>(inside ? i - pad + 1 : 7))
                << to_string(t) << " lanes " << lanes << " n " << n << " pad " << pad;
          }
        }
      }
    }
  }
}

TEST(LlvmSelect, GuardsKeepLoadsInsideTheArray) {
  check_padded<float>(f32);
  check_padded<double>(f64);
  check_padded<int32_t>(i32);
  check_padded<int8_t>(i8);
  check_padded<int16_t>(i16);
}

TEST(LlvmSelect, StridedGatheredAndBroadcastLoadsAreGuarded) {
  constexpr int kLanes = 8;
  for (int lanes : {kLanes, 5}) {
    const auto splat = [&](int64_t v) { return make_int(i64.with_lanes(lanes), v); };
    Buffer in = argument("in", f32, 4), table = argument("table", i64, 4);
    Buffer first = argument("first", f32, 1), limit = argument("limit", i64, 1);
    Buffer out = argument("out", f32, 5 * lanes);
    const Expr lane = make_ramp(Expr(0), Expr(1), lanes);
    const auto at = [&](int64_t k) { return make_ramp(Expr(k * lanes), Expr(1), lanes); };
    const Expr none = make_broadcast(Expr(-1.0f), lanes);
    Var n("n");
    const Expr inside = lane < make_broadcast(n, lanes);
    std::vector<Stmt> s{
        make_store(out, {at(0)}, make_select(inside, make_load(in, {lane}), none)),
        // Reversed, every second, through a table that is itself too short, and one element.
        make_store(out, {at(1)},
                   make_select(inside, make_load(in, {make_ramp(Expr(3), Expr(-1), lanes)}), none)),
        make_store(out, {at(2)},
                   make_select(lane * splat(2) < make_broadcast(n, lanes),
                               make_load(in, {make_ramp(Expr(0), Expr(2), lanes)}), none)),
        make_store(out, {at(3)},
                   make_select(inside, make_load(in, {make_load(table, {lane})}), none)),
        make_store(out, {at(4)},
                   make_select(inside, make_broadcast(make_load(in, {n - Expr(1)}), lanes), none))};
    LoweredFunction f{
        "guards", {in, table, limit, out}, make_let(n, make_load(limit, {Expr(0)}), make_block(s))};
    CompiledModule m = compile(f);
    for (int64_t count = 0; count <= 4; ++count) {
      GuardedArray<float> x(count), y(5 * lanes);
      GuardedArray<int64_t> t(count);
      for (int64_t i = 0; i < count; ++i) {
        x[i] = static_cast<float>(i + 1);
        t[i] = count - 1 - i;
      }
      if (count < 4) {
        // The reversed read needs all four.
        GuardedArray<float> whole(4);
        for (int64_t i = 0; i < 4; ++i) whole[i] = static_cast<float>(i + 1);
        GuardedArray<int64_t> whole_table(4);
        ASSERT_EQ(call(m, whole.data(), whole_table.data(), &count, y.data()), 0);
        for (int i = 0; i < lanes; ++i) {
          EXPECT_EQ(y[lanes + i], i < count ? static_cast<float>(4 - i) : -1.0f);
        }
        continue;
      }
      ASSERT_EQ(call(m, x.data(), t.data(), &count, y.data()), 0);
      for (int i = 0; i < lanes; ++i) {
        EXPECT_EQ(y[i], i < count ? x[i] : -1.0f);
        EXPECT_EQ(y[lanes + i], i < count ? x[count - 1 - i] : -1.0f);
        EXPECT_EQ(y[2 * lanes + i], 2 * i < count ? x[2 * i] : -1.0f);
        EXPECT_EQ(y[3 * lanes + i], i < count ? x[t[i]] : -1.0f);
        EXPECT_EQ(y[4 * lanes + i], i < count ? x[count - 1] : -1.0f);
      }
    }
  }
}

TEST(LlvmSelect, ScalarConditionsBranchAroundVectorsAndNests) {
  constexpr int kLanes = 8;
  Buffer in = argument("in", f32, kLanes), n = argument("n", i64, 1),
         out = argument("out", f32, kLanes);
  const Expr lane = make_ramp(Expr(0), Expr(1), kLanes);
  const Expr count = make_load(n, {Expr(0)});
  Expr zero = make_broadcast(Expr(0.0f), kLanes);
  Expr partial = make_select(lane < make_broadcast(count, kLanes), make_load(in, {lane}), zero);
  Expr value = make_select(count == Expr(kLanes), make_load(in, {lane}), partial);
  CompiledModule m = compile({"nest", {in, n, out}, make_store(out, {lane}, value)});
  for (int64_t have = 0; have <= kLanes; ++have) {
    GuardedArray<float> x(have);
    for (int64_t i = 0; i < have; ++i) x[i] = 3.0f;
    std::vector<float> y(kLanes, -1);
    ASSERT_EQ(call(m, x.data(), &have, y.data()), 0);
    for (int64_t i = 0; i < kLanes; ++i) EXPECT_EQ(y[i], i < have ? 3.0f : 0.0f);
  }
}

TEST(LlvmSelect, LogicalOperatorsStopEarly) {
  for (int lanes : {1, 8, 3}) {
    Buffer in = argument("in", f32, 4), out = argument("out", boolean, 8);
    const Expr i = lanes == 1 ? Expr(5) : make_ramp(Expr(0), Expr(1), lanes);
    const auto splat = [&](int64_t v) { return make_int(i64.with_lanes(lanes), v); };
    const Expr zero = make_float(f32.with_lanes(lanes), 0);
    Expr both = (i < splat(4)) && (zero < make_load(in, {i}));
    Expr either = (splat(4) <= i) || (zero < make_load(in, {i}));
    const Expr at = lanes == 1 ? Expr(0) : make_ramp(Expr(0), Expr(1), lanes);
    for (bool conjunction : {true, false}) {
      // make_binary folds `5 < 4`; a runtime bound keeps the operator.
      CompiledModule m =
          compile({"logic", {in, out}, make_store(out, {at}, conjunction ? both : either)});
      GuardedArray<float> x(4);
      for (int k = 0; k < 4; ++k) x[k] = k % 2 ? 1.0f : -1.0f;
      std::vector<uint8_t> y(8);
      ASSERT_EQ(call(m, x.data(), y.data()), 0);
      for (int k = 0; k < lanes; ++k) {
        const int index = lanes == 1 ? 5 : k;
        const bool positive = index < 4 && x[index < 4 ? index : 0] > 0;
        EXPECT_EQ(y[k], conjunction ? (index < 4 && positive) : (index >= 4 || positive));
      }
    }
  }
}

TEST(LlvmSelect, ArmsWithoutLoadsAreAPlainSelect) {
  CompiledModule m = compile(elementwise({f32}, f32, 20, 8, [](const std::vector<Expr>& x) {
    Expr zero = make_float(x[0].dtype(), 0);
    return make_select(zero < x[0], x[0], zero);
  }));
  std::vector<float> a(20), b(20);
  for (int i = 0; i < 20; ++i) a[i] = static_cast<float>(i - 10);
  ASSERT_EQ(call(m, a.data(), b.data()), 0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(b[i], std::max(a[i], 0.0f));
}

}  // namespace
}  // namespace heddle::testing
