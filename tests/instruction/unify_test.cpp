// Which loops are an instruction, and why others are none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/instruction/tiles.h"
#include "instruction/unify.h"

namespace heddle::instructions {
namespace {

using ::testing::HasSubstr;

// C[i, j] += f32(A[i, k]) * f32(B[k, j]), in some order of loops.
struct Nest {
  Buffer c, a, b;
  Var i{"i"}, j{"j"}, k{"k"};
  std::vector<NestLoop> loops;
  Stmt store;

  explicit Nest(DataType t, int64_t m, int64_t n, int64_t depth)
      : c(Buffer::make("C", f32, {Expr(m), Expr(n)}, Scope::Local)),
        a(Buffer::make("A", t, {Expr(m), Expr(depth)}, Scope::Local)),
        b(Buffer::make("B", t, {Expr(depth), Expr(n)}, Scope::Local)),
        loops{{i, m}, {j, n}, {k, depth}} {
    const Expr x = cast(f32, make_load(a, {i.expr(), k.expr()})),
               y = cast(f32, make_load(b, {k.expr(), j.expr()}));
    store = make_store(c, {i.expr(), j.expr()}, make_load(c, {i.expr(), j.expr()}) + x * y);
  }
  std::vector<Unified> as(const MachineInstruction& instruction, std::string* why) const {
    return unify(instruction, loops, *store.as<Store>(), why);
  }
};

TEST(Unify, FindsLoopsAndOperandsInAnyOrder) {
  Nest nest(bf16, 16, 8, 16);
  std::swap(nest.loops[0], nest.loops[2]);
  // f32(B) * f32(A) + C in place of C + f32(A) * f32(B).
  const Expr c = make_load(nest.c, {nest.i.expr(), nest.j.expr()}),
             x = cast(f32, make_load(nest.a, {nest.i.expr(), nest.k.expr()})),
             y = cast(f32, make_load(nest.b, {nest.k.expr(), nest.j.expr()}));
  nest.store = make_store(nest.c, {nest.i.expr(), nest.j.expr()}, y * x + c);
  std::string why;
  const std::vector<Unified> found = nest.as(mma_instruction(), &why);
  ASSERT_EQ(found.size(), 1u) << why;
  EXPECT_EQ(found[0].operands[1].buffer, nest.a);
  EXPECT_EQ(found[0].operands[2].buffer, nest.b);
  EXPECT_EQ(found[0].loops[0].var.get(), nest.i.get());
  EXPECT_EQ(found[0].loops[2].var.get(), nest.k.get());
  EXPECT_EQ(found[0].form->types, (std::vector<DataType>{f32, bf16, bf16}));
}

// 16 x 16 is symmetric: rows may be columns, with the operands exchanged.
TEST(Unify, FindsBothWaysRound) {
  std::string why;
  EXPECT_EQ(Nest(f16, 16, 16, 16).as(wgmma_instruction(), &why).size(), 2u);
  EXPECT_EQ(Nest(f16, 16, 24, 16).as(wgmma_instruction(), &why).size(), 1u);
}

// A tile of one row has no loop over rows. Columns may be its rows instead.
TEST(Unify, ALoopOfOneIterationMayBeMissing) {
  std::string why;
  Nest nest(bf16, 8, 16, 32);
  nest.loops.erase(nest.loops.begin());
  const std::vector<Unified> found = nest.as(amx_instruction(), &why);
  ASSERT_EQ(found.size(), 2u) << why;
  for (const Unified& u : found) {
    const bool turned = u.operands[1].buffer == nest.b;
    ASSERT_EQ(u.loops.size(), 3u);
    EXPECT_EQ(u.loops[turned ? 1 : 0].extent, 1);
    EXPECT_EQ(u.loops[turned ? 0 : 1].var.get(), nest.j.get());
    EXPECT_EQ(u.loops[2].var.get(), nest.k.get());
  }
}

TEST(Unify, SaysWhyNot) {
  std::string why;
  EXPECT_TRUE(Nest(f16, 16, 8, 8).as(mma_instruction(), &why).empty());
  EXPECT_THAT(why, HasSubstr("loop 'k', which is its 'k', has 8 iterations, and not 16"));
  EXPECT_TRUE(Nest(f64, 16, 8, 16).as(mma_instruction(), &why).empty());
  EXPECT_THAT(why, HasSubstr("it computes\n  C[i, j] = "));
  EXPECT_THAT(why, HasSubstr("of types that there are,\n  d[m, n] = "));
  Nest two(f16, 16, 8, 16);
  two.loops.pop_back();
  EXPECT_TRUE(two.as(mma_instruction(), &why).empty());
  EXPECT_THAT(why, HasSubstr("2 loops, and not 3"));
  Nest shared(f16, 16, 8, 16);
  const Expr c = make_load(shared.c, {shared.i.expr(), shared.j.expr()}),
             x = cast(f32, make_load(shared.a, {shared.i.expr(), shared.k.expr()}));
  shared.store = make_store(shared.c, {shared.i.expr(), shared.j.expr()}, c + x * x);
  EXPECT_TRUE(shared.as(mma_instruction(), &why).empty());
  EXPECT_THAT(why, HasSubstr("no loop is used by the operands that use 'm'"));
}

// The storage of sums, with or without a mistake in the digit of columns.
struct Sums {
  Buffer c =
      Buffer::make("C", f32, {Expr(2), Expr(4), Expr(8), Expr(4), Expr(2), Expr(2)}, Scope::Local);
  Var m{"m"}, n{"n"}, o{"o"};
  std::vector<NestLoop> loops{{m, 16}, {n, 32}};
  Place place(const Expr& col_digit) const {
    return {c,
            {o.expr(), floordiv(n.expr(), Expr(8)), floormod(m.expr(), Expr(8)), col_digit,
             floordiv(m.expr(), Expr(8)), floormod(n.expr(), Expr(2))}};
  }
};

TEST(Layouts, AreCheckedForAllValuesOfTheLoops) {
  const Sums s;
  std::string why;
  const Expr digit = floormod(floordiv(s.n.expr(), Expr(2)), Expr(4));
  EXPECT_TRUE(has_layout(s.place(digit), s.loops, mma::accumulator(0, 1), &why)) << why;
  // Another form of the same digit, and one that differs in the last column alone.
  const Expr same = floordiv(floormod(s.n.expr(), Expr(8)), Expr(2));
  EXPECT_TRUE(has_layout(s.place(same), s.loops, mma::accumulator(0, 1), &why)) << why;
  const Expr last = make_select(s.n.expr() < Expr(31), digit, Expr(2));
  EXPECT_FALSE(has_layout(s.place(last), s.loops, mma::accumulator(0, 1), &why));
  EXPECT_THAT(why, HasSubstr("dimension 3 of 'C' is select("));
  EXPECT_THAT(why, HasSubstr("its layout has (n/2)%4 there"));
  EXPECT_FALSE(has_layout(s.place(digit + s.m.expr()), s.loops, mma::accumulator(0, 1), &why));
}

TEST(Layouts, BoxesAreRowsOfLines) {
  const Buffer tile = Buffer::make("T", f16, {Expr(128), Expr(64)}, Scope::Shared);
  const Var line("line"), k("k"), step("step");
  const std::vector<NestLoop> loops{{line, 128}, {k, 16}};
  const Expr depth = step.expr() * Expr(16) + k.expr();
  std::string why;
  EXPECT_TRUE(
      lies_as({tile, {line.expr(), depth}}, loops, tma::along_depth(0, 1, 64), {256, 64}, &why))
      << why;
  EXPECT_FALSE(
      lies_as({tile, {line.expr(), depth}}, loops, tma::across_depth(0, 1, 64), {256, 64}, &why));
  EXPECT_THAT(why, HasSubstr("'T' is read at "));
  const Buffer across = Buffer::make("X", f16, {Expr(2), Expr(64), Expr(64)}, Scope::Shared);
  EXPECT_TRUE(
      lies_as({across, {floordiv(line.expr(), Expr(64)), depth, floormod(line.expr(), Expr(64))}},
              loops, tma::across_depth(0, 1, 64), {256, 64}, &why))
      << why;
}

}  // namespace
}  // namespace heddle::instructions
