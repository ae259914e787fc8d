// Each pass alone, on small statements made by hand.
#include "lower/passes.h"

#include "lower/lower_testing.h"

namespace heddle::testing {
namespace {

const Buffer A = Buffer::make("A", f32, {64}, Scope::Argument);
const Buffer C = Buffer::make("C", f32, {64}, Scope::Argument);
const Var i("i"), j("j"), n("n");

Expr a(const Expr& at) { return make_load(A, {at}); }
Expr c(const Expr& at) { return make_load(C, {at}); }
Stmt store(const Expr& at, const Expr& value) { return make_store(C, {at}, value); }
Stmt loop(const Var& v, const Expr& extent, const Stmt& body, LoopKind kind = LoopKind::Serial) {
  return make_for(v, extent, kind, body);
}

TEST(LoopPartition, AConditionOnTheLoopBecomesTwoLoops) {
  Stmt s = loop(i, 10, make_if(i < 7, store(i, a(i)), store(i, 0.f)));
  EXPECT_EQ(to_string(lowering::loop_partition(s)), R"(for i in 0..7 {
  C[i] = A[i]
}
for i in 0..3 {
  C[i + 7] = 0.0f
}
)");
}

TEST(LoopPartition, AFallingConditionIsCutToo) {
  Stmt s = loop(i, 10, make_if(Expr(3) <= i, store(i, a(i))));
  EXPECT_EQ(to_string(lowering::loop_partition(s)), R"(for i in 0..7 {
  C[i + 3] = A[i + 3]
}
)");
}

TEST(LoopPartition, ASelectThatGuardsALoadIsCutAndOneThatDoesNotIsLeft) {
  Stmt s = loop(i, 10, store(i, make_select(i < 4, a(i), 0.f)));
  EXPECT_EQ(to_string(lowering::loop_partition(s)), R"(for i in 0..4 {
  C[i] = A[i]
}
for i in 0..6 {
  C[i + 4] = 0.0f
}
)");
  Stmt t = loop(i, 10, store(i, make_select(i < 4, 1.f, 0.f)));
  EXPECT_EQ(to_string(lowering::loop_partition(t)), to_string(t));
}

TEST(LoopPartition, AVectorIsCutWhereItsClampIsDecidedAndAScalarIsNot) {
  const Expr at = max(i * 4 + j - 2, Expr(0));
  Stmt s = loop(i, 5, loop(j, 4, store(i * 4 + j, a(at)), LoopKind::Vectorized));
  EXPECT_EQ(to_string(lowering::loop_partition(s)), R"(vectorized for j in 0..4 {
  C[j] = A[max(j - 2, 0)]
}
for i in 0..4 {
  vectorized for j in 0..4 {
    C[j + i*4 + 4] = A[j + i*4 + 2]
  }
}
)");
  Stmt t = loop(i, 5, loop(j, 4, store(i * 4 + j, a(at))));
  EXPECT_EQ(to_string(lowering::loop_partition(t)), to_string(t));
}

TEST(LoopPartition, ACutThatDependsOnAnInnerLoopIsMadeThereInTheMiddlePart) {
  Stmt s = loop(i, 10, loop(j, 3, store(i * 3 + j, make_select(i + j < 9, a(i + j), 0.f))));
  EXPECT_EQ(to_string(lowering::loop_partition(s)), R"(for i in 0..7 {
  for j in 0..3 {
    C[j + i*3] = A[j + i]
  }
}
for i in 0..2 {
  for j in 0..(2 - i) {
    C[i*3 + j + 21] = A[i + j + 7]
  }
  for j in 0..(i + 1) {
    C[i*2 + j + 23] = 0.0f
  }
}
for j in 0..3 {
  C[j + 27] = 0.0f
}
)");
}

TEST(LoopPartition, ACutThatDependsOnAnOuterLoopIsSymbolic) {
  Stmt s = loop(j, 3, loop(i, 10, make_if(i < j * 4, store(i, a(i)), store(i, 0.f))));
  EXPECT_EQ(to_string(lowering::loop_partition(s)), R"(for i in 0..10 {
  C[i] = 0.0f
}
for j in 0..2 {
  for i in 0..(j*4 + 4) {
    C[i] = A[i]
  }
  for i in 0..(6 - j*4) {
    C[j*4 + i + 4] = 0.0f
  }
}
)");
}

