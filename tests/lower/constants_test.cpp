// Values that depend on constant placeholders alone are computed once, by `prepare`.
#include "lower/lower_testing.h"

namespace heddle::testing {
namespace {

struct Scaled {
  Tensor X, W, P, Q, Y;
  Scaled() {
    X = placeholder({4}, f32, "X");
    W = constant_placeholder({4}, f32, "W");
    P = compute({4}, [&](Axis i) { return W(i) * 2.f; }, "P");
    Q = compute({4}, [&](Axis i) { return P(i) + 1.f; }, "Q");
    Y = compute({4}, [&](Axis i) { return X(i) * Q(i); }, "Y");
  }
};

TEST(LowerConstants, TheLastConstantStageIsKeptBetweenCalls) {
  Scaled p;
  Schedule s({p.Y});
  LoweredProgram l = lower(s, all_args(s.dag()));
  EXPECT_EQ(text_after(s), R"(func kernel(X: f32[4], W: f32[4], Y: f32[4], Q: f32[4]) {
  for i in 0..4 {
    Y[i] = X[i]*Q[i]
  }
}
func kernel_prepare(W: f32[4], Q: f32[4]) {
  global P: f32[4]
  for i in 0..4 {
    P[i] = W[i]*2.0f
  }
  for i in 0..4 {
    Q[i] = P[i] + 1.0f
  }
}
)");
  ASSERT_EQ(l.persistent.size(), 1u);
  EXPECT_EQ(l.persistent[0]->name, "Q");
  EXPECT_EQ(l.constant_args.size(), 1u);
  EXPECT_TRUE(all_args(s.dag())[l.constant_args[0]].same_as(p.W));
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerConstants, AConstantStageComputedInsideMainKeepsWhatItReads) {
  Scaled p;
  Schedule s({p.Y});
  s[p.Q].compute_at(s[p.Y], s[p.Y].axis(0));
  LoweredProgram l = lower(s, all_args(s.dag()));
  ASSERT_EQ(l.persistent.size(), 1u);
  EXPECT_EQ(l.persistent[0]->name, "P");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerConstants, AConstantStageComputedInsideAnotherIsPrepared) {
  Scaled p;
  Schedule s({p.Y});
  s[p.P].compute_at(s[p.Q], s[p.Q].axis(0));
  LoweredProgram l = lower(s, all_args(s.dag()));
  ASSERT_EQ(l.persistent.size(), 1u);
  EXPECT_EQ(l.persistent[0]->name, "Q");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerConstants, EveryPlacementOfConstantStagesIsRightOrRefused) {
  for (int mode = 0; mode < 27; ++mode) {
    Scaled p;
    Schedule s({p.Y});
    auto place = [&](int how, const Tensor& t, const Tensor& host) {
      if (how == 1) s[t].compute_inline();
      if (how == 2) s[t].compute_at(s[host], s[host].axis(0));
    };
    try {
      place(mode % 3, p.Q, p.Y);
      place(mode / 3 % 3, p.P, mode / 9 == 1 ? p.Y : p.Q);
      if (mode / 9 == 2) s[p.W].cache_read({s[p.P], s[p.Q], s[p.Y]});
      EXPECT_EQ(wrong_after(s), "") << mode;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User) << e.what();
    }
  }
}

TEST(LowerConstants, ACopyOfAConstantIsPreparedInItsLayout) {
  Tensor X = placeholder({2, 3}, f32, "X"), W = constant_placeholder({3, 5}, f32, "W");
  Axis k = reduce_axis(3, "k");
  Tensor Y = compute({2, 5}, [&](Axis i, Axis j) { return sum(X(i, k) * W(k, j), k); }, "Y");
  Schedule s({Y});
  StageRef pack = s[W].cache_read({s[Y]});
  pack.layout({{1, 4}, {0}, {1, 1, 4}});
  EXPECT_EQ(text_after(s),
            "func kernel(X: f32[2, 3], W: f32[3, 5], Y: f32[2, 5], W.copy: f32[2, 3, 4]) {\n"
            "  for i in 0..2 {\n"
            "    for j in 0..5 {\n"
            "      Y[i*5 + j] = 0.0f\n"
            "      for k in 0..3 {\n"
            "        Y[i*5 + j] = Y[i*5 + j] + X[i*3 + k]*W.copy[k*4 + floordiv(j, 4)*12 + "
            "floormod(j, 4)]\n"
            "      }\n"
            "    }\n"
            "  }\n"
            "}\n"
            "func kernel_prepare(W: f32[3, 5], W.copy: f32[2, 3, 4]) {\n"
            "  for d0 in 0..3 {\n"
            "    for d1 in 0..5 {\n"
            "      W.copy[d0*4 + floordiv(d1, 4)*12 + floormod(d1, 4)] = W[d0*5 + d1]\n"
            "    }\n"
            "  }\n"
            "}\n");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerConstants, AnOutputOfConstantsOnlyIsComputedAtEveryCall) {
  Tensor W = constant_placeholder({4}, f32, "W");
  Tensor Y = compute({4}, [&](Axis i) { return W(i) + 1.f; }, "Y");
  Schedule s({Y});
  LoweredProgram l = lower(s, {W, Y});
  EXPECT_FALSE(l.prepare.body);
  EXPECT_TRUE(l.persistent.empty());
  EXPECT_TRUE(l.constant_args.empty());
  EXPECT_EQ(wrong_after(s), "");
}

}  // namespace
}  // namespace heddle::testing
