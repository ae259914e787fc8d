// The effect of each step on the loops, the bodies and the places of a schedule.
#include "schedule/schedule_testing.h"

namespace heddle::testing {
namespace {

TEST(Step, TheDefaultScheduleHasOneLoopAnAxis) {
  Chain p;
  Schedule s({p.D});
  EXPECT_EQ(loops(s, s[p.C]), "i 0..8 | j 0..12 | reduce k 0..6");
  EXPECT_EQ(loops(s, s[p.D]), "i 0..8 | j 0..12");
  EXPECT_TRUE(s.steps().empty());
}

TEST(Step, SplitMakesTwoLoopsAndRoundsUp) {
  Pair p;
  Schedule s({p.C});
  auto [o, i] = s[p.C].split(s[p.C].axis(1), 5);
  EXPECT_EQ(loops(s, s[p.C]), "i 0..8 | j.o 0..3 | j.i 0..5");
  s[p.C].split(o, 2);
  s[p.C].split(i, 5);
  EXPECT_EQ(loops(s, s[p.C]), "i 0..8 | j.o.o 0..2 | j.o.i 0..2 | j.i.o 0..1 | j.i.i 0..5");
}

TEST(Step, SplitByMoreThanTheExtentIsSplitByTheExtent) {
  Pair p;
  Schedule s({p.C});
  s[p.C].split(s[p.C].axis(0), int64_t{1} << 62);
  EXPECT_EQ(loops(s, s[p.C]), "i.o 0..1 | i.i 0..8 | j 0..12");
}

TEST(Step, ASplitWithPredicatedStoresRunsBeyondTheExtentAndLeavesOutTheStore) {
  Pair p;
  Schedule s({p.C});
  s[p.B].compute_inline();
  auto [o, i] = s[p.C].split(s[p.C].axis(1), 5, TailStrategy::PredicateStores);
  s[p.C].split(s[p.C].axis(0), 8, TailStrategy::PredicateStores);
  s[p.C].bind(o, LoopKind::BlockX).bind(i, LoopKind::ThreadX);
  EXPECT_EQ(loops(s, s[p.C]), "i.o 0..1 | i.i 0..8 | blockIdx.x j.o 0..3 | threadIdx.x j.i 0..5");
  EXPECT_EQ(lowered(s), R"(func kernel(A: f32[8, 12], C: f32[8, 12]) {
  for i.i in 0..8 {
    blockIdx.x for j.o in 0..3 {
      threadIdx.x for j.i in 0..5 {
        if j.o*5 + j.i < 12 {
          C[i.i*12 + j.o*5 + j.i] = (A[i.i*12 + j.o*5 + j.i] + 1.0f)*2.0f
        }
      }
    }
  }
}
)");
}

TEST(Step, WidenConvertsWhereTheStageIsComputed) {
  const Tensor a = placeholder({4}, bf16, "a");
  const Tensor c =
      compute({4}, [&](Axis i) { return cast(f32, a(i)) + cast(f32, a(i) * a(i)); }, "c");
  Schedule s({c});
  s[a].cache_read({s[c]}).widen(f32);
  EXPECT_EQ(lowered(s), R"(func kernel(a: bf16[4], c: f32[4]) {
  global a.copy: f32[4]
  for d0 in 0..4 {
    a.copy[d0] = f32(a[d0])
  }
  for i in 0..4 {
    c[i] = a.copy[i] + f32(bf16(a.copy[i])*bf16(a.copy[i]))
  }
}
)");
  EXPECT_NE(s.to_text().find("a.copy.widen(f32)"), std::string::npos);
}