// Nine vectors in five blocks of two: the last block has one.
TEST(LoopPartition, AParallelLoopBranchesWhereAnUnrolledLoopWouldVaryInLength) {
  const auto nest = [&](LoopKind inner) {
    return loop(i, 5, loop(j, min(9 - i * 2, Expr(2)), store(i * 2 + j, 0.f), inner),
                LoopKind::Parallel);
  };
  EXPECT_EQ(to_string(lowering::loop_partition(nest(LoopKind::Unrolled))),
            R"(parallel for i in 0..5 {
  if i < 4 {
    unrolled for j in 0..2 {
      C[i*2 + j] = 0.0f
    }
  } else {
    C[8] = 0.0f
  }
}
)");
  const Stmt serial = nest(LoopKind::Serial);
  EXPECT_EQ(to_string(lowering::loop_partition(serial)), to_string(serial))
      << "no copies need its length";
}

// Row i / 5 has nine vectors in five blocks i % 5 of two. Of all rows together, the last block
// lacks one more where 19 - 2i is 1, which only i = 9 has.
TEST(LoopPartition, WhatIsKnownOfThePartsOfAFusedLoopIsKnownOfTheLoop) {
  const Stmt tile = make_block(
      {loop(j, min(9 - floormod(i, 5) * 2, Expr(2)), store(i * 2 + j, 0.f), LoopKind::Unrolled),
       loop(j, min(19 - i * 2, Expr(2)), store(floordiv(i, 5) + j, 1.f), LoopKind::Unrolled)});
  EXPECT_EQ(to_string(lowering::loop_partition(loop(i, 10, tile, LoopKind::Parallel))),
            R"(parallel for i in 0..10 {
  if floormod(i, 5) < 4 {
    unrolled for j in 0..2 {
      C[i*2 + j] = 0.0f
    }
    unrolled for j in 0..2 {
      C[j + floordiv(i, 5)] = 1.0f
    }
  } else if i < 9 {
    C[i*2] = 0.0f
    unrolled for j in 0..2 {
      C[j + floordiv(i, 5)] = 1.0f
    }
  } else {
    C[18] = 0.0f
    C[1] = 1.0f
  }
}
)");
}

TEST(LoopPartition, ParallelLoopsAndConditionsOfOthersAreLeftAlone) {
  Stmt s = loop(i, 10, make_if(i < 7, store(i, a(i))), LoopKind::Parallel);
  EXPECT_EQ(to_string(lowering::loop_partition(s)), to_string(s));
  Stmt t = loop(i, 10, make_if(n < 7, store(i, a(i))));
  EXPECT_EQ(to_string(lowering::loop_partition(t)), to_string(t));
}

// Row i / 4 and tile i % 4 of 16 elements, of which the first 2 and all from 13 are padding.
TEST(LoopPartition, PartsOfFusedLoopsBecomeBranches) {
  const Expr at = floormod(i, 4) * 4 + j;
  const auto nest = [&](LoopKind inner) {
    return loop(i, 12,
                loop(j, 4,
                     store(floordiv(i, 4) * 16 + at,
                           make_select(Expr(2) <= at && at < 13, a(floordiv(i, 4) * 16 + at), 0.f)),
                     inner),
                LoopKind::Parallel);
  };
  EXPECT_EQ(to_string(lowering::loop_partition(nest(LoopKind::Unrolled))),
            R"(parallel for i in 0..12 {
  if floormod(i, 4) < 1 {
    unrolled for j in 0..4 {
      C[j + floordiv(i, 4)*16] = select(2 <= j, A[j + floordiv(i, 4)*16], 0.0f)
    }
  } else if floormod(i, 4) < 3 {
    unrolled for j in 0..4 {
      C[j + floordiv(i, 4)*16 + floormod(i, 4)*4] = A[j + floordiv(i, 4)*16 + floormod(i, 4)*4]
    }
  } else {
    unrolled for j in 0..4 {
      C[j + floordiv(i, 4)*16 + 12] = select(j < 1, A[floordiv(i, 4)*16 + 12], 0.0f)
    }
  }
}
)");
  // A serial loop is cut itself.
  const std::string serial = to_string(lowering::loop_partition(nest(LoopKind::Serial)));
  EXPECT_EQ(serial.find("if "), std::string::npos) << serial;
  EXPECT_EQ(serial.find("select"), std::string::npos) << serial;
}

