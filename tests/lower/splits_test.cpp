// Splits that do not divide: a clean main part, and a tail.
#include "lower/lower_testing.h"

namespace heddle::testing {
namespace {

struct Copy {
  Tensor A, C;
  explicit Copy(int64_t m, int64_t n) {
    A = placeholder({Expr(m), Expr(n)}, f32, "A");
    C = compute({Expr(m), Expr(n)}, [&](Axis i, Axis j) { return A(i, j) * 2.f; }, "C");
  }
};

TEST(LowerSplit, AVectorizedInnerLoopGetsAMainPartAndANarrowerTail) {
  Copy p(2, 21);
  Schedule s({p.C});
  auto [jo, ji] = s[p.C].split(s[p.C].axis(1), 8);
  (void)jo;
  s[p.C].vectorize(ji);
  EXPECT_EQ(text_after(s), R"(func kernel(A: f32[2, 21], C: f32[2, 21]) {
  for i in 0..2 {
    for j.o in 0..2 {
      C[ramp(i*21 + j.o*8, 1, 8)] = A[ramp(i*21 + j.o*8, 1, 8)]*x8(2.0f)
    }
    C[ramp(i*21 + 16, 1, 5)] = A[ramp(i*21 + 16, 1, 5)]*x5(2.0f)
  }
}
)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerSplit, AStageOutsideOfTheTilesLeavesThemTheirTail) {
  // The region of B in a block of tiles spans their loops, which are not open where B is computed.
  const Tensor A = placeholder({1, 45}, f32, "A");
  const Tensor B = compute({1, 45}, [&](Axis i, Axis j) { return A(i, j) + 1.f; }, "B");
  const Tensor C = compute({1, 45}, [&](Axis i, Axis j) { return B(i, j) * 2.f; }, "C");
  Schedule s({C});
  auto [jo, ji] = s[C].split(s[C].axis(1), 16);
  auto [jv, lane] = s[C].split(ji, 8);
  auto [block, tile] = s[C].split(jo, 4);
  (void)tile;
  s[C].unroll(jv).vectorize(lane);
  s[B].compute_at(s[C], block);
  EXPECT_EQ(text_after(s), R"(func kernel(A: f32[1, 45], C: f32[1, 45]) {
  local B: f32[1, 45]
  for j in 0..45 {
    B[j] = A[j] + 1.0f
  }
  for j.o.i in 0..2 {
    C[ramp(j.o.i*16, 1, 8)] = B[ramp(j.o.i*16, 1, 8)]*x8(2.0f)
    C[ramp(j.o.i*16 + 8, 1, 8)] = B[ramp(j.o.i*16 + 8, 1, 8)]*x8(2.0f)
  }
  C[ramp(32, 1, 8)] = B[ramp(32, 1, 8)]*x8(2.0f)
  C[ramp(40, 1, 5)] = B[ramp(40, 1, 5)]*x5(2.0f)
}
)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerSplit, AnUnrolledInnerLoopGetsAMainPartAndATail) {
  Copy p(1, 7);
  Schedule s({p.C});
  auto [jo, ji] = s[p.C].split(s[p.C].axis(1), 3);
  (void)jo;
  s[p.C].unroll(ji);
  EXPECT_EQ(text_after(s), R"(func kernel(A: f32[1, 7], C: f32[1, 7]) {
  for j.o in 0..2 {
    C[j.o*3] = A[j.o*3]*2.0f
    C[j.o*3 + 1] = A[j.o*3 + 1]*2.0f
    C[j.o*3 + 2] = A[j.o*3 + 2]*2.0f
  }
  C[6] = A[6]*2.0f
}
)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerSplit, ASerialInnerLoopHasAnExtentThatDependsOnTheOuterOne) {
  Copy p(1, 7);
  Schedule s({p.C});
  s[p.C].split(s[p.C].axis(1), 3);
  EXPECT_EQ(text_after(s, "build_nest"), R"(func kernel(A: f32[1, 7], C: f32[1, 7]) {
  for j.o in 0..3 {
    for j.i in 0..min(7 - j.o*3, 3) {
      C[0, j.o*3 + j.i] = A[0, j.o*3 + j.i]*2.0f
    }
  }
}
)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerSplit, ATailOfAParallelLoopIsABranch) {
  Copy p(1, 21);
  Schedule s({p.C});
  auto [jo, ji] = s[p.C].split(s[p.C].axis(1), 8);
  s[p.C].parallel(jo).vectorize(ji);
  EXPECT_EQ(text_after(s), R"(func kernel(A: f32[1, 21], C: f32[1, 21]) {
  parallel for j.o in 0..3 {
    if j.o < 2 {
      C[ramp(j.o*8, 1, 8)] = A[ramp(j.o*8, 1, 8)]*x8(2.0f)
    } else {
      C[ramp(16, 1, 5)] = A[ramp(16, 1, 5)]*x5(2.0f)
    }
  }
}
)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerSplit, AnInnerLoopOutsideOfItsOuterOneIsGuarded) {
  Copy p(1, 7);
  Schedule s({p.C});
  auto [jo, ji] = s[p.C].split(s[p.C].axis(1), 3);
  s[p.C].reorder({ji, jo});
  EXPECT_EQ(text_after(s, "build_nest"), R"(func kernel(A: f32[1, 7], C: f32[1, 7]) {
  for j.i in 0..3 {
    for j.o in 0..3 {
      if j.i + j.o*3 < 7 {
        C[0, j.i + j.o*3] = A[0, j.i + j.o*3]*2.0f
      }
    }
  }
}
)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerSplit, AFusedLoopIsSplitByANumberThatDoesNotDivide) {
  Copy p(3, 7);
  Schedule s({p.C});
  auto [o, i] = s[p.C].split(s[p.C].fuse(s[p.C].axis(0), s[p.C].axis(1)), 4);
  (void)o;
  s[p.C].vectorize(i);
  EXPECT_EQ(text_after(s), R"(func kernel(A: f32[3, 7], C: f32[3, 7]) {
  for i.j.o in 0..5 {
    C[ramp(i.j.o*4, 1, 4)] = A[ramp(i.j.o*4, 1, 4)]*x4(2.0f)
  }
  C[20] = A[20]*2.0f
}
)");
  EXPECT_EQ(wrong_after(s), "");
}