TEST(Step, PadComputesASumOverLongerAxes) {
  Chain p(7, 12, 6);
  Schedule s({p.C});
  s[p.A].cache_read({s[p.C]});
  s[p.B].cache_read({s[p.C]});
  auto [i, j] = s[p.C].axes<2>();
  StageRef padded = s[p.C].pad({{i, 2, 2, 2}, {j, 3}, {s[p.C].reduce_axis(0), 4}});
  EXPECT_EQ(loops(s, padded), "i 0..8 | j 0..12 | reduce k 0..8");
  EXPECT_EQ(loops(s, s[p.C]), "i 0..7 | j 0..12");
  EXPECT_EQ(lowered(s), R"(func kernel(A: f32[7, 6], B: f32[6, 12], C: f32[7, 12]) {
  global A.copy: f32[8, 8]
  for d0 in 0..7 {
    for d1 in 0..6 {
      A.copy[d0*8 + d1] = A[d0*6 + d1]
    }
    for d1 in 0..2 {
      A.copy[d0*8 + d1 + 6] = 0.0f
    }
  }
  for d1 in 0..8 {
    A.copy[d1 + 56] = 0.0f
  }
  global B.copy: f32[8, 12]
  for d0 in 0..6 {
    for d1 in 0..12 {
      B.copy[d1 + d0*12] = B[d1 + d0*12]
    }
  }
  for d0 in 0..2 {
    for d1 in 0..12 {
      B.copy[d1 + d0*12 + 72] = 0.0f
    }
  }
  global C.pad: f32[8, 12]
  for i in 0..8 {
    for j in 0..12 {
      C.pad[i*12 + j] = 0.0f
      for k in 0..8 {
        C.pad[i*12 + j] = C.pad[i*12 + j] + A.copy[i*8 + k]*B.copy[j + k*12]
      }
    }
  }
  for i in 0..7 {
    for j in 0..12 {
      C[i*12 + j] = C.pad[i*12 + j]
    }
  }
}
)");
}

TEST(Step, PadReadsAxesThatStayAsTheyAreAtAnyIndex) {
  for (const int64_t n : {1, 3}) {
    const Tensor a = placeholder({7, 2 * n, 6}, f32, "A"), b = placeholder({6, 12}, f32, "B");
    const Axis k = reduce_axis(6, "k");
    const Tensor c = compute(
        {7, n, 12}, [&](Axis i, Axis w, Axis j) { return sum(a(i, w * 2, k) * b(k, j), {k}); },
        "C");
    Schedule s({c});
    s[a].cache_read({s[c]});
    s[b].cache_read({s[c]});
    s[c].pad({{s[c].axis(0), 4}, {s[c].reduce_axis(0), 4}});
    const NDArray x = NDArray::random({7, 2 * n, 6}, f32, 1), y = NDArray::random({6, 12}, f32, 2),
                  got = NDArray::zeros({7, n, 12}, f32);
    build(s, {a, b, c})(x, y, got);
    EXPECT_TRUE(allclose(got, interpret({c}, {{a, x}, {b, y}})[0])) << n;
  }
}

TEST(Step, FuseMakesOneLoopOfTwo) {
  Pair p;
  Schedule s({p.C});
  Loop f = s[p.C].fuse(s[p.C].axis(0), s[p.C].axis(1));
  EXPECT_EQ(loops(s, s[p.C]), "i.j 0..96");
  s[p.C].split(f, 7);
  EXPECT_EQ(loops(s, s[p.C]), "i.j.o 0..14 | i.j.i 0..7");
}

TEST(Step, ReduceAxesFuseWithEachOther) {
  Tensor A = placeholder({3, 4, 5}, f32, "A");
  Axis a = reduce_axis(4, "a"), b = reduce_axis(5, "b");
  Tensor R = compute({3}, [&](Axis i) { return sum(A(i, a, b), {a, b}); }, "R");
  Schedule s({R});
  s[R].fuse(s[R].all_reduce_axes());
  EXPECT_EQ(loops(s, s[R]), "i 0..3 | reduce a.b 0..20");
}

TEST(Step, ReorderPermutesOnlyTheNamedLoops) {
  Chain p;
  Schedule s({p.C});
  auto [i, j] = s[p.C].axes<2>();
  Loop k = s[p.C].reduce_axis(0);
  s[p.C].reorder({k, i});
  EXPECT_EQ(loops(s, s[p.C]), "reduce k 0..6 | j 0..12 | i 0..8");
  s[p.C].reorder({i, k, j});
  EXPECT_EQ(loops(s, s[p.C]), "i 0..8 | reduce k 0..6 | j 0..12");
}

