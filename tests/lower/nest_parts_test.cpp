// The parts that nests are built from, each alone.
#include <gtest/gtest.h>

#include "heddle/dsl/dim.h"
#include "lower/lower_testing.h"
#include "lower/nest/regions.h"
#include "lower/nest/storage.h"
#include "lower/nest/tails.h"

namespace heddle::testing {
namespace {

// B[i] = A[i] + A[i + 2], where i is split by 8 and A is computed at the outer loop.
struct Split {
  Tensor x, A, B;
  Schedule s;
  const lowering::StageGraph graph;
  lowering::AxisScope axes;
  const int a, b;
  const Var o{"o"}, i{"i"};

  explicit Split(const Expr& n, int64_t factor = 8, bool unroll = false)
      : Split(placeholder({n + 2}, f32, "x"), n, factor, unroll) {}
  Split(const Tensor& in, const Expr& n, int64_t factor, bool unroll)
      : x(in),
        A(compute(
            {n + 2}, [&](Axis j) { return exp(x(j)); }, "A")),
        B(compute(
            {n}, [&](Axis j) { return A(j) + A(j + 2); }, "B")),
        s(scheduled(A, B, factor, unroll)),
        graph(s.state()),
        axes(graph, false),
        a(s.dag().index_of(A.op())),
        b(s.dag().index_of(B.op())) {
    axes.enter(b, {Expr(0)}, {n});
  }
  static Schedule scheduled(const Tensor& A, const Tensor& B, int64_t factor, bool unroll) {
    Schedule s({B});
    const auto [outer, inner] = s[B].split(s[B].axis(0), factor);
    if (unroll) s[B].unroll(inner);
    s[A].compute_at(s[B], outer);
    return s;
  }

