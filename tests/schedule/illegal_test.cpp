// The error messages of every step.
#include <gmock/gmock.h>

#include "schedule/schedule_testing.h"

namespace heddle::testing {
namespace {

TEST(Illegal, Pad) {
  Chain p;
  auto padded = [&](bool copies, int64_t factor) {
    return error_of([&] {
      Schedule s({p.C});
      if (copies) {
        s[p.A].cache_read({s[p.C]});
        s[p.B].cache_read({s[p.C]});
      }
      s[p.C].pad({{s[p.C].reduce_axis(0), factor}});
    });
  };
  EXPECT_EQ(padded(true, 4), "no error");
  EXPECT_NE(padded(true, 0).find("a factor is not positive"), std::string::npos);
  EXPECT_NE(padded(false, 4).find("'A' is no copy for it to lengthen"), std::string::npos);
  Axis n = reduce_axis(6, "n");
  const Tensor most = compute({8}, [&](Axis i) { return max(p.A(i, n) + 1.f, {n}); }, "most");
  const auto pad_rows = [](const Tensor& what) {
    return error_of([&] {
      Schedule s({what});
      s[what].pad({{s[what].axis(0), 4}});
    });
  };
  EXPECT_NE(pad_rows(most).find("no maximum of elements"), std::string::npos);
  EXPECT_NE(pad_rows(ops::max(p.A, {1})).find("is no copy"), std::string::npos);
  EXPECT_EQ(pad_rows(p.D), "no error") << "a stage of elements gets zeros beyond its end";
  // What is summed with one does not vanish with what it reads.
  Axis k = reduce_axis(6, "k");
  const Tensor plus = compute({8}, [&](Axis i) { return sum(p.A(i, k) + 1.f, k); }, "plus");
  const std::string error = error_of([&] {
    Schedule s({plus});
    s[p.A].cache_read({s[plus]});
    s[plus].pad({{s[plus].reduce_axis(0), 4}});
  });
  EXPECT_NE(error.find("it is no sum of products"), std::string::npos) << error;
  // Another reader of the copy would see its zeros.
  const Tensor twice = compute({8, 6}, [&](Axis i, Axis j) { return p.A(i, j) * 2.f; }, "twice");
  const std::string shared = error_of([&] {
    Schedule s({p.C, twice});
    s[p.A].cache_read({s[p.C], s[twice]});
    s[p.B].cache_read({s[p.C]});
    s[p.C].pad({{s[p.C].reduce_axis(0), 4}});
  });
  EXPECT_NE(shared.find("is read by other stages"), std::string::npos) << shared;
}

TEST(Illegal, AsProduct) {
  const Tensor x = placeholder({6, 5}, f32, "X"), w = placeholder({3, 4}, f32, "W");
  Axis r = reduce_axis(3, "r");
  const Tensor y = compute(
      {4, 5, 4}, [&](Axis i, Axis j, Axis k) { return sum(x(i + r, j) * w(r, k), r); }, "Y");
  using Digit = StageRef::Digit;
  auto error = [&](std::vector<Digit> rows, std::vector<Digit> cols, int64_t multiple) {
    return error_of([&] {
      Schedule s({y});
      s[y].as_product({.batch = {},
                       .rows = rows,
                       .cols = cols,
                       .depth = {{s[y].reduce_axis(0), 1, 3}},
                       .row_multiple = {multiple, 1, 1}});
    });
  };
  Schedule s({y});
  auto [i, j, k] = s[y].axes<3>();
  EXPECT_EQ(error({{i, 1, 4}, {j, 1, 5}}, {{k, 1, 4}}, 8), "no error");
  EXPECT_EQ(error({{k, 1, 4}}, {{i, 2, 2}, {i, 1, 2}, {j, 1, 5}}, 8), "no error");
  for (const auto& [text, why] :
       {std::pair{error({{i, 1, 4}}, {{k, 1, 4}}, 8), "the digits of axis 'i1' do not make it up"},
        {error({{i, 1, 4}, {j, 1, 3}}, {{k, 1, 4}}, 8), "'i1' do not make it up"},
        {error({{i, 1, 4}, {j, 1, 5}, {j, 1, 5}}, {{k, 1, 4}}, 8), "a digit is of no use"},
        {error({{i, 1, 4}}, {{j, 1, 5}, {k, 1, 4}}, 8), "digits of rows and of columns"},
        {error({{i, 1, 4}, {j, 1, 5}, {k, 1, 4}}, {}, 8), "have one axis each at least"},
        {error({{i, 1, 4}, {j, 1, 5}}, {{k, 1, 4}}, 0), "a factor is not positive"}}) {
    EXPECT_NE(text.find(why), std::string::npos) << text;
  }
}

TEST(Illegal, Widen) {
  const Tensor a = placeholder({8, 6}, i8, "a");
  const Tensor b = compute({8, 6}, [&](Axis i, Axis j) { return cast(i32, a(i, j)); }, "b");
  const Tensor total = ops::sum(b, {1});
  auto widened = [&](int stage, DataType to) {
    return error_of([&] {
      Schedule s({total});
      StageRef copy = s[a].cache_read({s[b]});
      (stage < 0 ? copy : stage == 0 ? s[a] : stage == 1 ? s[b] : s[total]).widen(to);
    });
  };
  EXPECT_EQ(widened(-1, i16), "no error");
  EXPECT_EQ(widened(-1, f32), "no error");
  EXPECT_EQ(widened(1, i64), "no error");
  EXPECT_NE(widened(-1, u16).find("u16 is no wider type that holds every i8"), std::string::npos);
  EXPECT_NE(widened(-1, i8).find("the parameters name no type"), std::string::npos);
  EXPECT_NE(widened(1, f32).find("f32 is no wider type that holds every i32"), std::string::npos);
  EXPECT_NE(widened(0, i16).find("it is an input"), std::string::npos);
  EXPECT_NE(widened(2, i64).find("it is an output"), std::string::npos);
  const std::string reduction = error_of([&] {
    const Tensor twice = compute({8}, [&](Axis i) { return total(i) * 2; }, "twice");
    Schedule s({twice});
    s[total].widen(i64);
  });
  EXPECT_NE(reduction.find("it is a reduction"), std::string::npos) << reduction;
}

TEST(Illegal, SplittingASplitAxisNamesTheLineOfTheFirstSplit) {
  Pair p;
  Schedule s({p.C});
  Loop i = s[p.C].axis(0);
  s[p.C].split(i, 4);
  const std::string line = std::to_string(__LINE__ - 1);
  EXPECT_EQ(error_of([&] { s[p.C].split(i, 2); }),
            "cannot apply split to stage 'C': axis 'i' was split at line " + line +
                "\n  loops: i.o 0..2 | i.i 0..4 | j 0..12"
                "\n  help: use one of the loops that are left");
  EXPECT_EQ(error_of([&] { s[p.C].vectorize(i); }).substr(0, 52),
            "cannot apply vectorize to stage 'C': axis 'i' was sp");
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
            "cannot apply parallel to stage 'C': axis 'j' was fused at line " + line +
                "\n  loops: i.j 0..96\n  help: use one of the loops that are left");
}

TEST(Illegal, SplitFactorsAreAtLeastOne) {
  Pair p;
  Schedule s({p.C});
  EXPECT_EQ(error_of([&] { s[p.C].split(s[p.C].axis(0), 0); }),
            R"(cannot apply split to stage 'C': the factor 0 is not positive
  loops: i 0..8 | j 0..12)");
  EXPECT_EQ(error_of([&] { s[p.C].split(s[p.C].axis(0), -3); }),
            R"(cannot apply split to stage 'C': the factor -3 is not positive
  loops: i 0..8 | j 0..12)");
}

TEST(Illegal, AnnotatedLoopsAreNotReshaped) {
  Pair p;
  Schedule s({p.C});
  auto [i, j] = s[p.C].axes<2>();
  s[p.C].vectorize(j);
  EXPECT_EQ(error_of([&] { s[p.C].split(j, 4); }),
            R"(cannot apply split to stage 'C': axis 'j' is already vectorized
  loops: i 0..8 | vectorized j 0..12
  help: split first, then annotate the parts)");
  EXPECT_EQ(error_of([&] { s[p.C].fuse(i, j); }),
            R"(cannot apply fuse to stage 'C': a fused axis is already annotated
  loops: i 0..8 | vectorized j 0..12)");
  EXPECT_EQ(error_of([&] { s[p.C].parallel(j); }),
            R"(cannot apply parallel to stage 'C': axis 'j' is already vectorized
  loops: i 0..8 | vectorized j 0..12)");
}

TEST(Illegal, FuseNeedsAdjacentLoopsOuterFirst) {
  Chain p;
  Schedule s({p.C});
  auto [i, j] = s[p.C].axes<2>();
  Loop k = s[p.C].reduce_axis(0);
  EXPECT_EQ(error_of([&] { s[p.C].fuse(i, k); }),
            R"(cannot apply fuse to stage 'C': 'i' and 'k' are not adjacent loops, outer first
  loops: i 0..8 | j 0..12 | reduce k 0..6
  help: reorder them side by side first)");
  EXPECT_EQ(error_of([&] { s[p.C].fuse(j, i); }),
            R"(cannot apply fuse to stage 'C': 'j' and 'i' are not adjacent loops, outer first
  loops: i 0..8 | j 0..12 | reduce k 0..6
  help: reorder them side by side first)");
  EXPECT_EQ(error_of([&] { s[p.C].fuse(i, i); }),
            R"(cannot apply fuse to stage 'C': 'i' and 'i' are not adjacent loops, outer first
  loops: i 0..8 | j 0..12 | reduce k 0..6
  help: reorder them side by side first)");
  EXPECT_EQ(error_of([&] { s[p.C].fuse(j, k); }),
            R"(cannot apply fuse to stage 'C': 'j' and 'k' are not both spatial or both reduce axes
  loops: i 0..8 | j 0..12 | reduce k 0..6)");
  EXPECT_EQ(error_of([&] { s[p.C].fuse(std::vector<Loop>{}); }), R"(cannot fuse no loops at all)");
}

TEST(Illegal, ReorderNamesALoopOnce) {
  Pair p;
  Schedule s({p.C});
  auto [i, j] = s[p.C].axes<2>();
  EXPECT_EQ(error_of([&] { s[p.C].reorder({i, j, i}); }),
            R"(cannot apply reorder to stage 'C': an axis is named twice
  loops: i 0..8 | j 0..12)");
}

TEST(Illegal, LoopsOfAnotherStageAndLoopsThatAreNot) {
  Pair p;
  Schedule s({p.C});
  EXPECT_EQ(error_of([&] { s[p.C].unroll(s[p.B].axis(0)); }),
            R"(cannot apply unroll to stage 'C': axis 'i' belongs to stage 'B'
  loops: i 0..8 | j 0..12)");
  EXPECT_EQ(error_of([&] { s[p.C].unroll(Loop{}); }),
            R"(cannot apply unroll to stage 'C': axis -1 does not exist
  loops: i 0..8 | j 0..12)");
  EXPECT_EQ(error_of([&] { s[p.C].unroll(Loop{999}); }),
            R"(cannot apply unroll to stage 'C': axis 999 does not exist
  loops: i 0..8 | j 0..12)");
  EXPECT_EQ(error_of([&] { s[p.C].axis(2); }), R"(stage 'C' has no spatial axis 2: it has 2)");
  EXPECT_EQ(error_of([&] { s[p.C].axis(-3); }), R"(stage 'C' has no spatial axis -3: it has 2)");
  EXPECT_EQ(error_of([&] { s[p.C].reduce_axis(0); }),
            R"(stage 'C' has no reduce axis 0: it has 0)");
}

TEST(Illegal, ReduceLoopsAreNeitherVectorizedNorParallel) {
  Chain p;
  Schedule s({p.C});
  EXPECT_EQ(error_of([&] { s[p.C].vectorize(s[p.C].reduce_axis(0)); }),
            "cannot apply vectorize to stage 'C': axis 'k' is a reduce axis: its iterations "
            "depend on each other\n"
            "  loops: i 0..8 | j 0..12 | reduce k 0..6\n"
            "  help: rfactor it first: the partial results are independent");
  EXPECT_EQ(error_of([&] { s[p.C].parallel(s[p.C].reduce_axis(0)); }),
            "cannot apply parallel to stage 'C': axis 'k' is a reduce axis: its iterations "
            "depend on each other\n"
            "  loops: i 0..8 | j 0..12 | reduce k 0..6\n"
            "  help: rfactor it first: the partial results are independent");
}

TEST(Illegal, RowsOfAnOutputAloneHavePlaces) {
  const Tensor p = placeholder({8}, i64, "p"), q = placeholder({7}, i64, "q"),
               r = placeholder({8}, i32, "r");
  const Tensor b = compute({8, 3}, [&](Axis i, Axis) { return p(i) + cast(i64, r(i)); }, "b");
  const Tensor c = compute({8, 3}, [&](Axis i, Axis j) { return b(i, j) + q(j); }, "c");
  Schedule s({c});
  const auto why = [&](const Tensor& t, StageRef places, int64_t rows) {
    return error_of([&] { s[t].scatter_rows(places, rows); });
  };
  EXPECT_THAT(why(b, s[p], 9), ::testing::HasSubstr("only a stage with one result"));
  EXPECT_THAT(why(c, s[b], 9), ::testing::HasSubstr("its places are no input"));
  EXPECT_THAT(why(c, s[r], 9), ::testing::HasSubstr("its places are i32 in place of i64"));
  EXPECT_THAT(why(c, s[q], 9), ::testing::HasSubstr("its first axes are not those of 'q'"));
  EXPECT_THAT(why(c, s[p], 0), ::testing::HasSubstr("there are 0 rows to store to"));
  EXPECT_THAT(why(p, s[p], 9), ::testing::HasSubstr("it is an input"));
}

TEST(Illegal, InputsAreNotComputed) {
  Pair p;
  Schedule s({p.C});
  EXPECT_EQ(error_of([&] { s[p.A].split(s[p.A].axis(0), 2); }),
            R"(cannot apply split to stage 'A': it is an input, nothing computes it
  loops: d0 0..8 | d1 0..12)");
  EXPECT_EQ(error_of([&] { s[p.A].compute_inline(); }),
            R"(cannot apply compute_inline to stage 'A': it is an input, nothing computes it
  loops: d0 0..8 | d1 0..12)");
  EXPECT_EQ(error_of([&] { s[p.A].layout({{1}, {0}}); }),
            R"(cannot apply layout to stage 'A': it is an input: its layout is the caller's
  loops: d0 0..8 | d1 0..12
  help: cache_read it and lay out the copy)");
  EXPECT_EQ(error_of([&] { s[p.A].store_nontemporal(); }),
            R"(cannot apply store_nontemporal to stage 'A': it is an input, nothing computes it
  loops: d0 0..8 | d1 0..12)");
  EXPECT_EQ(error_of([&] { s[p.A].expect(Instruction::DotProduct); }),
            R"(cannot apply expect to stage 'A': it is an input, nothing computes it
  loops: d0 0..8 | d1 0..12)");
  EXPECT_EQ(error_of([&] { s[p.B].expect(static_cast<Instruction>(9)); }),
            R"(cannot apply expect to stage 'B': there is no instruction 9
  loops: i 0..8 | j 0..12)");
  EXPECT_EQ(error_of([&] { s[p.B].compute_at(s[p.A], s[p.A].axis(0)); }),
            R"(cannot apply compute_at to stage 'B': stage 'A' is an input and has no loops
  loops: i 0..8 | j 0..12)");
}

TEST(Illegal, ComputeAtMustBeAtALiveLoopOfAnotherStage) {
  Chain p;
  Schedule s({p.D});
  auto [i, j] = s[p.D].axes<2>();
  EXPECT_EQ(error_of([&] { s[p.C].compute_at(s[p.C], s[p.C].axis(0)); }),
            R"(cannot apply compute_at to stage 'C': a stage cannot be computed inside itself
  loops: i 0..8 | j 0..12 | reduce k 0..6)");
  EXPECT_EQ(error_of([&] { s[p.D].compute_at(s[p.C], s[p.C].axis(0)); }),
            "cannot apply compute_at to stage 'D': it is an output of the program: it must "
            "be computed whole, at the root\n"
            "  loops: i 0..8 | j 0..12");
  EXPECT_EQ(error_of([&] { s[p.C].compute_at(s[p.D], Loop{77}); }),
            R"(cannot apply compute_at to stage 'C': there is no such loop
  loops: i 0..8 | j 0..12 | reduce k 0..6)");
  s[p.D].split(j, 4);
  EXPECT_EQ(
      error_of([&] { s[p.C].compute_at(s[p.D], j); }),
      R"(cannot apply compute_at to stage 'C': 'j' of 'D' was split or fused and is no loop any more
  loops: i 0..8 | j 0..12 | reduce k 0..6
  help: name one of its loops: i 0..8 | j.o 0..3 | j.i 0..4)");
  s[p.C].compute_at(s[p.D], i);
  EXPECT_EQ(error_of([&] { s[p.D].split(i, 2); }),
            R"(cannot apply split to stage 'D': stage 'C' is computed at axis 'i'
  loops: i 0..8 | j.o 0..3 | j.i 0..4
  help: shape the loops first, then place stages in them)");
}

TEST(Illegal, TwoStagesAreNotComputedInsideEachOther) {
  Pair p;
  Tensor E = compute({8, 12}, [&](Axis i, Axis j) { return p.C(i, j) - 1.f; }, "E");
  Schedule s({E});
  s[p.B].compute_at(s[p.C], s[p.C].axis(0));
  EXPECT_EQ(error_of([&] { s[p.C].compute_at(s[p.B], s[p.B].axis(0)); }),
            R"(cannot apply compute_at to stage 'C': that loop is itself inside this stage
  loops: i 0..8 | j 0..12)");
}

TEST(Illegal, InliningIsForStagesThatAreNeitherOutputsNorReductions) {
  Chain p;
  Schedule s({p.D});
  EXPECT_EQ(error_of([&] { s[p.C].compute_inline(); }),
            "cannot apply compute_inline to stage 'C': it is a reduction: inlining would "
            "repeat it for every reader\n"
            "  loops: i 0..8 | j 0..12 | reduce k 0..6");
  EXPECT_EQ(error_of([&] { s[p.D].compute_inline(); }),
            R"(cannot apply compute_inline to stage 'D': it is an output of the program
  loops: i 0..8 | j 0..12)");
}

TEST(Illegal, AnInlinedStageIsGone) {
  Pair p;
  Schedule s({p.C});
  Loop i = s[p.B].axis(0);
  s[p.B].compute_inline();
  EXPECT_EQ(error_of([&] { s[p.B].split(i, 2); }),
            R"(cannot apply split to stage 'B': it was inlined
  loops: i 0..8 | j 0..12)");
  EXPECT_EQ(error_of([&] { s[p.B].compute_inline(); }),
            R"(cannot apply compute_inline to stage 'B': it was inlined
  loops: i 0..8 | j 0..12)");
  EXPECT_EQ(error_of([&] { s[p.B].cache_read({s[p.C]}); }),
            R"(cannot apply cache_read to stage 'B': it was inlined
  loops: i 0..8 | j 0..12)");
}

TEST(Illegal, ACopyIsAlongAnAxisOfItsReader) {
  Chain p;
  Schedule s({p.D});
  EXPECT_EQ(
      error_of([&] { s[p.B].cache_read(s[p.C], s[p.D].axis(0)); }),
      R"(cannot apply cache_read to stage 'B': axis 'i' belongs to stage 'D', which is not the one reader
  loops: d0 0..6 | d1 0..12)");
  auto [jo, ji] = s[p.C].split(s[p.C].axis(1), 4);
  (void)ji;
  EXPECT_EQ(error_of([&] { s[p.B].cache_read(s[p.C], jo); }),
            R"(cannot apply cache_read to stage 'B': axis 'j.o' is a part of one
  loops: d0 0..6 | d1 0..12
  help: use an axis of the declaration)");
}

TEST(Illegal, AHostOfOtherStagesIsNotInlined) {
  Pair p;
  Tensor E = compute({8, 12}, [&](Axis i, Axis j) { return p.C(i, j) - 1.f; }, "E");
  Schedule s({E});
  s[p.B].compute_at(s[p.C], s[p.C].axis(0));
  EXPECT_EQ(error_of([&] { s[p.C].compute_inline(); }),
            R"(cannot apply compute_inline to stage 'C': stage 'B' is computed inside it
  loops: i 0..8 | j 0..12)");
  Schedule t({E});
  t[p.C].compute_inline();
  EXPECT_EQ(error_of([&] { t[p.B].compute_at(t[p.C], t[p.C].axis(0)); }),
            R"(cannot apply compute_at to stage 'B': stage 'C' was inlined and has no loops any more
  loops: i 0..8 | j 0..12)");
}

TEST(Illegal, CacheWriteAndRfactorComeBeforeTheReduceLoopsAreShaped) {
  Chain p;
  Schedule s({p.C});
  Loop k = s[p.C].reduce_axis(0);
  auto [ko, ki] = s[p.C].split(k, 2);
  (void)ki;
  EXPECT_EQ(
      error_of([&] { s[p.C].cache_write(); }),
      R"(cannot apply cache_write to stage 'C': reduce axis 'k' was split, fused or annotated before
  loops: i 0..8 | j 0..12 | reduce k.o 0..3 | reduce k.i 0..2
  help: cache_write comes first)");
  EXPECT_EQ(error_of([&] { s[p.C].rfactor(ko, 2, false); }),
            R"(cannot apply rfactor to stage 'C': axis 'k.o' is not one of its reduce axes
  loops: i 0..8 | j 0..12 | reduce k.o 0..3 | reduce k.i 0..2)");
  // The failed steps took nothing away.
  EXPECT_EQ(s[p.C].num_reduce_axes(), 1);
  EXPECT_EQ(s[p.C].reduce_axis(0), k);
  EXPECT_EQ(s.steps().size(), 1u);
  EXPECT_EQ(s[p.A].cache_read({s[p.C]}).id(), 3);
}

TEST(Illegal, RfactorIsForReduceAxesOfReductions) {
  Chain p;
  Schedule s({p.D});
  EXPECT_EQ(error_of([&] { s[p.C].rfactor(s[p.C].axis(0), 2, false); }),
            R"(cannot apply rfactor to stage 'C': axis 'i' is not one of its reduce axes
  loops: i 0..8 | j 0..12 | reduce k 0..6)");
  EXPECT_EQ(error_of([&] { s[p.D].rfactor(s[p.D].axis(0), 2, false); }),
            R"(cannot apply rfactor to stage 'D': it is no reduction
  loops: i 0..8 | j 0..12)");
  EXPECT_EQ(error_of([&] { s[p.C].rfactor(s[p.C].reduce_axis(0), 0, false); }),
            R"(cannot apply rfactor to stage 'C': the factor is not positive
  loops: i 0..8 | j 0..12 | reduce k 0..6)");
}

TEST(Illegal, InnerRfactorNeedsACommutativeReducer) {
  Tensor A = placeholder({4, 9}, f32, "A");
  Axis k = reduce_axis(9, "k");
  Reducer last = reducer(
      "last", {f32}, {Expr(0.f)},
      [](const std::vector<Expr>&, const std::vector<Expr>& b) { return b; }, false);
  Tensor R = compute({4}, [&](Axis i) { return last({A(i, k)}, {k})[0]; }, "R");
  Schedule s({R});
  EXPECT_EQ(error_of([&] { s[R].rfactor(s[R].reduce_axis(0), 3, true); }),
            "cannot apply rfactor to stage 'R': its reducer 'last' is not commutative, and "
            "inner partial results interleave\n"
            "  loops: i 0..4 | reduce k 0..9");
  EXPECT_EQ(error_of([&] { s[R].rfactor(s[R].reduce_axis(0), 3, false); }), "no error");
}

TEST(Illegal, RfactorOfSeveralAxesNamesEachOnceAndKeepsNoOrder) {
  Tensor A = placeholder({4, 3, 3}, f32, "A");
  Axis a = reduce_axis(3, "a"), b = reduce_axis(3, "b");
  Reducer last = reducer(
      "last", {f32}, {Expr(0.f)},
      [](const std::vector<Expr>&, const std::vector<Expr>& y) { return y; }, false);
  Tensor R = compute({4}, [&](Axis i) { return last({A(i, a, b)}, {a, b})[0]; }, "R");
  Schedule s({R});
  const Loop ka = s[R].reduce_axis(0), kb = s[R].reduce_axis(1);
  const std::string loops = "\n  loops: i 0..4 | reduce a 0..3 | reduce b 0..3";
  EXPECT_EQ(error_of([&] { s[R].rfactor({ka, ka}, 3, false); }),
            "cannot apply rfactor to stage 'R': axis 'a' is named twice" + loops);
  EXPECT_EQ(error_of([&] { s[R].rfactor(std::vector<Loop>{}, 3, false); }),
            "cannot apply rfactor to stage 'R': it names no axis" + loops);
  EXPECT_EQ(error_of([&] { s[R].rfactor({ka, kb}, 3, false); }),
            "cannot apply rfactor to stage 'R': its reducer 'last' is not commutative, and "
            "several axes taken as one change the order" +
                loops);
}

TEST(Illegal, ALayoutMustBeABijection) {
  Pair p;
  Schedule s({p.C});
  StageRef b = s[p.B];
  EXPECT_EQ(
      error_of([&] { b.layout({{0}}); }),
      R"(cannot apply layout to stage 'B': the parts of dimension 1 do not make it up exactly once
  loops: i 0..8 | j 0..12
  help: e.g. {1, 16, 0} and {1, 1, 16} for tiles of 16)");
  const std::string help = "\n  help: e.g. {1, 16, 0} and {1, 1, 16} for tiles of 16";
  using Dims = std::vector<StageRef::StorageDim>;
  for (const Dims& dims : {Dims{{0}, {1, 4}}, Dims{{0}, {1, 4}, {1, 1, 3}}, Dims{{0}, {1}, {1}},
                           Dims{{0}, {1, 1, 4}}, Dims{{0}, {1, 8}, {1, 1, 4}}}) {
    EXPECT_EQ(
        error_of([&] { b.layout(dims); }),
        "cannot apply layout to stage 'B': the parts of dimension 1 do not make it up exactly "
        "once\n  loops: i 0..8 | j 0..12" +
            help);
  }
  EXPECT_EQ(error_of([&] { b.layout({{0}, {1}, {2}}); }),
            R"(cannot apply layout to stage 'B': there is no dimension 2
  loops: i 0..8 | j 0..12)");
  EXPECT_EQ(error_of([&] { b.layout({{0}, {1, 0}}); }),
            R"(cannot apply layout to stage 'B': divisor and modulus must be positive
  loops: i 0..8 | j 0..12)");
  EXPECT_EQ(error_of([&] { s[p.C].layout({{1}, {0}}); }),
            R"(cannot apply layout to stage 'C': it is an output: its layout is the caller's
  loops: i 0..8 | j 0..12)");
  EXPECT_EQ(error_of([&] { b.layout({{1, 4}, {0}, {1, 1, 4}}); }), "no error");
}

TEST(Illegal, AStageOfAnotherProgramIsRefused) {
  Pair p, q;
  Schedule s({p.C});
  EXPECT_EQ(error_of([&] { s[q.B]; }), R"(tensor 'B' is not part of this schedule's program)");
}

TEST(Illegal, KnobsAreForTemplates) {
  Pair p;
  Schedule s({p.C});
  EXPECT_EQ(error_of([&] { s[p.C].split(s[p.C].axis(0), Param::of_knob(0)); }),
            R"(cannot apply split to stage 'C': a parameter is an unset knob
  loops: i 0..8 | j 0..12
  help: instantiate the template with a Config)");
}

}  // namespace
}  // namespace heddle::testing