TEST(Step, AnnotationsMarkTheLoops) {
  Chain p;
  Schedule s({p.C});
  s[p.C].parallel(s[p.C].axis(0)).vectorize(s[p.C].axis(-1)).unroll(s[p.C].reduce_axis(0));
  EXPECT_EQ(loops(s, s[p.C]), "parallel i 0..8 | vectorized j 0..12 | unrolled reduce k 0..6");
  // Repeating the step changes nothing.
  s[p.C].parallel(s[p.C].axis(0));
  EXPECT_EQ(loops(s, s[p.C]), "parallel i 0..8 | vectorized j 0..12 | unrolled reduce k 0..6");
}

TEST(Step, ComputeAtNestsTheProducer) {
  Pair p;
  Schedule s({p.C});
  s[p.B].compute_at(s[p.C], s[p.C].axis(0));
  EXPECT_EQ(lowered(s), R"(func kernel(A: f32[8, 12], C: f32[8, 12]) {
  for i in 0..8 {
    local B: f32[1, 12]
    for j in 0..12 {
      B[j] = A[i*12 + j] + 1.0f
    }
    for j in 0..12 {
      C[i*12 + j] = B[j]*2.0f
    }
  }
}
)");
}

TEST(Step, ComputeInlineSubstitutesIntoTheReader) {
  Pair p;
  Schedule s({p.C});
  s[p.B].compute_inline();
  EXPECT_EQ(lowered(s), R"(func kernel(A: f32[8, 12], C: f32[8, 12]) {
  for i in 0..8 {
    for j in 0..12 {
      C[i*12 + j] = (A[i*12 + j] + 1.0f)*2.0f
    }
  }
}
)");
}

TEST(Step, CacheWriteComputesIntoAPrivateCopy) {
  Chain p(4, 4, 3);
  Schedule s({p.C});
  StageRef local = s[p.C].cache_write();
  EXPECT_EQ(loops(s, s[p.C]), "i 0..4 | j 0..4");
  EXPECT_EQ(loops(s, local), "i 0..4 | j 0..4 | reduce k 0..3");
  EXPECT_EQ(s[p.C].num_reduce_axes(), 0);
  EXPECT_EQ(local.num_reduce_axes(), 1);
  local.compute_at(s[p.C], s[p.C].axis(1));
  EXPECT_EQ(lowered(s), R"(func kernel(A: f32[4, 3], B: f32[3, 4], C: f32[4, 4]) {
  for i in 0..4 {
    for j in 0..4 {
      local C.local: f32[1, 1]
      C.local[0] = 0.0f
      for k in 0..3 {
        C.local[0] = C.local[0] + A[i*3 + k]*B[j + k*4]
      }
      C[i*4 + j] = C.local[0]
    }
  }
}
)");
}

TEST(Step, CacheWriteKeepsSpatialLoopsThatWereShapedBefore) {
  Chain p;
  Schedule s({p.C});
  auto [io, ii] = s[p.C].split(s[p.C].axis(0), 3);
  (void)io;
  s[p.C].vectorize(ii);
  StageRef local = s[p.C].cache_write();
  EXPECT_EQ(loops(s, s[p.C]), "i.o 0..3 | vectorized i.i 0..3 | j 0..12");
  EXPECT_EQ(loops(s, local), "i 0..8 | j 0..12 | reduce k 0..6");
}

TEST(Step, CacheReadCopiesForTheNamedReadersOnly) {
  Tensor A = placeholder({4}, f32, "A");
  Tensor B = compute({4}, [&](Axis i) { return A(i) + 1.f; }, "B");
  Tensor C = compute({4}, [&](Axis i) { return A(i) * 2.f; }, "C");
  Schedule s({B, C});
  StageRef copy = s[A].cache_read({s[B]});
  EXPECT_EQ(loops(s, copy), "d0 0..4");
  EXPECT_EQ(lowered(s), R"(func kernel(A: f32[4], B: f32[4], C: f32[4]) {
  global A.copy: f32[4]
  for d0 in 0..4 {
    A.copy[d0] = A[d0]
  }
  for i in 0..4 {
    B[i] = A.copy[i] + 1.0f
  }
  for i in 0..4 {
    C[i] = A[i]*2.0f
  }
}
)");
}

