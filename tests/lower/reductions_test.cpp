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
  EXPECT_EQ(text_after(s), R"(func kernel(A: f32[2, 5], S: f32[2]) {
  for i in 0..2 {
    S[i] = 0.0f
    for k in 0..5 {
      S[i] = S[i] + A[i*5 + k]
    }
  }
}
)");
  EXPECT_EQ(wrong_after(s), "");
  // With the reduction outermost they are all started first.
  Schedule t({S});
  t[S].reorder({t[S].reduce_axis(0), t[S].axis(0)});
  EXPECT_EQ(text_after(t), R"(func kernel(A: f32[2, 5], S: f32[2]) {
  for i in 0..2 {
    S[i] = 0.0f
  }
  for k in 0..5 {
    for i in 0..2 {
      S[i] = S[i] + A[k + i*5]
    }
  }
}
)");
  EXPECT_EQ(wrong_after(t), "");
}

TEST(LowerReduce, OuterRfactorOfALengthThatDoesNotDivideHasAShortLastBlock) {
  Tensor A;
  Tensor S = total(10, &A);
  Schedule s({S});
  s[S].rfactor(s[S].reduce_axis(0), 4, false).compute_at(s[S], s[S].axis(0));
  EXPECT_EQ(text_after(s), R"(func kernel(A: f32[2, 10], S: f32[2]) {
  for i in 0..2 {
    local S.rf: f32[3, 1]
    for k.o in 0..3 {
      S.rf[k.o] = 0.0f
      for k.i in 0..min(10 - k.o*4, 4) {
        S.rf[k.o] = S.rf[k.o] + A[i*10 + k.o*4 + k.i]
      }
    }
    S[i] = 0.0f
    for k.o in 0..3 {
      S[i] = S[i] + S.rf[k.o]
    }
  }
}
)");
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
  EXPECT_EQ(text_after(s),
            "func kernel(A: f32[2, 10], S: f32[2]) {\n"
            "  for i in 0..2 {\n"
            "    local S.rf: f32[1, 4]\n"
            "    S.rf[ramp(0, 1, 4)] = x4(0.0f)\n"
            "    for k.o in 0..2 {\n"
            "      S.rf[ramp(0, 1, 4)] = S.rf[ramp(0, 1, 4)] + A[ramp(i*10 + k.o*4, 1, 4)]\n"
            "    }\n"
            "    S.rf[ramp(0, 1, 4)] = S.rf[ramp(0, 1, 4)] + select(ramp(0, 1, 4) < x4(2), "
            "A[ramp(i*10 + 8, 1, 4)], x4(0.0f))\n"
            "    S[i] = 0.0f + S.rf[0] + S.rf[1] + S.rf[2] + S.rf[3]\n"
            "  }\n"
            "}\n");
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

