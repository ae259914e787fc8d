// The symbolic intervals that say which part of a producer is read.
#include "lower/region.h"

#include <gtest/gtest.h>

#include "heddle/ir/print.h"

namespace heddle::testing {
namespace {

struct Setup {
  Var i{"i"}, o{"o"};
  SymEnv env;
  Ranges ranges;
  Setup() {
    // i goes from 4*o to 4*o + 3; o is a loop around it.
    env[i.get()] = {o * 4, o * 4 + 3, true};
    ranges.set(o, {0, 9});
  }
  std::string of(const Expr& e) const {
    SymInterval r = interval_of(e, env, ranges);
    if (!r.bounded()) return "unbounded";
    return to_string(r.lo) + " .. " + to_string(r.hi) + (r.exact ? "" : " ~");
  }
};

TEST(Interval, AffineIndicesAreExact) {
  Setup s;
  EXPECT_EQ(s.of(s.i), R"(@@)");
  EXPECT_EQ(s.of(s.i * 2 + 1), R"(@@)");
  EXPECT_EQ(s.of(Expr(10) - s.i), R"(@@)");
  EXPECT_EQ(s.of(s.i * -3), R"(@@)");
  EXPECT_EQ(s.of(s.o + 7), R"(@@)");
  EXPECT_EQ(s.of(Expr(5)), R"(@@)");
}

TEST(Interval, DivisionsAndRemaindersAreTightWhereTheyCanBe) {
  Setup s;
  EXPECT_EQ(s.of(floordiv(s.i, 4)), R"(@@)");
  EXPECT_EQ(s.of(floormod(s.i, 4)), R"(@@)");
  EXPECT_EQ(s.of(floormod(s.i, 3)), R"(@@)");
  EXPECT_EQ(s.of(floormod(s.o, 3)), R"(@@)");
}

TEST(Interval, ClampsAndSelectsAreBoundsOnly) {
  Setup s;
  EXPECT_EQ(s.of(max(Expr(0), min(s.i - 1, Expr(30)))), R"(@@)");
  EXPECT_EQ(s.of(make_select(s.i < 3, s.i, s.i + 10)), R"(@@)");
}

TEST(Interval, WhatIsBeyondTheAnalysisIsUnbounded) {
  Setup s;
  Buffer table = Buffer::make("t", i64, {64}, Scope::Argument);
  EXPECT_EQ(s.of(make_load(table, {s.i})), "unbounded");
  EXPECT_EQ(s.of(s.i * s.i), "unbounded");
  // But fixed while the loops run.
  EXPECT_EQ(s.of(make_load(table, {s.o})), "t[o] .. t[o]");
}

TEST(Interval, TheHullHoldsBoth) {
  Setup s;
  SymInterval a = interval_of(s.i, s.env, s.ranges), b = interval_of(s.i + 2, s.env, s.ranges);
  SymInterval h = hull(a, b, s.ranges);
  EXPECT_EQ(to_string(h.lo) + " .. " + to_string(h.hi), "o*4 .. o*4 + 5");
  EXPECT_FALSE(hull(a, {Expr(), Expr(), false}, s.ranges).bounded());
}

}  // namespace
}  // namespace heddle::testing
