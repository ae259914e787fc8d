// What every step refuses, in the words that people see.
#include "schedule/schedule_testing.h"

namespace heddle::testing {
namespace {

TEST(Illegal, SplittingASplitAxisNamesTheLineOfTheFirstSplit) {
  Pair p;
  Schedule s({p.C});
  Loop i = s[p.C].axis(0);
  s[p.C].split(i, 4);
  const std::string line = std::to_string(__LINE__ - 1);
  EXPECT_EQ(error_of([&] { s[p.C].split(i, 2); }),
            "cannot split of stage 'C': axis 'i' was split at line " + line +
                "\n  loops: i.o 0..2 | i.i 0..4 | j 0..12"
                "\n  help: use one of the loops that are left");
  EXPECT_EQ(error_of([&] { s[p.C].vectorize(i); }).substr(0, 46),
            "cannot vectorize of stage 'C': axis 'i' was sp");
}

TEST(Illegal, ErrorsKnowTheLineOfTheCaller) {
  Pair p;
  Schedule s({p.C});
  try {
    s[p.C].split(s[p.C].axis(0), 0);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.where.line, __LINE__ - 3);
    EXPECT_EQ(e.kind, ErrorKind::User);
  }
}

TEST(Illegal, AFusedAxisIsNoLoopAnyMore) {
  Pair p;
  Schedule s({p.C});
  auto [i, j] = s[p.C].axes<2>();
  s[p.C].fuse(i, j);
  const std::string line = std::to_string(__LINE__ - 1);
  EXPECT_EQ(error_of([&] { s[p.C].parallel(j); }),
            "cannot parallel of stage 'C': axis 'j' was fused at line " + line +
                "\n  loops: i.j 0..96\n  help: use one of the loops that are left");
}

TEST(Illegal, SplitFactorsAreAtLeastOne) {
  Pair p;
  Schedule s({p.C});
  EXPECT_EQ(error_of([&] { s[p.C].split(s[p.C].axis(0), 0); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.C].split(s[p.C].axis(0), -3); }), R"(@@)");
}

TEST(Illegal, AnnotatedLoopsAreNotReshaped) {
  Pair p;
  Schedule s({p.C});
  auto [i, j] = s[p.C].axes<2>();
  s[p.C].vectorize(j);
  EXPECT_EQ(error_of([&] { s[p.C].split(j, 4); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.C].fuse(i, j); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.C].parallel(j); }), R"(@@)");
}

TEST(Illegal, FuseNeedsAdjacentLoopsOuterFirst) {
  Chain p;
  Schedule s({p.C});
  auto [i, j] = s[p.C].axes<2>();
  Loop k = s[p.C].reduce_axis(0);
  EXPECT_EQ(error_of([&] { s[p.C].fuse(i, k); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.C].fuse(j, i); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.C].fuse(i, i); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.C].fuse(j, k); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.C].fuse(std::vector<Loop>{}); }), R"(@@)");
}

TEST(Illegal, ReorderNamesALoopOnce) {
  Pair p;
  Schedule s({p.C});
  auto [i, j] = s[p.C].axes<2>();
  EXPECT_EQ(error_of([&] { s[p.C].reorder({i, j, i}); }), R"(@@)");
}

TEST(Illegal, LoopsOfAnotherStageAndLoopsThatAreNot) {
  Pair p;
  Schedule s({p.C});
  EXPECT_EQ(error_of([&] { s[p.C].unroll(s[p.B].axis(0)); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.C].unroll(Loop{}); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.C].unroll(Loop{999}); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.C].axis(2); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.C].axis(-3); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.C].reduce_axis(0); }), R"(@@)");
}

TEST(Illegal, ReduceLoopsAreNeitherVectorizedNorParallel) {
  Chain p;
  Schedule s({p.C});
  EXPECT_EQ(error_of([&] { s[p.C].vectorize(s[p.C].reduce_axis(0)); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.C].parallel(s[p.C].reduce_axis(0)); }), R"(@@)");
}

TEST(Illegal, InputsAreNotComputed) {
  Pair p;
  Schedule s({p.C});
  EXPECT_EQ(error_of([&] { s[p.A].split(s[p.A].axis(0), 2); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.A].compute_inline(); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.A].layout({{1}, {0}}); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.A].store_nontemporal(); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.B].compute_at(s[p.A], s[p.A].axis(0)); }), R"(@@)");
}

TEST(Illegal, ComputeAtMustBeAtALiveLoopOfAnotherStage) {
  Chain p;
  Schedule s({p.D});
  auto [i, j] = s[p.D].axes<2>();
  EXPECT_EQ(error_of([&] { s[p.C].compute_at(s[p.C], s[p.C].axis(0)); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.D].compute_at(s[p.C], s[p.C].axis(0)); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.C].compute_at(s[p.D], Loop{77}); }), R"(@@)");
  s[p.D].split(j, 4);
  EXPECT_EQ(error_of([&] { s[p.C].compute_at(s[p.D], j); }), R"(@@)");
  s[p.C].compute_at(s[p.D], i);
  EXPECT_EQ(error_of([&] { s[p.D].split(i, 2); }), R"(@@)");
}