TEST(Vectorize, LoadsAndStoresGetRamps) {
  Stmt s = loop(i, 8, store(i, a(i * 2) * 3.f + a(j)), LoopKind::Vectorized);
  EXPECT_EQ(to_string(lowering::vectorize(s)),
            "C[ramp(0, 1, 8)] = A[ramp(0, 1, 8)*x8(2)]*x8(3.0f) + x8(A[j])\n");
}

TEST(Vectorize, LetsAndInnerLoopsAreWidened) {
  Var v("v", f32);
  Stmt s = loop(i, 4, make_let(v, a(i) + 1.f, loop(j, 3, store(i * 3 + j, Expr(v) * 2.f))),
                LoopKind::Vectorized);
  EXPECT_EQ(to_string(lowering::vectorize(s)), R"(let v = A[ramp(0, 1, 4)] + x4(1.0f)
for j in 0..3 {
  C[ramp(j, 3, 4)] = v*x4(2.0f)
}
)");
}

TEST(Vectorize, WhatCannotBeWidenedBecomesASerialLoop) {
  auto is_serial = [](const Stmt& s) {
    const Stmt done = lowering::vectorize(s);
    const For* f = done.as<For>();
    return f && f->loop == LoopKind::Serial;
  };
  EXPECT_TRUE(is_serial(loop(i, n, store(i, 1.f), LoopKind::Vectorized))) << "extent unknown";
  EXPECT_TRUE(is_serial(loop(i, 257, store(i, 1.f), LoopKind::Vectorized))) << "too many lanes";
  EXPECT_TRUE(is_serial(loop(i, 8, make_if(i < 3, store(i, 1.f)), LoopKind::Vectorized)))
      << "a branch that differs by lane";
  EXPECT_TRUE(is_serial(loop(i, 8, store(0, a(i)), LoopKind::Vectorized)))
      << "lanes that disagree about one element";
  EXPECT_TRUE(is_serial(loop(i, 8, store(0, c(0) + 1.f), LoopKind::Vectorized)))
      << "each lane adds to what the one before left";
  EXPECT_TRUE(is_serial(loop(i, 8, loop(j, i, store(j, 1.f)), LoopKind::Vectorized)))
      << "inner extent differs by lane";
  Buffer t = Buffer::make("t", f32, {1}, Scope::Local);
  EXPECT_TRUE(is_serial(loop(
      i, 8, make_allocate(t, make_block({make_store(t, {0}, a(i)), store(i, make_load(t, {0}))})),
      LoopKind::Vectorized)))
      << "a temporary for each lane";
}

TEST(Vectorize, ATailIsMaskedInAsFewRegistersAsHoldIt) {
  const Expr rest = floormod(Expr(n), Expr(16));
  Stmt s = loop(i, rest, store(j + i, a(i) * 3.f), LoopKind::Vectorized);
  EXPECT_EQ(to_string(lowering::vectorize(s, 32)), R"(if 9 <= floormod(n, 16) {
  if ramp(0, 1, 16) < x16(floormod(n, 16)) {
    C[ramp(j, 1, 16)] = A[ramp(0, 1, 16)]*x16(3.0f)
  }
} else if 1 <= floormod(n, 16) {
  if ramp(0, 1, 8) < x8(floormod(n, 16)) {
    C[ramp(j, 1, 8)] = A[ramp(0, 1, 8)]*x8(3.0f)
  }
}
)");
}

