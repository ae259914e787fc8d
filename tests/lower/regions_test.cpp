// Padding, halos and copies: how much of a producer each iteration computes.
#include "lower/lower_testing.h"

namespace heddle::testing {
namespace {

TEST(LowerRegion, APaddingSelectIsCutIntoEdgesAndACleanMiddle) {
  Tensor A = placeholder({10}, f32, "A");
  Tensor P =
      compute({12}, [&](Axis i) { return select(i >= 1 && i <= 10, A(i - 1), Expr(0.f)); }, "P");
  Schedule s({P});
  EXPECT_EQ(text_after(s), R"(@@)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerRegion, PaddingInTwoDimensionsLeavesNoTestInTheInnerLoop) {
  Tensor A = placeholder({3, 4}, f32, "A");
  Schedule s({ops::pad(A, {1, 1}, {1, 1})});
  EXPECT_EQ(text_after(s), R"(@@)");
  EXPECT_EQ(wrong_after(s), "");
}

struct Window {
  Tensor X, P, Y;
  Window() {
    X = placeholder({6, 5}, f32, "X");
    P = compute({6, 5}, [&](Axis y, Axis x) { return X(y, x) + 1.f; }, "P");
    Axis r = reduce_axis(3, "r");
    Y = compute({4, 5}, [&](Axis y, Axis x) { return sum(P(y + r, x), r); }, "Y");
  }
};

TEST(LowerRegion, AProducerPerRowComputesTheRowsThatTheWindowReads) {
  Window p;
  Schedule s({p.Y});
  s[p.P].compute_at(s[p.Y], s[p.Y].axis(0));
  EXPECT_EQ(text_after(s), R"(@@)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerRegion, AProducerPerTileThatDoesNotDivideComputesAHaloOfWhatIsLeft) {
  Window p;
  Schedule s({p.Y});
  auto [yo, yi] = s[p.Y].split(s[p.Y].axis(0), 3);
  (void)yi;
  s[p.P].compute_at(s[p.Y], yo);
  EXPECT_EQ(text_after(s), R"(@@)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerRegion, AProducerInsideTheReductionComputesOneElementOfTheWindow) {
  Window p;
  Schedule s({p.Y});
  s[p.P].compute_at(s[p.Y], s[p.Y].reduce_axis(0));
  EXPECT_EQ(text_after(s), R"(@@)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerRegion, AConvolutionWithItsPaddingPerRowIsRightAtEveryLoop) {
  ops::Conv at;
  at.padding = {1, 1};
  at.stride = {2, 1};
  Tensor x = placeholder({1, 2, 7, 6}, f32, "x"), w = placeholder({3, 2, 3, 3}, f32, "w");
  Tensor y = ops::conv2d(x, w, at);
  ComputeDag dag({y});
  int pad = -1, conv = -1;
  for (int i = 0; i < dag.size(); ++i) {
    if (dag.stage(i).name() == "pad") pad = i;
    if (dag.stage(i).name() == "conv2d") conv = i;
  }
  ASSERT_GE(pad, 0);
  ASSERT_GE(conv, 0);
  for (int axis = 0; axis < 4; ++axis) {
    for (int64_t tile : {1, 2, 3}) {
      Schedule s(dag);
      auto [o, i] = s.stage(conv).split(s.stage(conv).axis(axis), tile);
      (void)i;
      s.stage(pad).compute_at(s.stage(conv), o);
      EXPECT_EQ(wrong_after(s), "") << axis << " " << tile;
    }
  }
}

TEST(LowerRegion, ACopyInTilesIsPaddedToWholeTiles) {
  Tensor A = placeholder({3, 7}, f32, "A");
  Tensor C = compute({3, 7}, [&](Axis i, Axis j) { return A(i, j) * 2.f; }, "C");
  Schedule s({C});
  StageRef copy = s[A].cache_read({s[C]});
  copy.layout({{1, 4}, {0}, {1, 1, 4}});
  EXPECT_EQ(text_after(s), R"(@@)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerRegion, ACopyPerTileHoldsOneTile) {
  Tensor A = placeholder({3, 7}, f32, "A");
  Tensor C = compute({3, 7}, [&](Axis i, Axis j) { return A(i, j) * 2.f; }, "C");
  Schedule s({C});
  auto [jo, ji] = s[C].split(s[C].axis(1), 4);
  s[C].reorder({jo, s[C].axis(0), ji}).vectorize(ji);
  StageRef copy = s[A].cache_read({s[C]});
  copy.compute_at(s[C], jo);
  EXPECT_EQ(text_after(s), R"(@@)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerRegion, AChainOfProducersWidensStepByStep) {
  Tensor A = placeholder({12}, f32, "A");
  Tensor B = compute({12}, [&](Axis i) { return A(i) + 1.f; }, "B");
  Tensor C = compute({10}, [&](Axis i) { return B(i) + B(i + 2); }, "C");
  Tensor D = compute({9}, [&](Axis i) { return C(i) * C(i + 1); }, "D");
  Schedule s({D});
  auto [o, i] = s[D].split(s[D].axis(0), 4);
  (void)i;
  s[C].compute_at(s[D], o);
  s[B].compute_at(s[D], o);
  EXPECT_EQ(text_after(s), R"(@@)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerRegion, AnIndexReadFromATensorNeedsTheWholeProducer) {
  Tensor A = placeholder({5}, f32, "A"), I = placeholder({4}, i64, "I");
  Tensor B = compute({5}, [&](Axis i) { return A(i) + 1.f; }, "B");
  Tensor C = compute({4}, [&](Axis i) { return B(max(0, min(4, I(i)))); }, "C");
  Schedule s({C});
  s[B].compute_at(s[C], s[C].axis(0));
  EXPECT_EQ(text_after(s), R"(@@)");
  EXPECT_EQ(wrong_after(s), "");
}

}  // namespace
}  // namespace heddle::testing