TEST(Step, OuterRfactorMakesBlocksAndInnerRfactorInterleaves) {
  Tensor A = placeholder({10}, f32, "A");
  Axis k = reduce_axis(10, "k");
  Tensor S = compute({1}, [&](Axis) { return sum(A(k), k); }, "S");
  for (bool inner : {false, true}) {
    Schedule s({S});
    StageRef rf = s[S].rfactor(s[S].reduce_axis(0), 4, inner);
    EXPECT_EQ(loops(s, rf), inner ? "k.i 0..4 | i 0..1 | reduce k.o 0..3"
                                  : "k.o 0..3 | i 0..1 | reduce k.i 0..4");
    EXPECT_EQ(loops(s, s[S]), inner ? "i 0..1 | reduce k.i 0..4" : "i 0..1 | reduce k.o 0..3");
    EXPECT_EQ(rf.num_axes(), 2);
    EXPECT_EQ(rf.num_reduce_axes(), 1);
    // What was recorded can be gone on with.
    rf.split(rf.reduce_axis(0), 2);
  }
}

TEST(Step, RfactorTakesSeveralAxesAsOne) {
  Tensor A = placeholder({2, 3, 5}, f32, "A");
  Axis a = reduce_axis(3, "a"), b = reduce_axis(5, "b");
  Tensor S = compute({2}, [&](Axis i) { return sum(A(i, a, b), {a, b}); }, "S");
  for (bool inner : {false, true}) {
    Schedule s({S});
    StageRef rf = s[S].rfactor(s[S].all_reduce_axes(), 4, inner);
    EXPECT_EQ(loops(s, rf), inner ? "a.b.i 0..4 | i 0..2 | reduce a.b.o 0..4"
                                  : "a.b.o 0..4 | i 0..2 | reduce a.b.i 0..4");
    EXPECT_EQ(loops(s, s[S]), inner ? "i 0..2 | reduce a.b.i 0..4" : "i 0..2 | reduce a.b.o 0..4");
    EXPECT_EQ(rf.num_reduce_axes(), 1);
    rf.split(rf.reduce_axis(0), 2);
    EXPECT_NE(s.to_text().find("S.rfactor(a, b, 4, "), std::string::npos);
  }
}

TEST(Step, LayoutOrdersTheElementsInMemory) {
  Pair p;
  Schedule s({p.C});
  s[p.B].layout({{1, 4}, {0}, {1, 1, 4}});
  EXPECT_EQ(lowered(s), R"(func kernel(A: f32[8, 12], C: f32[8, 12]) {
  global B: f32[3, 8, 4]
  for i in 0..8 {
    for j in 0..12 {
      B[i*4 + floordiv(j, 4)*32 + floormod(j, 4)] = A[i*12 + j] + 1.0f
    }
  }
  for i in 0..8 {
    for j in 0..12 {
      C[i*12 + j] = B[i*4 + floordiv(j, 4)*32 + floormod(j, 4)]*2.0f
    }
  }
}
)");
}

TEST(Step, NonTemporalMarksTheStores) {
  Pair p;
  Schedule s({p.C});
  s[p.B].compute_inline();
  s[p.C].store_nontemporal();
  EXPECT_EQ(lowered(s), R"(func kernel(A: f32[8, 12], C: f32[8, 12]) {
  for i in 0..8 {
    for j in 0..12 {
      nontemporal C[i*12 + j] = (A[i*12 + j] + 1.0f)*2.0f
    }
  }
}
)");
}