// What is stored behind a mask reaches later loads late. A row that nothing follows needs none.
TEST(Vectorize, ATailOfATemporaryRowIsStoredWhole) {
  const Dim size = dim("size", 1, 60);
  const Expr rest = floormod(Expr(size), Expr(8));
  const auto tail_of = [&](const Buffer& row, const Expr& length) {
    const Stmt body = loop(i, length, make_store(row, {j + i}, a(i)), LoopKind::Vectorized);
    return to_string(lowering::vectorize(make_allocate(row, body), 32));
  };
  const Buffer row = Buffer::make("row", f32, {1, 64}, Scope::Local);
  EXPECT_EQ(tail_of(row, rest), R"(local row: f32[1, 64]
if 1 <= floormod(size, 8) {
  let tail = select(ramp(0, 1, 8) < x8(floormod(size, 8)), A[ramp(0, 1, 8)], x8(0.0f))
  if j < 57 {
    row[ramp(j, 1, 8)] = tail
  } else if ramp(0, 1, 8) < x8(floormod(size, 8)) {
    row[ramp(j, 1, 8)] = tail
  }
}
)");
  const Buffer rows = Buffer::make("rows", f32, {2, 64}, Scope::Local);
  EXPECT_EQ(tail_of(rows, rest).find("tail"), std::string::npos) << "another row may follow";
  EXPECT_EQ(tail_of(row, floormod(n.expr(), Expr(8))).find("tail"), std::string::npos)
      << "a loop around may come back to what follows";
}

TEST(Vectorize, ATailIsCutIntoPowersOfTwoWhereStoresHaveNoMasks) {
  const Expr rest = floormod(Expr(n), Expr(4));
  Stmt s = loop(i, rest, store(i, a(i)), LoopKind::Vectorized);
  EXPECT_EQ(to_string(lowering::vectorize(s, 0)), R"(if 2 <= floormod(n, 4) {
  C[ramp(0, 1, 2)] = A[ramp(0, 1, 2)]
}
if floormod(floordiv(n, 2), 2)*2 < floormod(n, 4) {
  C[floormod(floordiv(n, 2), 2)*2] = A[floormod(floordiv(n, 2), 2)*2]
}
)");
  // Lanes that are left out would divide by zero.
  const Buffer d = Buffer::make("d", i64, {64}, Scope::Argument);
  Stmt divides =
      loop(i, rest, make_store(d, {i}, make_binary(BinaryOp::FloorDiv, Expr(7), make_load(d, {i}))),
           LoopKind::Vectorized);
  EXPECT_EQ(to_string(lowering::vectorize(divides, 32)),
            to_string(lowering::vectorize(divides, 0)));
  EXPECT_EQ(lowering::vectorize(s).as<For>()->loop, LoopKind::Serial) << "tails are not asked for";
}

TEST(Vectorize, OneElementThatAllLanesAgreeOnIsStoredOnce) {
  Stmt s = loop(i, 8, make_block({store(0, a(j)), store(i, a(i))}), LoopKind::Vectorized);
  EXPECT_EQ(to_string(lowering::vectorize(s)), R"(C[0] = A[j]
C[ramp(0, 1, 8)] = A[ramp(0, 1, 8)]
)");
}

TEST(Unroll, CopiesTheBodyOrMakesASerialLoop) {
  Stmt s = loop(i, 3, store(i, a(i)), LoopKind::Unrolled);
  EXPECT_EQ(to_string(lowering::unroll(s, 3)), R"(C[0] = A[0]
C[1] = A[1]
C[2] = A[2]
)");
  EXPECT_EQ(to_string(lowering::unroll(s, 2)), R"(for i in 0..3 {
  C[i] = A[i]
}
)");
  EXPECT_EQ(to_string(lowering::unroll(loop(i, n, store(i, a(i)), LoopKind::Unrolled), 100)),
            "for i in 0..n {\n"
            "  C[i] = A[i]\n"
            "}\n");
}