TEST(LowerSplit, SplitsOfSplitsOfPrimesAreRight) {
  for (int64_t n : {1, 2, 13, 29}) {
    for (int64_t f : {2, 5, 13}) {
      Copy p(3, n);
      Schedule s({p.C});
      auto [jo, ji] = s[p.C].split(s[p.C].axis(1), f);
      auto [jio, jii] = s[p.C].split(ji, 3);
      s[p.C].reorder({jio, jo}).unroll(jio).vectorize(jii);
      EXPECT_EQ(wrong_after(s), "") << n << " by " << f;
    }
  }
}

TEST(LowerSplit, ALoopTooLargeToUnrollStaysALoop) {
  Copy p(1, 100);
  Schedule s({p.C});
  s[p.C].unroll(s[p.C].axis(1));
  LowerOptions options;
  options.max_unroll = 99;
  EXPECT_EQ(to_string(lower(s, {p.A, p.C}, options).main),
            "func kernel(A: f32[1, 100], C: f32[1, 100]) {\n"
            "  for j in 0..100 {\n"
            "    C[j] = A[j]*2.0f\n"
            "  }\n"
            "}\n");
}

TEST(LowerSplit, AStageOfRankZeroIsAStatement) {
  Tensor A = placeholder({}, f32, "A");
  Tensor C = compute({}, [&](const std::vector<Axis>&) { return A.at({}) + 1.f; }, "C");
  Schedule s({C});
  EXPECT_EQ(text_after(s), R"(func kernel(A: f32[], C: f32[]) {
  C[0] = A[0] + 1.0f
}
)");
  EXPECT_EQ(wrong_after(s), "");
}

}  // namespace
}  // namespace heddle::testing
