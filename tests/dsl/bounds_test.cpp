// Out-of-bounds reads are found when declared, and what is provably inside is let through.
#include "dsl/dsl_testing.h"
#include "heddle/dsl/dim.h"

namespace heddle {
namespace {

class Bounds : public testing::Test {
 protected:
  const Tensor a = placeholder({8}, f32, "A");
  template <class F>
  std::string read(int64_t extent, F index) {
    return error_of([&] { compute({extent}, [&](Axis i) { return a(index(i)); }, "y"); });
  }
  template <class F>
  std::string body(int64_t extent, F f) {
    return error_of([&] { compute({extent}, [&](Axis i) { return f(i); }, "y"); });
  }
};

TEST_F(Bounds, BehindTheEndIsReported) {
  EXPECT_EQ(read(8, [](Axis i) { return i + 1; }),
            "'y' reads 'A' out of bounds: dimension 0 has extent 8 and is indexed by 'i + 1', "
            "which ranges over [1, 8] | change the shape, or guard the read: "
            "select(condition, A(...), other)");
}

TEST_F(Bounds, BeforeTheFirstIsReported) {
  EXPECT_EQ(read(4, [](Axis i) { return i - 1; }),
            "'y' reads 'A' out of bounds: dimension 0 has extent 8 and is indexed by 'i - 1', "
            "which ranges over [-1, 2] | change the shape, or guard the read: "
            "select(condition, A(...), other)");
}

TEST_F(Bounds, AnIndexFromDataMustBeClamped) {
  const Tensor index = placeholder({4}, i32, "I");
  EXPECT_EQ(error_of([&] { compute({4}, [&](Axis i) { return a(index(i)); }, "y"); }),
            "'y' may read 'A' out of bounds: dimension 0 has extent 8 and is indexed by "
            "'i64(I[i])', which depends on data | clamp it: max(0, min(7, index))");
  EXPECT_EQ(error_of([&] {
              compute({4},
                      [&](Axis i) { return a(max(Expr(0), min(Expr(7), cast(i64, index(i))))); });
            }),
            "no error");
}

TEST_F(Bounds, ReductionSourcesAreChecked) {
  const Axis k = reduce_axis(3, "k");
  EXPECT_EQ(error_of([&] { compute({6}, [&](Axis i) { return sum(a(i + k), k); }); }), "no error");
  EXPECT_THAT(error_of([&] { compute({7}, [&](Axis i) { return sum(a(i + k), k); }); }),
              testing::HasSubstr("is indexed by 'i + k', which ranges over [0, 8]"));
}

TEST_F(Bounds, AGuardedReadIsAccepted) {
  EXPECT_EQ(body(10, [&](Axis i) { return select(i >= 1 && i <= 8, a(i - 1), 0.f); }), "no error");
}

TEST_F(Bounds, AGuardOfTheWrongWidthIsNot) {
  EXPECT_THAT(body(10, [&](Axis i) { return select(i >= 1 && i <= 9, a(i - 1), 0.f); }),
              testing::HasSubstr("ranges over [0, 8]"));
  EXPECT_THAT(body(10, [&](Axis i) { return select(i >= 1 || i <= 8, a(i - 1), 0.f); }),
              testing::HasSubstr("ranges over [-1, 8]"));
}

TEST_F(Bounds, TheOtherArmKnowsTheOpposite) {
  EXPECT_EQ(body(10, [&](Axis i) { return select(i < 1 || i > 8, 0.f, a(i - 1)); }), "no error");
  EXPECT_EQ(body(10, [&](Axis i) { return select(!(i >= 1 && i < 9), 0.f, a(i - 1)); }),
            "no error");
  EXPECT_EQ(body(10, [&](Axis i) { return select(i == 0, 0.f, a(min(i - 1, 7))); }).substr(0, 9),
            "'y' reads");  // != says nothing of intervals
}

TEST_F(Bounds, ConditionsOnCombinationsCount) {
  const Axis k = reduce_axis(3, "k");
  EXPECT_EQ(error_of([&] {
              compute({4}, [&](Axis i) {
                const Expr at = i * 2 + k - 1;
                return sum(select(at >= 0 && at < 8, a(at), 0.f), k);
              });
            }),
            "no error");
}

TEST_F(Bounds, ConditionsReachThroughDivision) {
  EXPECT_EQ(body(20,
                 [&](Axis i) {
                   const Expr t = i - 2;
                   return select(t >= 0 && t < 16 && floormod(t, 2) == 0, a(floordiv(t, 2)), 0.f);
                 }),
            "no error");
}

TEST_F(Bounds, NestedSelectsAddUp) {
  EXPECT_EQ(body(12, [&](Axis i) { return select(i < 2, 0.f, select(i < 10, a(i - 2), 1.f)); }),
            "no error");
}

TEST_F(Bounds, AnArmThatIsNeverTakenIsNotChecked) {
  EXPECT_EQ(body(4, [&](Axis i) { return select(i < 4, a(i), a(i + 100)); }), "no error");
}

TEST_F(Bounds, ASelectInsideAnIndexIsUnderstood) {
  EXPECT_EQ(read(12,
                 [](Axis i) {
                   const Expr j = i - 2;  // reflection at both ends
                   return select(j < 0, -j, select(j > 7, 14 - j, j));
                 }),
            "no error");
}

TEST_F(Bounds, ReadsInConditionsAreChecked) {
  EXPECT_THAT(body(9, [&](Axis i) { return select(a(i) > 0.f, 1.f, 0.f); }),
              testing::HasSubstr("ranges over [0, 8]"));
}

TEST_F(Bounds, FloorDivisionAndRemainderAreBounded) {
  EXPECT_EQ(read(64, [](Axis i) { return floordiv(i, 8); }), "no error");
  EXPECT_EQ(read(64, [](Axis i) { return floormod(i, 8); }), "no error");
  EXPECT_EQ(read(8, [](Axis i) { return 7 - i; }), "no error");
}

// The parts of a quotient have constant extents, so that only its range matters at every size.
TEST_F(Bounds, QuotientsBesideASizeAreBounded) {
  const Dim n = dim("n", 1, 32);
  const Tensor tiles = placeholder({n * 14}, f32, "T");
  const auto read_at = [&](int64_t width, int64_t beyond) {
    return error_of([&] {
      compute(
          {n, width}, [&](Axis i, Axis j) { return tiles(i * 14 + floordiv(j, 4) + beyond); }, "y");
    });
  };
  EXPECT_EQ(read_at(56, 0), "no error");
  EXPECT_THAT(read_at(60, 0), testing::HasSubstr("not proved to be below the extent"));
  EXPECT_THAT(read_at(56, 1), testing::HasSubstr("not proved to be below the extent"));
  EXPECT_THAT(read_at(56, -1), testing::HasSubstr("not proved"));
}

// Rows of a matrix that lies flat, whose width is a size, as sums of axes name them.
TEST_F(Bounds, RowsOfASizeAreBounded) {
  const Dim n = dim("n", 1, 128);
  const Tensor flat = placeholder({n * 4}, f32, "F");
  const auto read_at = [&](int64_t rows, int64_t others, int64_t beyond) {
    return error_of([&] {
      compute(
          {rows, others, n}, [&](Axis i, Axis k, Axis j) { return flat((i + k) * n + j + beyond); },
          "y");
    });
  };
  EXPECT_EQ(read_at(4, 1, 0), "no error");
  EXPECT_EQ(read_at(3, 2, 0), "no error");
  EXPECT_THAT(read_at(4, 2, 0), testing::HasSubstr("not proved to be below the extent"));
  EXPECT_THAT(read_at(4, 1, 1), testing::HasSubstr("not proved to be below the extent"));
  EXPECT_THAT(read_at(4, 1, -1), testing::HasSubstr("not proved"));
  EXPECT_EQ(error_of([&] {
              compute({4, n}, [&](Axis i, Axis j) { return flat((3 - i) * n + n - 1 - j); }, "y");
            }),
            "no error");
}

}  // namespace
}  // namespace heddle