TEST(Unroll, InnerLoopsCountAsWhatTheyBecame) {
  Stmt inner = loop(j, 2, store(i * 2 + j, 1.f), LoopKind::Unrolled);
  Stmt s = loop(i, 2, inner, LoopKind::Unrolled);
  EXPECT_EQ(to_string(lowering::unroll(s, 4)), R"(C[0] = 1.0f
C[1] = 1.0f
C[2] = 1.0f
C[3] = 1.0f
)");
  EXPECT_EQ(to_string(lowering::unroll(s, 3)), R"(for i in 0..2 {
  C[i*2] = 1.0f
  C[i*2 + 1] = 1.0f
}
)");
}

TEST(MergeUpdates, AChainOfUpdatesOfOnePlaceIsOneStore) {
  Stmt s = make_block({store(i, c(i) + a(0)), store(i, c(i) + a(1)), store(i, c(i) + a(2))});
  EXPECT_EQ(to_string(lowering::merge_updates(s)), R"(C[i] = C[i] + A[0] + A[1] + A[2]
)");
}

TEST(MergeUpdates, WhatReadsTheBufferElsewhereTwiceOrUnderASelectIsLeft) {
  for (const Stmt& second : {store(i, c(i) + c(i + 1)), store(i, c(i) * c(i)), store(i + 1, c(i)),
                             store(i, a(i)), store(i, make_select(n < 3, c(i), 0.f))}) {
    Stmt s = make_block({store(i, c(i) + a(0)), second});
    EXPECT_EQ(to_string(lowering::merge_updates(s)), to_string(s));
  }
}

// Lines of 64 bytes have 16 of these elements.
TEST(ThinPrefetches, ALineIsFetchedOnce) {
  const auto fetch = [](const Expr& at) { return make_prefetch(A, {simplify(at)}); };
  Stmt s = make_block({fetch(i * 8), fetch(i * 8 + 4),
                       make_block({store(i, a(i)), fetch(i * 8 + 15)}), fetch(i * 8 + 16),
                       fetch(j * 8), fetch(3), fetch(18), fetch(19), make_prefetch(C, {i * 8})});
  EXPECT_EQ(to_string(lowering::thin_prefetches(s, 64)), R"(prefetch A[i*8]
C[i] = A[i]
prefetch A[i*8 + 16]
prefetch A[j*8]
prefetch A[3]
prefetch A[19]
prefetch C[i*8]
)");
}

TEST(ThinPrefetches, WhatMayRunOftenOrNotAtAllFetchesForItself) {
  const Stmt fetch = make_prefetch(A, {i});
  Stmt s = make_block({fetch, loop(j, 4, make_block({fetch, store(j, 0.f), fetch})),
                       make_if(n < 3, fetch, fetch), fetch});
  EXPECT_EQ(to_string(lowering::thin_prefetches(s, 64)), R"(prefetch A[i]
for j in 0..4 {
  prefetch A[i]
  C[j] = 0.0f
}
if n < 3 {
  prefetch A[i]
} else {
  prefetch A[i]
}
)");
}

TEST(Flatten, EveryAccessGetsOneIndex) {
  Buffer T = Buffer::make("T", f32, {4, 5, 6}, Scope::Argument);
  Stmt s =
      make_block({make_store(T, {i, j, 3}, make_load(T, {0, i, j})), make_prefetch(T, {i, 0, 0})});
  EXPECT_EQ(to_string(simplify(lowering::flatten(s))), R"(T[i*30 + j*6 + 3] = T[i*6 + j]
prefetch T[i*30]
)");
  Buffer scalar = Buffer::make("S", f32, {}, Scope::Argument);
  EXPECT_EQ(to_string(lowering::flatten(make_store(scalar, {}, 1.f))), R"(S[0] = 1.0f
)");
}

TEST(Passes, NothingStaysNothing) {
  EXPECT_FALSE(lowering::loop_partition({}));
  EXPECT_FALSE(lowering::vectorize({}));
  EXPECT_FALSE(lowering::unroll({}, 8));
  EXPECT_FALSE(lowering::merge_updates({}));
  EXPECT_FALSE(lowering::thin_prefetches({}, 64));
  EXPECT_FALSE(lowering::flatten({}));
}

}  // namespace
}  // namespace heddle::testing