TEST(Step, ScatterRowsStoresThemWhereTheirPlacesSay) {
  const Tensor x = placeholder({4, 6}, f32, "x"), places = placeholder({4}, i64, "places");
  const Tensor y = compute(
      {4, 6}, [&](Axis i, Axis j) { return select(places(i) >= 0, x(i, j) + 1.f, 0.f); }, "y");
  Schedule s({y});
  s[y].scatter_rows(s[places], 9);
  EXPECT_EQ(s.to_text(), "# default: serial loops\ny.scatter_rows(places, 9)\n");
  EXPECT_EQ(lowered(s), R"(func kernel(places: i64[4], x: f32[4, 6], y: f32[9, 6]) {
  for i in 0..4 {
    for j in 0..6 {
      if 0 <= places[i] && places[i] < 9 {
        y[j + places[i]*6] = select(0 <= places[i], x[i*6 + j] + 1.0f, 0.0f)
      }
    }
  }
}
)");
  const NDArray memory = NDArray::full({9, 6}, f32, 50), rows = NDArray::random({4, 6}, f32, 1);
  build(s, {x, places, y})(rows, NDArray::from<int64_t>({7, -1, 0, 9}), memory);
  for (int64_t i = 0; i < 9; ++i) {
    const float want = i == 7   ? rows.at<float>({0, 5}) + 1
                       : i == 0 ? rows.at<float>({2, 5}) + 1
                                : 50;
    EXPECT_EQ(memory.at<float>({i, 5}), want);
  }
  EXPECT_THROW(
      build(s, {x, places, y})(rows, NDArray::zeros({4}, i64), NDArray::zeros({4, 6}, f32)), Error);
}

TEST(Step, ExpectMarksTheStores) {
  Pair p;
  Schedule s({p.C});
  s[p.B].compute_inline();
  s[p.C].expect(Instruction::TransposedSquare);
  EXPECT_NE(lowered(s).find("      transposed_square C[i*12 + j] = "), std::string::npos);
  EXPECT_NE(s.to_text().find("C.expect(transposed_square)"), std::string::npos) << s.to_text();
}

// A strided convolution of one dimension, its two images taken as rows: five of them and three
// taps become six rows of a depth of four.
TEST(Step, AsProductTakesAxesTogether) {
  const Tensor x = placeholder({2, 7}, f32, "X"), w = placeholder({3, 4}, f32, "W");
  Axis r = reduce_axis(3, "r");
  const Tensor y = compute(
      {2, 3, 4}, [&](Axis n, Axis i, Axis k) { return sum(x(n, i * 2 + r) * w(r, k), r); }, "Y");
  Schedule s({y});
  auto [n, i, k] = s[y].axes<3>();
  const StageRef::Product made = s[y].as_product({.batch = {},
                                                  .rows = {{n, 1, 2}, {i, 1, 3}},
                                                  .cols = {{k, 1, 4}},
                                                  .depth = {{s[y].reduce_axis(0), 1, 3}},
                                                  .row_multiple = {4, 1, 1},
                                                  .col_multiple = {4, 1, 1},
                                                  .depth_multiple = {2, 1, 1},
                                                  .rows_along_depth = true,
                                                  .cols_along_depth = false});
  EXPECT_EQ(loops(s, made.sum), "m 0..8 | n 0..4 | reduce d 0..4");
  EXPECT_EQ(loops(s, made.rows), "m 0..8 | d 0..4");
  EXPECT_EQ(loops(s, made.cols), "d 0..4 | n 0..4");
  for (StageRef operand : {made.rows, made.cols}) operand.compute_inline();
  StageRef(made.sum).compute_at(s[y], s[y].split(s[y].fuse(n, i), 2)[0]);
  EXPECT_EQ(lowered(s), R"(func kernel(X: f32[2, 7], W: f32[3, 4], Y: f32[2, 3, 4]) {
  for i0.i1.o in 0..3 {
    local Y.product: f32[2, 4]
    for m in 0..2 {
      for n in 0..4 {
        Y.product[m*4 + n] = 0.0f
        for d in 0..3 {
          Y.product[m*4 + n] = Y.product[m*4 + n] + X[d + floordiv(i0.i1.o*2 + m, 3)*7 + floormod(i0.i1.o*2 + m, 3)*2]*W[n + d*4]
        }
        Y.product[m*4 + n] = Y.product[m*4 + n] + 0.0f
      }
    }
    for i0.i1.i in 0..2 {
      for i2 in 0..4 {
        Y[i0.i1.o*8 + i0.i1.i*4 + i2] = Y.product[i0.i1.i*4 + i2]
      }
    }
  }
}
)");
  EXPECT_NE(s.to_text().find("Y.as_product(i0, i1, i2, r, m to 4, n to 4, k to 2) -> Y.product"),
            std::string::npos)
      << s.to_text();
}

