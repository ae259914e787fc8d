// The symbolic intervals that say which part of a producer is read.
#include "lower/nest/sym_interval.h"

#include <gtest/gtest.h>

#include "heddle/ir/print.h"

namespace heddle::testing {
namespace {

struct Interval4 {
  Var i{"i"}, o{"o"};
  lowering::SymEnv env;
  Ranges ranges;
  Interval4() {
    // i goes from 4*o to 4*o + 3; o is a loop around it.
    env[i.get()] = {o * 4, o * 4 + 3, true};
    ranges.set(o, {0, 9});
  }
  std::string of(const Expr& e) const {
    lowering::SymInterval r = lowering::interval_of(e, env, ranges);
    if (!r.bounded()) return "unbounded";
    return to_string(r.lo) + " .. " + to_string(r.hi) + (r.exact ? "" : " ~");
  }
};

TEST(Interval, AffineIndicesAreExact) {
  Interval4 s;
  EXPECT_EQ(s.of(s.i), R"(o*4 .. o*4 + 3)");
  EXPECT_EQ(s.of(s.i * 2 + 1), R"(o*8 + 1 .. o*8 + 7)");
  EXPECT_EQ(s.of(Expr(10) - s.i), R"(7 - o*4 .. 10 - o*4)");
  EXPECT_EQ(s.of(s.i * -3), R"(-9 - o*12 .. o*-12)");
  EXPECT_EQ(s.of(s.o + 7), R"(o + 7 .. o + 7)");
  EXPECT_EQ(s.of(Expr(5)), R"(5 .. 5)");
}

TEST(Interval, DivisionsAndRemaindersAreTightWhereTheyCanBe) {
  Interval4 s;
  EXPECT_EQ(s.of(floordiv(s.i, 4)), R"(o .. o)");
  EXPECT_EQ(s.of(floormod(s.i, 4)), R"(0 .. 3)");
  EXPECT_EQ(s.of(floormod(s.i, 3)), R"(0 .. 2 ~)");
  EXPECT_EQ(s.of(floormod(s.o, 3)), R"(floormod(o, 3) .. floormod(o, 3))");
}

TEST(Interval, ClampsAndSelectsAreBoundsOnly) {
  Interval4 s;
  EXPECT_EQ(s.of(max(Expr(0), min(s.i - 1, Expr(30)))),
            "max(min(o*4 - 1, 30), 0) .. min(o*4 + 2, 30) ~");
  EXPECT_EQ(s.of(make_select(s.i < 3, s.i, s.i + 10)), R"(o*4 .. o*4 + 13 ~)");
}

TEST(Interval, WhatIsBeyondTheAnalysisIsUnbounded) {
  Interval4 s;
  Buffer table = Buffer::make("t", i64, {64}, Scope::Argument);
  EXPECT_EQ(s.of(make_load(table, {s.i})), "unbounded");
  EXPECT_EQ(s.of(s.i * s.i), "unbounded");
  // But fixed while the loops run.
  EXPECT_EQ(s.of(make_load(table, {s.o})), "t[o] .. t[o]");
}

TEST(Interval, UpperBoundsSeeThroughClamps) {
  const Var b("b");
  Ranges ranges;
  ranges.set(b, {0, 15});
  const Expr start = b * 16;
  // A tile of 16 that the end of an axis of 250 cuts off.
  const Expr extent = min(b * 8 + 7, Expr(124)) * 2 + 2 - start;
  EXPECT_EQ(lowering::upper_bound(extent, ranges), 16);
  // Both ends are clamped: a window of 5 around a point.
  const Expr window = min(b + 2, Expr(15)) - max(b - 2, Expr(0)) + 1;
  EXPECT_EQ(lowering::upper_bound(window, ranges), 5);
  // Terms that do not cancel are bounded by the ranges alone.
  EXPECT_EQ(lowering::upper_bound(min(start + 7, Expr(100)), ranges), 100);
  // A maximum that it grows with is no clamp from above.
  EXPECT_EQ(lowering::upper_bound(max(b * 8 + 7, Expr(124)) - b * 8, ranges), 127);
  EXPECT_EQ(lowering::upper_bound(Expr(7), ranges), 7);
}

TEST(Interval, TheHullHoldsBoth) {
  Interval4 s;
  lowering::SymInterval a = lowering::interval_of(s.i, s.env, s.ranges),
                        b = lowering::interval_of(s.i + 2, s.env, s.ranges);
  lowering::SymInterval h = lowering::hull(a, b, s.ranges);
  EXPECT_EQ(to_string(h.lo) + " .. " + to_string(h.hi), "o*4 .. o*4 + 5");
  EXPECT_FALSE(lowering::hull(a, {Expr(), Expr(), false}, s.ranges).bounded());
}

}  // namespace
}  // namespace heddle::testing
