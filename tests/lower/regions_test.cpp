// Padding, halos and copies: how much of a producer each iteration computes.
#include "lower/lower_testing.h"

namespace heddle::testing {
namespace {

TEST(LowerRegion, APaddingSelectIsCutIntoEdgesAndACleanMiddle) {
  Tensor A = placeholder({10}, f32, "A");
  Tensor P =
      compute({12}, [&](Axis i) { return select(i >= 1 && i <= 10, A(i - 1), Expr(0.f)); }, "P");
  Schedule s({P});
  EXPECT_EQ(text_after(s), R"(func kernel(A: f32[10], P: f32[12]) {
  P[0] = 0.0f
  for i in 0..10 {
    P[i + 1] = A[i]
  }
  P[11] = 0.0f
}
)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerRegion, PaddingInTwoDimensionsLeavesNoTestInTheInnerLoop) {
  Tensor A = placeholder({3, 4}, f32, "A");
  Schedule s({ops::pad(A, {1, 1}, {1, 1})});
  EXPECT_EQ(text_after(s), R"(func kernel(A: f32[3, 4], pad: f32[5, 6]) {
  for j in 0..6 {
    pad[j] = 0.0f
  }
  for i in 0..3 {
    pad[i*6 + 6] = 0.0f
    for j in 0..4 {
      pad[i*6 + j + 7] = A[i*4 + j]
    }
    pad[i*6 + 11] = 0.0f
  }
  for j in 0..6 {
    pad[j + 24] = 0.0f
  }
}
)");
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
  EXPECT_EQ(text_after(s), R"(func kernel(X: f32[6, 5], Y: f32[4, 5]) {
  for i in 0..4 {
    local P: f32[3, 5]
    for i in 0..3 {
      for j in 0..5 {
        P[i*5 + j] = X[i*5 + i*5 + j] + 1.0f
      }
    }
    for j in 0..5 {
      Y[i*5 + j] = 0.0f
      for r in 0..3 {
        Y[i*5 + j] = Y[i*5 + j] + P[j + r*5]
      }
    }
  }
}
)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerRegion, AProducerPerTileThatDoesNotDivideComputesAHaloOfWhatIsLeft) {
  Window p;
  Schedule s({p.Y});
  auto [yo, yi] = s[p.Y].split(s[p.Y].axis(0), 3);
  (void)yi;
  s[p.P].compute_at(s[p.Y], yo);
  EXPECT_EQ(text_after(s), R"(func kernel(X: f32[6, 5], Y: f32[4, 5]) {
  local P: f32[5, 5] {
    for i in 0..5 {
      for j in 0..5 {
        P[i*5 + j] = X[i*5 + j] + 1.0f
      }
    }
    for i.i in 0..3 {
      for j in 0..5 {
        Y[i.i*5 + j] = 0.0f
        for r in 0..3 {
          Y[i.i*5 + j] = Y[i.i*5 + j] + P[i.i*5 + j + r*5]
        }
      }
    }
  }
  local P: f32[3, 5]
  for i in 0..3 {
    for j in 0..5 {
      P[i*5 + j] = X[i*5 + j + 15] + 1.0f
    }
  }
  for j in 0..5 {
    Y[j + 15] = 0.0f
    for r in 0..3 {
      Y[j + 15] = Y[j + 15] + P[j + r*5]
    }
  }
}
)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerRegion, AProducerInsideTheReductionComputesOneElementOfTheWindow) {
  Window p;
  Schedule s({p.Y});
  s[p.P].compute_at(s[p.Y], s[p.Y].reduce_axis(0));
  EXPECT_EQ(text_after(s), R"(func kernel(X: f32[6, 5], Y: f32[4, 5]) {
  for i in 0..4 {
    for j in 0..5 {
      Y[i*5 + j] = 0.0f
      for r in 0..3 {
        local P: f32[1, 1]
        P[0] = X[i*5 + j + r*5] + 1.0f
        Y[i*5 + j] = Y[i*5 + j] + P[0]
      }
    }
  }
}
)");
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
  EXPECT_EQ(text_after(s), R"(func kernel(A: f32[3, 7], C: f32[3, 7]) {
  global A.copy: f32[2, 3, 4]
  for d0 in 0..3 {
    for d1 in 0..7 {
      A.copy[d0*4 + floordiv(d1, 4)*12 + floormod(d1, 4)] = A[d0*7 + d1]
    }
  }
  for i in 0..3 {
    for j in 0..7 {
      C[i*7 + j] = A.copy[i*4 + floordiv(j, 4)*12 + floormod(j, 4)]*2.0f
    }
  }
}
)");
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
  EXPECT_EQ(text_after(s), R"(func kernel(A: f32[3, 7], C: f32[3, 7]) {
  local A.copy: f32[3, 4] {
    for d0 in 0..3 {
      for d1 in 0..4 {
        A.copy[d0*4 + d1] = A[d0*7 + d1]
      }
    }
    for i in 0..3 {
      C[ramp(i*7, 1, 4)] = A.copy[ramp(i*4, 1, 4)]*x4(2.0f)
    }
  }
  local A.copy: f32[3, 3]
  for d0 in 0..3 {
    for d1 in 0..3 {
      A.copy[d0*3 + d1] = A[d0*7 + d1 + 4]
    }
  }
  for i in 0..3 {
    C[ramp(i*7 + 4, 1, 3)] = A.copy[ramp(i*3, 1, 3)]*x3(2.0f)
  }
}
)");
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
  EXPECT_EQ(text_after(s), R"(func kernel(A: f32[12], D: f32[9]) {
  for i.o in 0..2 {
    local C: f32[5]
    local B: f32[7]
    for i in 0..7 {
      B[i] = A[i + i.o*4] + 1.0f
    }
    for i in 0..5 {
      C[i] = B[i] + B[i + 2]
    }
    for i.i in 0..4 {
      D[i.i + i.o*4] = C[i.i]*C[i.i + 1]
    }
  }
  local C: f32[2]
  local B: f32[4]
  for i in 0..4 {
    B[i] = A[i + 8] + 1.0f
  }
  for i in 0..2 {
    C[i] = B[i] + B[i + 2]
  }
  D[8] = C[0]*C[1]
}
)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerRegion, AnIndexReadFromATensorNeedsTheWholeProducer) {
  Tensor A = placeholder({5}, f32, "A"), I = placeholder({4}, i64, "I");
  Tensor B = compute({5}, [&](Axis i) { return A(i) + 1.f; }, "B");
  Tensor C = compute({4}, [&](Axis i) { return B(max(0, min(4, I(i)))); }, "C");
  Schedule s({C});
  s[B].compute_at(s[C], s[C].axis(0));
  EXPECT_EQ(text_after(s), R"(func kernel(A: f32[5], I: i64[4], C: f32[4]) {
  for i in 0..4 {
    local B: f32[5]
    for i in 0..5 {
      B[i] = A[i] + 1.0f
    }
    C[i] = B[max(min(I[i], 4), 0)]
  }
}
)");
  EXPECT_EQ(wrong_after(s), "");
}

}  // namespace
}  // namespace heddle::testing
