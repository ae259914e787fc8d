// Reductions: initial values, factored ones, tuples, and several outputs.
#include "lower/lower_testing.h"

namespace heddle::testing {
namespace {

Tensor total(int64_t n, Tensor* A) {
  *A = placeholder({2, Expr(n)}, f32, "A");
  Axis k = reduce_axis(n, "k");
  Tensor in = *A;
  return compute({2}, [&](Axis i) { return sum(in(i, k), k); }, "S");
}

TEST(LowerReduce, AccumulatorsStartRightBeforeTheFirstReduceLoop) {
  Tensor A;
  Tensor S = total(5, &A);
  Schedule s({S});
  EXPECT_EQ(text_after(s), R"(@@)");
  EXPECT_EQ(wrong_after(s), "");
  // With the reduction outermost they are all started first.
  Schedule t({S});
  t[S].reorder({t[S].reduce_axis(0), t[S].axis(0)});
  EXPECT_EQ(text_after(t), R"(@@)");
  EXPECT_EQ(wrong_after(t), "");
}

TEST(LowerReduce, OuterRfactorOfALengthThatDoesNotDivideHasAShortLastBlock) {
  Tensor A;
  Tensor S = total(10, &A);
  Schedule s({S});
  s[S].rfactor(s[S].reduce_axis(0), 4, false).compute_at(s[S], s[S].axis(0));
  EXPECT_EQ(text_after(s), R"(@@)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerReduce, InnerRfactorOfALengthThatDoesNotDivideGuardsTheLastRound) {
  Tensor A;
  Tensor S = total(10, &A);
  Schedule s({S});
  StageRef rf = s[S].rfactor(s[S].reduce_axis(0), 4, true);
  rf.reorder({rf.reduce_axis(0), rf.axis(0)});
  rf.vectorize(rf.axis(0));
  rf.layout({{1}, {0}});
  rf.compute_at(s[S], s[S].axis(0));
  s[S].unroll(s[S].reduce_axis(0));
  EXPECT_EQ(text_after(s), R"(@@)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerReduce, RfactorsOfRfactorsAreRightForEveryLength) {
  for (int64_t n : {1, 2, 7, 10, 16, 23}) {
    for (int64_t f : {1, 3, 4, 30}) {
      for (int mode = 0; mode < 4; ++mode) {
        Tensor A;
        Tensor S = total(n, &A);
        Schedule s({S});
        StageRef rf = s[S].rfactor(s[S].reduce_axis(0), f, mode % 2 == 1);
        StageRef again = rf.rfactor(rf.reduce_axis(0), 2, mode / 2 == 1);
        again.compute_at(rf, rf.axis(0));
        EXPECT_EQ(wrong_after(s), "") << n << " by " << f << ", mode " << mode;
      }
    }
  }
}

TEST(LowerReduce, ATupleIsComputedWholeBeforeAnyOfItIsStored) {
  Tensor A = placeholder({2, 5}, f32, "A");
  Axis k = reduce_axis(5, "k");
  Reducer best = reducer("best", {i64, f32}, {Expr(int64_t{-1}), Expr(-1e30f)},
                         [](const std::vector<Expr>& a, const std::vector<Expr>& b) {
                           return std::vector<Expr>{select(b[1] > a[1], b[0], a[0]),
                                                    select(b[1] > a[1], b[1], a[1])};
                         });
  std::vector<Tensor> R = compute_all({2}, [&](Axis i) { return best({k, A(i, k)}, {k}); }, "R");
  Schedule s(R);
  EXPECT_EQ(text_after(s), R"(@@)");
  EXPECT_EQ(wrong_after(s), "");
  // Each output may be left to a temporary.
  for (const Tensor& only : R) EXPECT_EQ(wrong_after(Schedule({only})), "");
  // Factored, both components have partial results.
  Schedule t(R);
  t[R[0]].rfactor(t[R[0]].reduce_axis(0), 2, false);
  EXPECT_EQ(text_after(t), R"(@@)");
  EXPECT_EQ(wrong_after(t), "");
}

TEST(LowerReduce, SeveralOutputsOfOneStageAreStoredTogether) {
  Tensor A = placeholder({4}, f32, "A");
  std::vector<Tensor> R =
      compute_all({4}, [&](Axis i) { return std::vector<Expr>{A(i) + 1.f, A(i) * 2.f}; }, "R");
  Schedule s(R);
  s[R[0]].vectorize(s[R[0]].axis(0));
  EXPECT_EQ(text_after(s), R"(@@)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerReduce, AnOutputThatAnotherReadsStaysAnArgument) {
  Tensor A = placeholder({4}, f32, "A");
  Tensor B = compute({4}, [&](Axis i) { return A(i) + 1.f; }, "B");
  Tensor C = compute({4}, [&](Axis i) { return B(i) * 2.f; }, "C");
  Schedule s({C, B});
  EXPECT_EQ(text_after(s), R"(@@)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerReduce, UnrolledUpdatesAreMergedIntoOneStore) {
  Tensor A;
  Tensor S = total(6, &A);
  Schedule s({S});
  auto [ko, ki] = s[S].split(s[S].reduce_axis(0), 3);
  (void)ko;
  s[S].unroll(ki);
  EXPECT_EQ(text_after(s), R"(@@)");
  EXPECT_EQ(wrong_after(s), "");
}

}  // namespace
}  // namespace heddle::testing