TEST(Step, NamesOfKindsReadBack) {
  for (int k = 0; k <= static_cast<int>(StepKind::AsProduct); ++k) {
    if (k == 20) continue;  // of a kind that is gone
    const auto kind = static_cast<StepKind>(k);
    EXPECT_EQ(parse_step_kind(to_string(kind)), kind);
  }
  EXPECT_EQ(parse_step_kind("online_softmax"), StepKind::OnlineSoftmax);
  EXPECT_EQ(parse_step_kind("splitt"), std::nullopt);
}

TEST(Step, TheTextOfAScheduleNamesStagesAndLoops) {
  Chain p;
  Schedule s({p.D});
  auto [io, ii] = s[p.D].split(s[p.D].axis(0), 4);
  s[p.D].reorder({ii, io});
  Loop f = s[p.D].fuse(ii, io);
  s[p.D].parallel(f);
  s[p.C].compute_at(s[p.D], f);
  StageRef rf = s[p.C].rfactor(s[p.C].reduce_axis(0), 2, true);
  rf.layout({{1}, {2, 4}, {0}, {2, 1, 4}});
  s[p.A].cache_read({rf});
  s[p.D].cache_write();
  s[p.D].unroll(s[p.D].axis(1)).store_nontemporal();
  s.provenance = "by hand";
  EXPECT_EQ(s.to_text(), R"(# by hand
D.split(i, 4) -> i.o, i.i
D.reorder(i.i, i.o)
D.fuse(i.i, i.o) -> i.i.i.o
D.parallel(i.i.i.o)
C.compute_at(D, i.i.i.o)
C.rfactor(k, 2, inner) -> C.rf
C.rf.layout(d1, d2/4, d0, d2%4)
A.cache_read(C.rf) -> A.copy
D.cache_write() -> D.local
D.unroll(j)
D.store_nontemporal()
)");
}

TEST(Step, TwoStagesOfOneNameAreToldApart) {
  Tensor A = placeholder({4}, f32, "x");
  Tensor B = compute({4}, [&](Axis i) { return A(i) + 1.f; }, "x");
  Schedule s({B});
  s[B].unroll(s[B].axis(0));
  EXPECT_EQ(s.to_text(), "# default: serial loops\nx#1.unroll(i)\n");
}

TEST(Step, CopiesAreIndependentValues) {
  Pair p;
  Schedule a({p.C});
  a[p.C].split(a[p.C].axis(0), 4);
  Schedule b = a;
  b[p.C].split(b[p.C].axis(1), 3);
  b[p.B].compute_inline();
  EXPECT_EQ(loops(a, a[p.C]), "i.o 0..2 | i.i 0..4 | j 0..12");
  EXPECT_EQ(loops(b, b[p.C]), "i.o 0..2 | i.i 0..4 | j.o 0..4 | j.i 0..3");
  EXPECT_EQ(a.steps().size(), 1u);
  EXPECT_EQ(b.steps().size(), 3u);
  a[p.C].parallel(a[p.C].axis(1));
  EXPECT_EQ(loops(b, b[p.C]), "i.o 0..2 | i.i 0..4 | j.o 0..4 | j.i 0..3");
  Schedule c({p.C});
  c = b;
  b = std::move(a);
  EXPECT_EQ(loops(b, b[p.C]), "i.o 0..2 | i.i 0..4 | parallel j 0..12");
  EXPECT_EQ(loops(c, c[p.C]), "i.o 0..2 | i.i 0..4 | j.o 0..4 | j.i 0..3");
  EXPECT_EQ(c.to_json().dump(), Schedule(c).to_json().dump());
}

}  // namespace
}  // namespace heddle::testing