  int root() const { return graph.stage(b).spatial[0]; }
  const AxisState& split() const { return s.state().axes[static_cast<size_t>(root())]; }
  lowering::LoopPlace outer() const { return {b, graph.stage(b).leaves, 0}; }
  /// Opens the outer loop and returns the splits that it leaves open.
  std::vector<int> open_outer() {
    axes.loops().open(o, axes.extent(split().split_outer), axes.extent(split().split_outer));
    return axes.bind(split().split_outer, o);
  }
  void open_inner() {
    axes.loops().open(i, axes.extent(split().split_inner), axes.extent(split().split_inner));
    axes.bind(split().split_inner, i);
  }
  std::string text(const lowering::SymInterval& r) const {
    return to_string(r.lo) + " .. " + to_string(r.hi) + (r.exact ? "" : " ~");
  }
};

TEST(OpenLoops, TheLastIterationProvesWhatRangesDoNot) {
  const Var n = dim("n", 1, 1000).variable(), v("v");
  lowering::OpenLoops loops(false);
  {
    const lowering::OpenLoops::Scope scope(loops);
    loops.imagine(v, n);
    EXPECT_FALSE(loops.at_most(v * 8 + 8, n * 8));
    loops.end_at(v, n - 1);
    EXPECT_TRUE(loops.at_most(v * 8 + 8, n * 8));
  }
  EXPECT_FALSE(loops.ranges().known(v.get())) << "forgotten at the end of the scope";
}

TEST(OpenLoops, ANarrowedRangeIsRestored) {
  const Var v("v");
  lowering::OpenLoops loops(false);
  loops.open(v, Expr(10), Expr(10));
  {
    const lowering::OpenLoops::Scope scope(loops);
    loops.narrow(v, {0, 3});
    EXPECT_TRUE(loops.proves(v < 4));
  }
  EXPECT_EQ(loops.ranges().get(v.get()), (Interval{0, 9}));
}

TEST(AxisScope, AnAxisHasAValueWhereBothOfItsLoopsAreOpen) {
  Split p(Expr(16));
  EXPECT_EQ(to_string(p.axes.extent(p.split().split_outer)), "2");
  {
    const lowering::AxisScope::Known known(p.axes);
    EXPECT_EQ(p.open_outer(), std::vector<int>{p.root()});
    EXPECT_TRUE(p.axes.open(p.root()));
    EXPECT_FALSE(p.axes.axis(p.root()).known());
    EXPECT_EQ(p.text(p.axes.interval(p.root())), "o*8 .. o*8 + 7");
    p.axes.run_part(p.split(), Expr(), Expr(8));
    p.open_inner();
    EXPECT_EQ(to_string(p.axes.index(p.root())), "o*8 + i");
    EXPECT_TRUE(p.axes.guards().empty());
    const Expr quotient = floordiv(p.split().var.expr(), Expr(8));
    EXPECT_EQ(to_string(p.axes.replacement(quotient, p.b)), "o");
  }
  EXPECT_FALSE(p.axes.open(p.root())) << "forgotten at the end of the scope";
}

TEST(AxisScope, AnInnerLoopThatOpensFirstRunsWholeUnderAGuard) {
  Split p(Expr(20));
  const lowering::AxisScope::Known known(p.axes);
  p.open_inner();
  EXPECT_TRUE(p.axes.axis(p.split().split_inner).full);
  EXPECT_TRUE(p.open_outer().empty());
  ASSERT_EQ(p.axes.guards().size(), 1U);
  EXPECT_EQ(to_string(p.axes.guards()[0]), "o*8 + i < 20");
}

TEST(Regions, WhatTheRestOfALoopReads) {
  Split p(Expr(16));
  p.open_outer();
  EXPECT_EQ(p.text(lowering::Regions(p.graph, p.axes, p.b, 0).of(p.a).dims[0]), "o*8 .. o*8 + 9");
  p.axes.run_part(p.split(), Expr(), Expr(3));
  EXPECT_EQ(p.text(lowering::Regions(p.graph, p.axes, p.b, 0).of(p.a).dims[0]), "o*8 .. o*8 + 4");
}

TEST(Storage, HoldsAPartUntilItIsRestored) {
  Split p(Expr(16));
  p.open_outer();
  lowering::Storage storage(p.graph, p.axes, {});
  {
    const lowering::Storage::Restored outside(storage);
    const std::vector<Buffer>& made = storage.make(p.a, {p.o * 8}, {Expr(10)}, Scope::Local);
    EXPECT_EQ(to_string(made[0]->shape[0]), "10");
    EXPECT_EQ(to_string(storage.indices(p.a, {p.o * 8 + 3})[0]), "3");
  }
  EXPECT_FALSE(storage.holds(p.a));
}

// What the cases of a split have for the inner loop.
std::string cases_of(Split& p) {
  const lowering::AxisScope::Known known(p.axes);
  const std::vector<int> splits = p.open_outer();
  const Buffer out = Buffer::make("out", i64, {Expr(1)}, Scope::Local);
  const Stmt s = lowering::Tails(p.graph, p.axes, false).cases(p.outer(), splits, [&] {
    return make_store(out, {Expr(0)}, p.axes.extent(p.split().split_inner));
  });
  return to_string(s);
}

TEST(Tails, EachCaseDecidesHowFarTheInnerLoopRuns) {
  Split divides(Expr(16));
  EXPECT_EQ(cases_of(divides), "out[0] = 8\n");
  Split leaves_four(Expr(20));  // a region spans the inner loop, so both cases are constant
  EXPECT_EQ(cases_of(leaves_four), "if o < 2 {\n  out[0] = 8\n} else {\n  out[0] = 4\n}\n");
}

TEST(Tails, ATileOfVaryingLengthHasACopyForEachRemainder) {
  Split p(Expr(dim("n", 1, 100)), 3, true);
  const std::string text = cases_of(p);
  for (const char* length : {"out[0] = 3", "out[0] = 2", "out[0] = 1"})
    EXPECT_NE(text.find(length), std::string::npos) << text;
}

}  // namespace
}  // namespace heddle::testing