TEST(LowerReduce, SeveralAxesTakenAsOneAreOneRunOfElements) {
  Tensor A = placeholder({2, 3, 5}, f32, "A");
  Axis a = reduce_axis(3, "a"), b = reduce_axis(5, "b");
  Tensor S = compute({2}, [&](Axis i) { return sum(A(i, a, b), {a, b}); }, "S");
  Schedule s({S});
  StageRef rf = s[S].rfactor(s[S].all_reduce_axes(), 4, true);
  rf.reorder({rf.reduce_axis(0), rf.axis(0)});
  rf.vectorize(rf.axis(0));
  rf.layout({{1}, {0}});
  rf.compute_at(s[S], s[S].axis(0));
  s[S].unroll(s[S].reduce_axis(0));
  EXPECT_EQ(text_after(s),
            "func kernel(A: f32[2, 3, 5], S: f32[2]) {\n"
            "  for i in 0..2 {\n"
            "    local S.rf: f32[1, 4]\n"
            "    S.rf[ramp(0, 1, 4)] = x4(0.0f)\n"
            "    for a.b.o in 0..3 {\n"
            "      S.rf[ramp(0, 1, 4)] = S.rf[ramp(0, 1, 4)] + A[ramp(i*15 + a.b.o*4, 1, 4)]\n"
            "    }\n"
            "    S.rf[ramp(0, 1, 4)] = S.rf[ramp(0, 1, 4)] + select(ramp(0, 1, 4) < x4(3), "
            "A[ramp(i*15 + 12, 1, 4)], x4(0.0f))\n"
            "    S[i] = 0.0f + S.rf[0] + S.rf[1] + S.rf[2] + S.rf[3]\n"
            "  }\n"
            "}\n");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerReduce, RfactorsOfSeveralAxesAreRightForEveryFactor) {
  Tensor A = placeholder({3, 2, 4, 5}, f32, "A");
  Axis a = reduce_axis(2, "a"), b = reduce_axis(4, "b"), c = reduce_axis(5, "c");
  Tensor S = compute({3}, [&](Axis i) { return sum(A(i, a, b, c), {a, b, c}); }, "S");
  const std::vector<std::vector<int>> choices{{0, 1, 2}, {1, 2}, {0, 1}, {0, 2}, {2, 0}};
  for (const std::vector<int>& choice : choices) {
    for (int64_t f : {1, 3, 4, 8, 40}) {
      for (bool inner : {false, true}) {
        Schedule s({S});
        std::vector<Loop> ks;
        for (int k : choice) ks.push_back(s[S].reduce_axis(k));
        StageRef rf = s[S].rfactor(ks, f, inner);
        EXPECT_EQ(rf.num_reduce_axes(), 4 - static_cast<int>(choice.size()));
        StageRef again = rf.rfactor(rf.reduce_axis(0), 2, true);
        again.compute_at(rf, rf.axis(0));
        EXPECT_EQ(wrong_after(s), "") << "factor " << f << ", inner " << inner;
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
  EXPECT_EQ(text_after(s), R"(func kernel(A: f32[2, 5], R.0: i64[2], R.1: f32[2]) {
  for i in 0..2 {
    R.0[i] = -1
    R.1[i] = -1e+30f
    for k in 0..5 {
      let b1 = A[i*5 + k]
      let R.0.new = select(R.1[i] < b1, k, R.0[i])
      let R.1.new = select(R.1[i] < b1, b1, R.1[i])
      R.0[i] = R.0.new
      R.1[i] = R.1.new
    }
  }
}
)");
  EXPECT_EQ(wrong_after(s), "");
  // Each output may be left to a temporary.
  for (const Tensor& only : R) EXPECT_EQ(wrong_after(Schedule({only})), "");
  // Factored, both components have partial results.
  Schedule t(R);
  t[R[0]].rfactor(t[R[0]].reduce_axis(0), 2, false);
  EXPECT_EQ(text_after(t),
            "func kernel(A: f32[2, 5], R.0: i64[2], R.1: f32[2]) {\n"
            "  global R.rf1: f32[3, 2]\n"
            "  global R.rf0: i64[3, 2]\n"
            "  for k.o in 0..3 {\n"
            "    for i in 0..2 {\n"
            "      R.rf0[k.o*2 + i] = -1\n"
            "      R.rf1[k.o*2 + i] = -1e+30f\n"
            "      for k.i in 0..min(5 - k.o*2, 2) {\n"
            "        let b1 = A[k.o*2 + i*5 + k.i]\n"
            "        let R.rf0.new = select(R.rf1[k.o*2 + i] < b1, k.o*2 + k.i, R.rf0[k.o*2 + "
            "i])\n"
            "        let R.rf1.new = select(R.rf1[k.o*2 + i] < b1, b1, R.rf1[k.o*2 + i])\n"
            "        R.rf0[k.o*2 + i] = R.rf0.new\n"
            "        R.rf1[k.o*2 + i] = R.rf1.new\n"
            "      }\n"
            "    }\n"
            "  }\n"
            "  for i in 0..2 {\n"
            "    R.0[i] = -1\n"
            "    R.1[i] = -1e+30f\n"
            "    for k.o in 0..3 {\n"
            "      let b0 = R.rf0[i + k.o*2]\n"
            "      let b1 = R.rf1[i + k.o*2]\n"
            "      let R.0.new = select(R.1[i] < b1, b0, R.0[i])\n"
            "      let R.1.new = select(R.1[i] < b1, b1, R.1[i])\n"
            "      R.0[i] = R.0.new\n"
            "      R.1[i] = R.1.new\n"
            "    }\n"
            "  }\n"
            "}\n");
  EXPECT_EQ(wrong_after(t), "");
}

TEST(LowerReduce, SeveralOutputsOfOneStageAreStoredTogether) {
  Tensor A = placeholder({4}, f32, "A");
  std::vector<Tensor> R =
      compute_all({4}, [&](Axis i) { return std::vector<Expr>{A(i) + 1.f, A(i) * 2.f}; }, "R");
  Schedule s(R);
  s[R[0]].vectorize(s[R[0]].axis(0));
  EXPECT_EQ(text_after(s), R"(func kernel(A: f32[4], R.0: f32[4], R.1: f32[4]) {
  let R.0.new = A[ramp(0, 1, 4)] + x4(1.0f)
  let R.1.new = A[ramp(0, 1, 4)]*x4(2.0f)
  R.0[ramp(0, 1, 4)] = R.0.new
  R.1[ramp(0, 1, 4)] = R.1.new
}
)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerReduce, AnOutputThatAnotherReadsStaysAnArgument) {
  Tensor A = placeholder({4}, f32, "A");
  Tensor B = compute({4}, [&](Axis i) { return A(i) + 1.f; }, "B");
  Tensor C = compute({4}, [&](Axis i) { return B(i) * 2.f; }, "C");
  Schedule s({C, B});
  EXPECT_EQ(text_after(s), R"(func kernel(A: f32[4], C: f32[4], B: f32[4]) {
  for i in 0..4 {
    B[i] = A[i] + 1.0f
  }
  for i in 0..4 {
    C[i] = B[i]*2.0f
  }
}
)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerReduce, UnrolledUpdatesAreMergedIntoOneStore) {
  Tensor A;
  Tensor S = total(6, &A);
  Schedule s({S});
  auto [ko, ki] = s[S].split(s[S].reduce_axis(0), 3);
  (void)ko;
  s[S].unroll(ki);
  EXPECT_EQ(text_after(s), R"(func kernel(A: f32[2, 6], S: f32[2]) {
  for i in 0..2 {
    S[i] = 0.0f
    for k.o in 0..2 {
      S[i] = S[i] + A[i*6 + k.o*3] + A[i*6 + k.o*3 + 1] + A[i*6 + k.o*3 + 2]
    }
  }
}
)");
  EXPECT_EQ(wrong_after(s), "");
}

}  // namespace
}  // namespace heddle::testing
