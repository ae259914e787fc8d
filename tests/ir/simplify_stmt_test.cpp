// Statements: what loops and branches say about the expressions inside them.
#include <gtest/gtest.h>

#include "heddle/ir/print.h"
#include "heddle/ir/simplify.h"

namespace heddle {
namespace {

struct SimplifyStmtTest : testing::Test {
  Var io{"io"}, ii{"ii"}, j{"j"}, n{"n"};
  Buffer A = Buffer::make("A", f32, {100}, Scope::Argument);
  Expr i = io * 16 + ii;

  Stmt store(const Expr& index) { return make_store(A, {index}, 1.f); }
  Stmt serial(const Var& v, const Expr& extent, const Stmt& body) {
    return make_for(v, extent, LoopKind::Serial, body);
  }
  std::string simple(const Stmt& s) {
    const Stmt once = simplify(s);
    EXPECT_TRUE(simplify(once).same_as(once)) << once;
    return to_string(once);
  }
};

TEST_F(SimplifyStmtTest, LoopsGiveRanges) {
  const Stmt guarded = make_if(i < 112 && io >= 0, store(floordiv(i, 16)));
  EXPECT_EQ(simple(serial(io, 7, serial(ii, 16, guarded))),
            "for io in 0..7 {\n"
            "  for ii in 0..16 {\n"
            "    A[io] = 1.0f\n"
            "  }\n"
            "}\n");
}

TEST_F(SimplifyStmtTest, ALoopOfOneDisappearsAndOneOfNoneToo) {
  EXPECT_EQ(simple(serial(io, 1, serial(ii, 16, store(i)))),
            "for ii in 0..16 {\n"
            "  A[ii] = 1.0f\n"
            "}\n");
  EXPECT_FALSE(simplify(serial(io, min(n, 0), store(io))));
  EXPECT_EQ(simple(make_for(io, 1, LoopKind::Parallel, store(io + 3))), "A[3] = 1.0f\n");
}

// The first element of each of ceil(n / 16) tiles is one of n.
TEST_F(SimplifyStmtTest, TilesOfAVaryingLengthBeginInside) {
  const Var size("size", SizeRange{1, 100});
  const Expr tiles = floordiv(size + 15, 16);
  const Stmt guarded = make_if(io * 16 < size, store(io));
  EXPECT_EQ(simple(serial(io, tiles, guarded)),
            "for io in 0..floordiv(size + 15, 16) {\n"
            "  A[io] = 1.0f\n"
            "}\n");
  const std::string both = simple(serial(j, 4, serial(io, min(j + 1, tiles), guarded)));
  EXPECT_EQ(both.find("if "), std::string::npos) << both;
  const std::string other = simple(serial(io, tiles, make_if(io * 16 + 1 < size, store(io))));
  EXPECT_NE(other.find("if "), std::string::npos) << other;
}

TEST_F(SimplifyStmtTest, ATileThatIsCutShortStaysInside) {
  const Expr extent = min(Expr(16), 100 - io * 16);
  EXPECT_EQ(simple(serial(io, 7, serial(ii, extent, make_if(i < 100, store(i))))),
            "for io in 0..7 {\n"
            "  for ii in 0..min(100 - io*16, 16) {\n"
            "    A[io*16 + ii] = 1.0f\n"
            "  }\n"
            "}\n");
}

TEST_F(SimplifyStmtTest, ConditionsHoldInTheirBranches) {
  const Stmt inner = make_if(io < 6, make_if(i < 100, store(i), store(0)), store(floordiv(io, 6)));
  EXPECT_EQ(simple(serial(io, 7, serial(ii, 16, inner))),
            "for io in 0..7 {\n"
            "  for ii in 0..16 {\n"
            "    if io < 6 {\n"
            "      A[io*16 + ii] = 1.0f\n"
            "    } else {\n"
            "      A[1] = 1.0f\n"
            "    }\n"
            "  }\n"
            "}\n");
}

TEST_F(SimplifyStmtTest, TheSameGuardTwiceIsOne) {
  const Stmt twice = make_if(i < 100, make_if(i <= 99, store(i)));
  EXPECT_EQ(simple(serial(io, 7, serial(ii, 16, twice))),
            "for io in 0..7 {\n"
            "  for ii in 0..16 {\n"
            "    if io*16 + ii < 100 {\n"
            "      A[io*16 + ii] = 1.0f\n"
            "    }\n"
            "  }\n"
            "}\n");
}

TEST_F(SimplifyStmtTest, AGuardOfATileHoldsForItsElements) {
  const Stmt vectorised = make_if(io * 16 + 16 <= 100, serial(ii, 16, make_if(i < 100, store(i))));
  EXPECT_EQ(simple(serial(io, n, vectorised)),
            "for io in 0..n {\n"
            "  if io < 6 {\n"
            "    for ii in 0..16 {\n"
            "      A[io*16 + ii] = 1.0f\n"
            "    }\n"
            "  }\n"
            "}\n");
}

TEST_F(SimplifyStmtTest, WhatABranchStoresMayChangeItsCondition) {
  const Buffer flags = Buffer::make("flags", i64, {100}, Scope::Argument);
  const Expr set = make_load(flags, {0}) < 1;
  const Stmt s = make_if(set, make_block({make_store(flags, {0}, 5), make_if(set, store(0))}));
  EXPECT_EQ(simple(s),
            "if flags[0] < 1 {\n"
            "  flags[0] = 5\n"
            "  if flags[0] < 1 {\n"
            "    A[0] = 1.0f\n"
            "  }\n"
            "}\n");
}

TEST_F(SimplifyStmtTest, EmptyBranches) {
  EXPECT_EQ(simple(make_if(n < 3, serial(io, 0, store(io)), store(0))),
            "if 3 <= n {\n"
            "  A[0] = 1.0f\n"
            "}\n");
  EXPECT_FALSE(simplify(make_if(n < 3, serial(io, n - n, store(io)))));
}

TEST_F(SimplifyStmtTest, LetsCarryTheirRangeAndRelation) {
  Var m("m");
  const Stmt body = make_let(m, io * 16, make_if(m + ii < 100 && m < 200, store(m + ii)));
  EXPECT_EQ(simple(serial(io, 6, serial(ii, 4, body))),
            "for io in 0..6 {\n"
            "  for ii in 0..4 {\n"
            "    let m = io*16\n"
            "    A[ii + m] = 1.0f\n"
            "  }\n"
            "}\n");
  EXPECT_EQ(simple(make_let(m, Expr(3) + 4, store(m))), "A[7] = 1.0f\n");
  const Buffer flags = Buffer::make("flags", boolean, {100}, Scope::Argument);
  const Var found("found", boolean);
  EXPECT_EQ(simple(make_let(found, Expr(3) < 4, make_store(flags, {0}, found))),
            "flags[0] = true\n");
}

}  // namespace
}  // namespace heddle