TEST(Illegal, TwoStagesAreNotComputedInsideEachOther) {
  Pair p;
  Tensor E = compute({8, 12}, [&](Axis i, Axis j) { return p.C(i, j) - 1.f; }, "E");
  Schedule s({E});
  s[p.B].compute_at(s[p.C], s[p.C].axis(0));
  EXPECT_EQ(error_of([&] { s[p.C].compute_at(s[p.B], s[p.B].axis(0)); }), R"(@@)");
}

TEST(Illegal, InliningIsForStagesThatAreNeitherOutputsNorReductions) {
  Chain p;
  Schedule s({p.D});
  EXPECT_EQ(error_of([&] { s[p.C].compute_inline(); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.D].compute_inline(); }), R"(@@)");
}

TEST(Illegal, AnInlinedStageIsGone) {
  Pair p;
  Schedule s({p.C});
  Loop i = s[p.B].axis(0);
  s[p.B].compute_inline();
  EXPECT_EQ(error_of([&] { s[p.B].split(i, 2); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.B].compute_inline(); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.B].cache_read({s[p.C]}); }), R"(@@)");
}

TEST(Illegal, AHostOfOtherStagesIsNotInlined) {
  Pair p;
  Tensor E = compute({8, 12}, [&](Axis i, Axis j) { return p.C(i, j) - 1.f; }, "E");
  Schedule s({E});
  s[p.B].compute_at(s[p.C], s[p.C].axis(0));
  EXPECT_EQ(error_of([&] { s[p.C].compute_inline(); }), R"(@@)");
  Schedule t({E});
  t[p.C].compute_inline();
  EXPECT_EQ(error_of([&] { t[p.B].compute_at(t[p.C], t[p.C].axis(0)); }), R"(@@)");
}

TEST(Illegal, CacheWriteAndRfactorComeBeforeTheReduceLoopsAreShaped) {
  Chain p;
  Schedule s({p.C});
  Loop k = s[p.C].reduce_axis(0);
  auto [ko, ki] = s[p.C].split(k, 2);
  (void)ki;
  EXPECT_EQ(error_of([&] { s[p.C].cache_write(); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.C].rfactor(ko, 2, false); }), R"(@@)");
  // The failed steps took nothing away.
  EXPECT_EQ(s[p.C].num_reduce_axes(), 1);
  EXPECT_EQ(s[p.C].reduce_axis(0), k);
  EXPECT_EQ(s.steps().size(), 1u);
  EXPECT_EQ(s[p.A].cache_read({s[p.C]}).id(), 3);
}

TEST(Illegal, RfactorIsForReduceAxesOfReductions) {
  Chain p;
  Schedule s({p.D});
  EXPECT_EQ(error_of([&] { s[p.C].rfactor(s[p.C].axis(0), 2, false); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.D].rfactor(s[p.D].axis(0), 2, false); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.C].rfactor(s[p.C].reduce_axis(0), 0, false); }), R"(@@)");
}

TEST(Illegal, InnerRfactorNeedsACommutativeReducer) {
  Tensor A = placeholder({4, 9}, f32, "A");
  Axis k = reduce_axis(9, "k");
  Reducer last = reducer(
      "last", {f32}, {Expr(0.f)},
      [](const std::vector<Expr>&, const std::vector<Expr>& b) { return b; }, false);
  Tensor R = compute({4}, [&](Axis i) { return last({A(i, k)}, {k})[0]; }, "R");
  Schedule s({R});
  EXPECT_EQ(error_of([&] { s[R].rfactor(s[R].reduce_axis(0), 3, true); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[R].rfactor(s[R].reduce_axis(0), 3, false); }), "no error");
}

TEST(Illegal, ALayoutMustBeABijection) {
  Pair p;
  Schedule s({p.C});
  StageRef b = s[p.B];
  EXPECT_EQ(error_of([&] { b.layout({{0}}); }), R"(@@)");
  const std::string help = "\n  help: e.g. {1, 16, 0} and {1, 1, 16} for tiles of 16";
  using Dims = std::vector<StageRef::StorageDim>;
  for (const Dims& dims : {Dims{{0}, {1, 4}}, Dims{{0}, {1, 4}, {1, 1, 3}}, Dims{{0}, {1}, {1}},
                           Dims{{0}, {1, 1, 4}}, Dims{{0}, {1, 8}, {1, 1, 4}}}) {
    EXPECT_EQ(error_of([&] { b.layout(dims); }),
              "cannot layout of stage 'B': the parts of dimension 1 do not make it up exactly "
              "once\n  loops: i 0..8 | j 0..12" +
                  help);
  }
  EXPECT_EQ(error_of([&] { b.layout({{0}, {1}, {2}}); }), R"(@@)");
  EXPECT_EQ(error_of([&] { b.layout({{0}, {1, 0}}); }), R"(@@)");
  EXPECT_EQ(error_of([&] { s[p.C].layout({{1}, {0}}); }), R"(@@)");
  EXPECT_EQ(error_of([&] { b.layout({{1, 4}, {0}, {1, 1, 4}}); }), "no error");
}

TEST(Illegal, AStageOfAnotherProgramIsRefused) {
  Pair p, q;
  Schedule s({p.C});
  EXPECT_EQ(error_of([&] { s[q.B]; }), R"(@@)");
}

TEST(Illegal, KnobsAreForTemplates) {
  Pair p;
  Schedule s({p.C});
  EXPECT_EQ(error_of([&] { s[p.C].split(s[p.C].axis(0), Param::of_knob(0)); }), R"(@@)");
}

}  // namespace
}  // namespace heddle::testing
