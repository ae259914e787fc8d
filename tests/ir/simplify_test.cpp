#include "heddle/ir/simplify.h"

#include <gtest/gtest.h>

#include "heddle/ir/print.h"

namespace heddle {
namespace {

// io, jo: outer loops; ii, ji: inner ones of 16; x: a small range; y, n: anything.
struct SimplifyTest : testing::Test {
  SimplifyTest() {
    ranges.set(io, {0, 6});
    ranges.set(jo, {0, 1});
    ranges.set(ii, {0, 15});
    ranges.set(ji, {0, 15});
    ranges.set(k, {0, 3});
    ranges.set(x, {0, 100});
  }
  Var io{"io"}, jo{"jo"}, ii{"ii"}, ji{"ji"}, k{"k"}, x{"x"}, y{"y"}, n{"n"};
  Expr p = Var("p", boolean), q = Var("q", boolean);
  Var f{"f", f32}, u{"u", u8}, s{"s", i32};
  Ranges ranges;

  std::string simple(const Expr& e) {
    const Expr once = simplify(e, ranges);
    EXPECT_TRUE(equal(once, simplify(once, ranges))) << e << " is not idempotent";
    EXPECT_EQ(once.dtype(), e.dtype()) << e;
    return to_string(once);
  }
};

#define EXPECT_SIMPLE(in, out) EXPECT_EQ(simple(in), out) << #in

TEST_F(SimplifyTest, Sums) {
  EXPECT_SIMPLE((io * 6 + 6) * 2 - io * 12, "12");
  EXPECT_SIMPLE(io * 16 + ii - (ii + io * 16), "0");
  EXPECT_SIMPLE(3 + x + 4 - x * 2, "7 - x");
  EXPECT_SIMPLE(-(x - y), "y - x");
  EXPECT_SIMPLE(y * 3 + x * 2 + y, "x*2 + y*4");
  EXPECT_SIMPLE((x + 1) * (y + 2) - x * y, "x*2 + y + 2");
  EXPECT_SIMPLE(n * io + n - n * (io + 1), "0");
  EXPECT_SIMPLE(y * n - n * y, "0");
  EXPECT_SIMPLE(make_binary(BinaryOp::Shl, x, 3) - x * 8, "0");
}

TEST_F(SimplifyTest, FloorDivisionByConstants) {
  EXPECT_SIMPLE(floordiv(io * 16 + ji, 16), "io");
  EXPECT_SIMPLE(floormod(io * 16 + ji, 16), "ji");
  EXPECT_SIMPLE(floordiv(io * 32 + jo * 16 + ji, 16), "io*2 + jo");
  EXPECT_SIMPLE(floordiv(io * 32 + jo * 16 + ji, 32), "io");
  EXPECT_SIMPLE(floormod(io * 32 + jo * 16 + ji, 32), "jo*16 + ji");
  EXPECT_SIMPLE(floordiv(io * 32 + y * 8, 16), "io*2 + floordiv(y, 2)");
  EXPECT_SIMPLE(floormod(io * 32 + y * 8, 16), "floormod(y, 2)*8");
  EXPECT_SIMPLE(floordiv(y * 4 + k, 16), "floordiv(y, 4)");
  EXPECT_SIMPLE(floormod(y * 4 + k, 16), "k + floormod(y, 4)*4");
  EXPECT_SIMPLE(floordiv(floordiv(y, 3), 5), "floordiv(y, 15)");
  EXPECT_SIMPLE(floordiv(floordiv(y, 3) + 2, 5), "floordiv(y + 6, 15)");
  EXPECT_SIMPLE(floordiv(y + 16, 16), "floordiv(y, 16) + 1");
  EXPECT_SIMPLE(floordiv(ji, 16), "0");
  EXPECT_SIMPLE(floordiv(ji - 16, 16), "-1");
  EXPECT_SIMPLE(floormod(floormod(y, 32), 8), "floormod(y, 8)");
  EXPECT_SIMPLE(floordiv(floormod(y, 32), 8), "floormod(floordiv(y, 8), 4)");
  EXPECT_SIMPLE(floordiv(y, -4), "floordiv(y, -4)");  // -y of the lowest number is no other
  EXPECT_SIMPLE(floordiv(x * y, y), "floordiv(x*y, y)");
  ranges.set(y, {1, Interval::kPosInf});
  EXPECT_SIMPLE(floordiv(x * y, y), "x");
  EXPECT_SIMPLE(floordiv(y, -4), "floordiv(-y, 4)");
}

TEST_F(SimplifyTest, QuotientAndRemainderRecombine) {
  EXPECT_SIMPLE(floordiv(y, 7) * 7 + floormod(y, 7), "y");
  EXPECT_SIMPLE((floordiv(y, 7) * 7 + floormod(y, 7)) * 3 + 1, "y*3 + 1");
  EXPECT_SIMPLE(y - floordiv(y, 4) * 4, "floormod(y, 4)");
  // fuse then split, three deep
  const Expr a = floordiv(y, 32), b = floormod(floordiv(y, 4), 8), c = floormod(y, 4);
  EXPECT_SIMPLE(a * 32 + b * 4 + c, "y");
  EXPECT_SIMPLE((a * 8 + b) * 4 + c, "y");
  EXPECT_SIMPLE(b * 4 + c, "floormod(y, 32)");
}

// The rows of a product are the pixels of images, in tiles whose numbers are digits of a block's number. What
// was taken apart joins again, whatever the height and width.
// A piece of a row of taps: the digits of the taps are those of the piece modulo their number.
TEST_F(SimplifyTest, DigitsOfWhatIsTakenModuloAMultipleRecombine) {
  const Expr e = floormod(y, 288) * 16 + 5;
  EXPECT_SIMPLE(floordiv(e, 9) * 9 + floormod(floordiv(e, 3), 3) * 3 + floormod(e, 3),
                "floormod(y, 288)*16 + 5");
  EXPECT_SIMPLE(floordiv(e, 9) * 9 + floormod(e, 9), "floormod(y, 288)*16 + 5");
}

TEST_F(SimplifyTest, PixelsOfATileRecombine) {
  const Var block("block"), warp("warp"), half("half"), lane("lane");
  for (const auto& [v, extent] : {std::pair{block, 48}, {warp, 4}, {half, 2}, {lane, 32}})
    ranges.set(v, {0, extent - 1});
  const Expr tile = floordiv(block, 16) * 4 + floormod(block, 4);
  const Expr row = ((tile * 4 + warp) * 2 + half) * 8 + floordiv(lane, 4);
  const Expr plain = simplify(row, ranges);
  for (const int height : {1, 3, 5, 6, 7, 10, 14, 20, 33}) {
    for (const int width : {1, 3, 5, 6, 7, 12, 14, 24, 28}) {
      const Expr image = simplify(floordiv(floordiv(row, width), height), ranges);
      const Expr y = simplify(floormod(floordiv(row, width), height), ranges);
      const Expr x = simplify(floormod(row, width), ranges);
      const Expr joined = (image * height + y) * width + x;
      EXPECT_TRUE(equal(simplify(joined, ranges), plain))
          << height << "x" << width << ": " << simplify(joined, ranges);
      EXPECT_TRUE(equal(simplify(floormod(joined, 8), ranges), floordiv(lane, 4)))
          << height << "x" << width;
    }
  }
}

TEST_F(SimplifyTest, QuotientAndRemainderByASizeRecombine) {
  const Var rows("rows", SizeRange{1, 64});
  const Expr length = rows * 8;
  EXPECT_SIMPLE(floordiv(x, rows) * rows + floormod(x, rows), "x");
  EXPECT_SIMPLE(floordiv(x + 1, length) * length * 3 + floormod(x + 1, length) * 3 + y,
                "x*3 + y + 3");
  // A divisor that may be zero stays.
  EXPECT_NE(simple(floordiv(x, n) * n + floormod(x, n)), "x");
}

TEST_F(SimplifyTest, TruncatingDivisionOfWhatIsNotNegative) {
  EXPECT_SIMPLE((io * 16 + ji) / 16, "io");
  EXPECT_SIMPLE((io * 16 + ji) % 16, "ji");
  EXPECT_SIMPLE(x / 8, "floordiv(x, 8)");
  EXPECT_SIMPLE(y / 8, "y/8");
  EXPECT_SIMPLE(y * 8 / 8, "y");
  EXPECT_SIMPLE(y % 8, "y % 8");
}

TEST_F(SimplifyTest, MinAndMax) {
  EXPECT_SIMPLE(min(io * 4 + 3, io * 4 + 7), "io*4 + 3");
  EXPECT_SIMPLE(min(y + io * 4 + 3, n + io * 4 + 7), "io*4 + min(y + 3, n + 7)");
  EXPECT_SIMPLE(min(min(y, 5), 3), "min(y, 3)");
  EXPECT_SIMPLE(min(5, min(y, min(n, 7))), "min(min(y, n), 5)");
  EXPECT_SIMPLE(max(min(y, 10), 0), "max(min(y, 10), 0)");
  EXPECT_SIMPLE(min(ji, 15), "ji");
  EXPECT_SIMPLE(max(x, -1), "x");
  EXPECT_SIMPLE(min(x, max(x, y)), "x");
  EXPECT_SIMPLE(min(max(y, x), max(n, x)), "max(x, min(y, n))");
  EXPECT_SIMPLE(min(Expr(16), 112 - io * 16), "16");
  EXPECT_SIMPLE(min(io * 16 + 16, 100) - io * 16, "min(100 - io*16, 16)");
  EXPECT_SIMPLE(io * 16 + min(Expr(16), 100 - io * 16), "min(io*16 + 16, 100)");
  EXPECT_SIMPLE(floordiv(min(Expr(16), 100 - io * 16) + 7, 8), "min(13 - io*2, 2)");
  EXPECT_SIMPLE(y - min(y, 4), "max(y - 4, 0)");
  EXPECT_SIMPLE(make_unary(UnaryOp::Abs, x), "x");
}

TEST_F(SimplifyTest, Comparisons) {
  EXPECT_SIMPLE(io * 16 + ji < 112, "true");
  EXPECT_SIMPLE(io * 16 + ji < 100, "io*16 + ji < 100");
  EXPECT_SIMPLE(io * 16 + ji < 96, "io < 6");
  EXPECT_SIMPLE(io * 16 + ji >= 0, "true");
  EXPECT_SIMPLE(y * 2 < 7, "y < 4");
  EXPECT_SIMPLE(y <= 7, "y < 8");
  EXPECT_SIMPLE(y >= 7, "7 <= y");
  EXPECT_SIMPLE(y + 3 <= n + 3, "y <= n");
  EXPECT_SIMPLE(!(y < n), "n <= y");
  EXPECT_SIMPLE(floordiv(y, 4) < 3, "y < 12");
  EXPECT_SIMPLE(floordiv(y, 4) >= 3, "12 <= y");
  EXPECT_SIMPLE(y * 2 == 7, "false");
  EXPECT_SIMPLE(y * 2 != n * 4, "y != n*2");
  EXPECT_SIMPLE(io * 16 + ji == 300, "false");
  EXPECT_SIMPLE(min(y, n) < 3, "y < 3 || n < 3");
  EXPECT_SIMPLE(max(y, n) < 3, "y < 3 && n < 3");
}

TEST_F(SimplifyTest, Conditions) {
  EXPECT_SIMPLE(y >= 3 && y < 10 && y < 5, "3 <= y && y < 5");
  EXPECT_SIMPLE(y < 3 && y >= 3, "false");
  EXPECT_SIMPLE(y < 3 || y >= 3, "true");
  EXPECT_SIMPLE(x >= 0 && y < 2, "y < 2");
  EXPECT_SIMPLE(y == 3 && y < n, "y == 3 && 4 <= n");
  EXPECT_SIMPLE(p && q && p, "p && q");
  EXPECT_SIMPLE(!(p && !q), "!p || q");
  EXPECT_SIMPLE(p && !p, "false");
  EXPECT_SIMPLE(make_select(p, true, q), "p || q");
  EXPECT_SIMPLE(p == Expr(false), "!p");
}

TEST_F(SimplifyTest, Selects) {
  EXPECT_SIMPLE(make_select(x < 5, make_select(x < 7, x, y), y), "select(x < 5, x, y)");
  EXPECT_SIMPLE(make_select(x < 200, x, y), "x");
  EXPECT_SIMPLE(make_select(p, y + 1, 1 + y), "y + 1");
  EXPECT_SIMPLE(make_select(y < n, y, n), "min(y, n)");
  EXPECT_SIMPLE(make_select(y <= 5, y, 5), "min(y, 5)");
  EXPECT_SIMPLE(make_select(y >= 0, y, 0), "max(y, 0)");
  EXPECT_SIMPLE(make_select(!p, x, y), "select(p, y, x)");
  EXPECT_SIMPLE(make_select(y < 16, floordiv(floormod(y, 32), 16), 7),
                "select(y < 16, floormod(floordiv(y, 16), 2), 7)");
  EXPECT_SIMPLE(make_select(x < 16, floordiv(x, 16), 7), "select(x < 16, 0, 7)");
  // Padding of a float tensor: one condition, and the load stays guarded.
  const Buffer A = Buffer::make("A", f32, {100}, Scope::Argument);
  const Expr padded = make_select(y >= 0, make_select(y < 100, make_load(A, {y}), 0.f), 0.f);
  EXPECT_SIMPLE(padded, "select(0 <= y && y < 100, A[y], 0.0f)");
}

TEST_F(SimplifyTest, WhatMayTrapIsNotMovedToWhereItWasNotEvaluated) {
  const Buffer A = Buffer::make("A", boolean, {100}, Scope::Argument);
  EXPECT_SIMPLE(make_select(y < 100, make_load(A, {y}), false), "select(y < 100, A[y], false)");
  EXPECT_SIMPLE(y == 3 && make_load(A, {y}), "y == 3 && A[y]");
}

TEST_F(SimplifyTest, Vectors) {
  const Expr r = make_ramp(io * 16, 1, 8);
  EXPECT_SIMPLE(r + ji, "ramp(io*16 + ji, 1, 8)");
  EXPECT_SIMPLE(r * 3 + 5, "ramp(io*48 + 5, 3, 8)");
  EXPECT_SIMPLE(r - make_ramp(0, 1, 8), "x8(io*16)");
  EXPECT_SIMPLE(r * n, "ramp(io*n*16, n, 8)");
  EXPECT_SIMPLE(floordiv(r, 8), "x8(io*2)");
  EXPECT_SIMPLE(floormod(r, 16), "ramp(0, 1, 8)");
  EXPECT_SIMPLE(floordiv(make_ramp(0, 16, 8) + ji, 16), "ramp(0, 1, 8)");
  EXPECT_SIMPLE(r < 104, "x8(true)");
  EXPECT_SIMPLE(r < 100, "ramp(io*16, 1, 8) < x8(100)");
  EXPECT_SIMPLE(make_select(r < 104, r, 0), "ramp(io*16, 1, 8)");
  EXPECT_SIMPLE(min(r, io * 16 + 7), "ramp(io*16, 1, 8)");
}

TEST_F(SimplifyTest, OtherTypesOnlyFoldConstants) {
  EXPECT_SIMPLE((s + 100) - s, "s + 100 - s");  // may wrap; nobody asked
  EXPECT_SIMPLE(u + 1 > u, "u < u + 1");        // false for 255
  EXPECT_SIMPLE((f + 1.f) - 1.f, "f + 1.0f - 1.0f");
  EXPECT_SIMPLE(f * cast(f32, io * 2 - io - io), "f*0.0f");
  EXPECT_SIMPLE(cast(i32, io * 16 + ji - io * 16), "i32(ji)");
  const Buffer A = Buffer::make("A", f32, {100}, Scope::Argument);
  EXPECT_SIMPLE(make_load(A, {(io + 1) * 16 - 16}) + f, "A[io*16] + f");
}

TEST_F(SimplifyTest, UnchangedComesBackAsTheSameNode) {
  const Expr e = io * 16 + ji;
  EXPECT_TRUE(simplify(e, ranges).same_as(e));
  const Buffer A = Buffer::make("A", f32, {112}, Scope::Argument);
  const Expr load = make_load(A, {e}) * f;
  EXPECT_TRUE(simplify(load, ranges).same_as(load));
  const Stmt store = make_for(io, 7, LoopKind::Serial, make_store(A, {io}, load));
  EXPECT_TRUE(simplify(store, ranges).same_as(store));
}

TEST_F(SimplifyTest, OverflowIsLeftAlone) {
  const Expr big = y * INT64_MAX * 4 + x * INT64_MAX;
  EXPECT_EQ(simplify(big, ranges).dtype(), i64);
  ranges.set(y, {INT64_MAX - 2, INT64_MAX - 1});
  EXPECT_EQ(range_of(y + y, ranges), Interval{});
  EXPECT_EQ(range_of(y * (y + 1), ranges), Interval{});
  EXPECT_EQ(range_of(y * y, ranges), (Interval{0, Interval::kPosInf}));
  // The sum of both coefficients is no i64, and the value of both terms may be one.
  EXPECT_EQ(simple(floormod(n * (int64_t{3} << 59) + floormod(n, 2) * INT64_MAX, 3)),
            "floormod(n, 2)");
}

TEST_F(SimplifyTest, RangesAndProofs) {
  EXPECT_EQ(range_of(io * 16 + ji, ranges), (Interval{0, 111}));
  EXPECT_EQ(range_of(io - io + 3, ranges), (Interval{3, 3}));
  EXPECT_EQ(range_of(floormod(y, 8), ranges), (Interval{0, 7}));
  // Exclusive and inclusive or have no bit above the highest one of both; io is less than 7.
  EXPECT_EQ(range_of(make_binary(BinaryOp::BitXor, io, floormod(y, 8)), ranges), (Interval{0, 7}));
  EXPECT_EQ(range_of(make_binary(BinaryOp::BitOr, io, io * 2), ranges), (Interval{0, 15}));
  EXPECT_EQ(range_of(make_binary(BinaryOp::BitXor, y, io), ranges), Interval{});
  EXPECT_EQ(range_of(make_ramp(io, 2, 4), ranges), (Interval{0, 12}));
  EXPECT_EQ(range_of(u, ranges), (Interval{0, 255}));
  EXPECT_EQ(range_of(u + 1, ranges), (Interval{0, 255})) << "wraps";
  EXPECT_EQ(range_of(cast(i64, u) + 1, ranges), (Interval{1, 256}));
  EXPECT_EQ(range_of(min(y, 4), ranges), (Interval{Interval::kNegInf, 4}));
  EXPECT_TRUE(prove(io * 16 + ji < 112, ranges));
  EXPECT_FALSE(prove(io * 16 + ji < 111, ranges));
  EXPECT_TRUE(prove(min(io * 16 + 16, 100) <= 100, ranges));
  EXPECT_TRUE(prove(floordiv(y, 4) * 4 <= y, ranges));
}

TEST_F(SimplifyTest, AffineForms) {
  const std::optional<Affine> a = as_affine((io * 2 + ji) * 3 - ji + 4);
  ASSERT_TRUE(a);
  EXPECT_EQ(a->coefficient(io), 6);
  EXPECT_EQ(a->coefficient(ji), 2);
  EXPECT_EQ(a->coefficient(x), 0);
  EXPECT_EQ(a->constant, 4);
  ASSERT_EQ(a->terms.size(), 2u);
  EXPECT_TRUE(a->terms[0].var.same_as(io));
  EXPECT_TRUE(as_affine(io - io)->terms.empty());
  EXPECT_FALSE(as_affine(io * ji));
  EXPECT_FALSE(as_affine(floordiv(io, 2)));
  EXPECT_FALSE(as_affine(f));
}

}  // namespace
}  // namespace heddle
