#include "heddle/ir/print.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

namespace heddle {
namespace {

TEST(Print, MinimalParentheses) {
  const Var a("a"), b("b"), c("c");
  EXPECT_EQ(to_string(a + b * c), "a + b*c");
  EXPECT_EQ(to_string((a + b) * c), "(a + b)*c");
  EXPECT_EQ(to_string(a - (b - c)), "a - (b - c)");
  EXPECT_EQ(to_string(a - b - c), "a - b - c");
  EXPECT_EQ(to_string(a * (b * c)), "a*(b*c)");
  EXPECT_EQ(to_string(a + -3), "a - 3");
  EXPECT_EQ(to_string(-(a + b)), "-(a + b)");
  EXPECT_EQ(to_string(a < b && (b < c || a == c)), "a < b && (b < c || a == c)");
  EXPECT_EQ(to_string(!(a < b)), "!(a < b)");
  EXPECT_EQ(to_string(floordiv(a + 1, 4) * 4 + floormod(a, 4)),
            "floordiv(a + 1, 4)*4 + floormod(a, 4)");
  EXPECT_EQ(to_string(min(a, b) % c), "min(a, b) % c");
  EXPECT_EQ(to_string(make_select(a < 0, a, 0)), "select(a < 0, a, 0)");
}

TEST(Print, ConstantsShowTheirTypeWhereItIsNotClear) {
  const Var x("x", i32), y("y", f32);
  EXPECT_EQ(to_string(x + 1), "x + 1");
  EXPECT_EQ(to_string(make_int(i32, 1)), "i32(1)");
  EXPECT_EQ(to_string(make_int(u64, -1)), "u64(18446744073709551615)");
  EXPECT_EQ(to_string(y * 0.1), "y*0.1f");
  EXPECT_EQ(to_string(cast(f32, x)), "f32(x)");
  EXPECT_EQ(to_string(Expr(true)), "true");
}

TEST(Print, FloatsRoundTrip) {
  EXPECT_EQ(to_string(Expr(1.f)), "1.0f");
  EXPECT_EQ(to_string(Expr(0.1)), "0.1");
  EXPECT_EQ(to_string(Expr(1e-30f)), "1e-30f");
  EXPECT_EQ(to_string(Expr(-0.0)), "-0.0");
  EXPECT_EQ(to_string(make_float(f16, 1.5)), "f16(1.5)");
  EXPECT_EQ(to_string(Expr(-std::numeric_limits<float>::infinity())), "f32(-inf)");
}

TEST(Print, Vectors) {
  const Var i("i"), v("v", f32);
  const Buffer A = Buffer::make("A", f32, {64}, Scope::Argument);
  EXPECT_EQ(to_string(make_load(A, {make_ramp(i * 8, 1, 8)}) * v), "A[ramp(i*8, 1, 8)]*x8(v)");
}

TEST(Print, LoopNest) {
  const Var io("i.outer"), j("j"), k("k");
  const Buffer A = Buffer::make("A", f32, {16, 64}, Scope::Argument);
  const Buffer B = Buffer::make("B", f32, {64, 32}, Scope::Argument);
  const Buffer C = Buffer::make("C", f32, {16, 32}, Scope::Argument);
  const Buffer acc = Buffer::make("acc", f32, {32}, Scope::Local);
  const Stmt init = make_for(j, 32, LoopKind::Unrolled, make_store(acc, {j}, 0.f));
  const Stmt update = make_for(
      k, 64, LoopKind::Serial,
      make_for(j, 32, LoopKind::Vectorized,
               make_store(acc, {j},
                          make_load(acc, {j}) + make_load(A, {io, k}) * make_load(B, {k, j}))));
  const Stmt finish =
      make_if(io < 15, make_store(C, {io, 0}, make_load(acc, {0}), StoreHint::NonTemporal),
              make_if(io == 15, make_prefetch(A, {io, 0}), make_store(C, {0, 0}, 1)));
  const LoweredFunction f{
      "f",
      {A, B, C},
      make_for(io, 16, LoopKind::Parallel, make_allocate(acc, make_block({init, update, finish})))};
  EXPECT_EQ(to_string(f),
            R"(func f(A: f32[16, 64], B: f32[64, 32], C: f32[16, 32]) {
  parallel for i.outer in 0..16 {
    local acc: f32[32]
    unrolled for j in 0..32 {
      acc[j] = 0.0f
    }
    for k in 0..64 {
      vectorized for j in 0..32 {
        acc[j] = acc[j] + A[i.outer, k]*B[k, j]
      }
    }
    if i.outer < 15 {
      nontemporal C[i.outer, 0] = acc[0]
    } else if i.outer == 15 {
      prefetch A[i.outer, 0]
    } else {
      C[0, 0] = 1.0f
    }
  }
}
)");
}

TEST(Print, AScopeHasBracesWhereMoreFollows) {
  const Var n("n"), m("m");
  const Buffer C = Buffer::make("C", i64, {4}, Scope::Argument);
  const Stmt let = make_let(m, n + 1, make_store(C, {m}, m));
  std::ostringstream out;
  out << make_block({let, let});
  EXPECT_EQ(out.str(),
            "let m = n + 1 {\n"
            "  C[m] = m\n"
            "}\n"
            "let m = n + 1\n"
            "C[m] = m\n");
}

}  // namespace
}  // namespace heddle
