// Constants next to other types: converted where nothing is lost and nothing else could be meant.
#include "dsl/dsl_testing.h"
#include "heddle/dsl/arrays.h"
#include "heddle/ir/print.h"

namespace heddle {
namespace {

TEST(Literals, AnUnsignedOneOf64BitsIsWhatItSays) {
  const Tensor x = placeholder({4}, u64, "x");
  const Tensor y = compute({4}, [&](Axis i) { return x(i) * 0x9E3779B97F4A7C15ull; });
  EXPECT_EQ(y.dtype(), u64);
  EXPECT_EQ(Expr(0x9E3779B97F4A7C15ull).dtype(), u64);
  EXPECT_EQ(Expr(7ull).dtype(), i64);
  EXPECT_EQ(Expr(size_t{7}).dtype(), i64);
  EXPECT_EQ(Expr(~0ull).dtype(), u64);
  EXPECT_EQ(Expr(uint8_t{255}).dtype(), i64);
  // It is no negative number of another type.
  const Tensor s = placeholder({4}, i64, "s"), n = placeholder({4}, u32, "n");
  EXPECT_THAT(error_of([&] { compute({4}, [&](Axis i) { return s(i) * ~0ull; }, "y"); }),
              testing::HasSubstr("different types: i64 and u64"));
  EXPECT_THAT(error_of([&] { compute({4}, [&](Axis i) { return n(i) + ~0ull; }, "y"); }),
              testing::HasSubstr("different types: u32 and u64"));
}

TEST(Literals, AnAxisBecomesAFloatWhereAllItsValuesAreFloats) {
  const Tensor y = compute({100, 7}, [&](Axis i, Axis j) { return (i * 7 + j) * 0.5f; });
  EXPECT_EQ(y.dtype(), f32);
  EXPECT_EQ(compute({100}, [&](Axis i) { return i * 0.5; }).dtype(), f64);
  EXPECT_EQ(compute({100}, [&](Axis i) { return 1.f / (i + 1); }).dtype(), f32);
  EXPECT_EQ(compute({100}, [&](Axis i) { return select(i < 0.5f, 1.f, 0.f); }).dtype(), f32);
  EXPECT_EQ(compute({(1 << 24) + 1}, [&](Axis i) { return i * 0.5f; }).dtype(), f32);
  EXPECT_THAT(error_of([&] { compute({(1 << 24) + 2}, [&](Axis i) { return i * 0.5f; }, "y"); }),
              testing::HasSubstr("different types: i64 and f32, in the body of 'y' | the integers "
                                 "may be ones that f32 does not have: use cast(f32, ...)"));
  EXPECT_EQ(compute({(1 << 24) + 2}, [&](Axis i) { return i * 0.5; }).dtype(), f64);
}

TEST(Literals, ElementsBecomeFloatsWhereTheirTypeFits) {
  const Tensor a = placeholder({4}, u8, "a"), b = placeholder({4}, i32, "b");
  EXPECT_EQ(compute({4}, [&](Axis i) { return a(i) * 0.5f; }).dtype(), f32);
  EXPECT_EQ(compute({4}, [&](Axis i) { return b(i) * 0.5; }).dtype(), f64);
  EXPECT_THAT(error_of([&] { compute({4}, [&](Axis i) { return b(i) * 0.5f; }, "y"); }),
              testing::HasSubstr("different types: i32 and f32"));
  const Tensor c = placeholder({4}, boolean, "c"), x = placeholder({4}, f32, "x");
  EXPECT_NE(error_of([&] { compute({4}, [&](Axis i) { return c(i) * 0.5f; }); }), "no error");
  // Only constants: two tensors of different types are a mistake.
  EXPECT_NE(error_of([&] { compute({4}, [&](Axis i) { return a(i) * x(i); }); }), "no error");
  EXPECT_NE(error_of([&] { compute({4}, [&](Axis i) { return i * x(i); }); }), "no error");
}

TEST(Extents, OfAnArrayMakeTensors) {
  const NDArray a = NDArray::zeros({3, 4}, bf16);
  EXPECT_EQ(placeholder(a.shape(), a.dtype()).extents(), a.extents());
  EXPECT_EQ(constant_placeholder(a.extents()).extents(), a.extents());
  const Tensor x = placeholder({3, 4}, f32, "x");
  EXPECT_EQ(compute(x.extents(), [&](const std::vector<Axis>& i) { return x(i); }).extents(),
            x.extents());
  EXPECT_EQ(compute(std::vector<int>{3, 4}, [&](Axis i, Axis j) { return x(i, j); }).rank(), 2);
  EXPECT_EQ(x.size(), 12);
  EXPECT_EQ(describe(zeros_like(x)), "f32[3, 4]");
  EXPECT_EQ(full_like(x, 2).get(11), 2);
  EXPECT_EQ(max_abs_diff(random_like(x, 5), NDArray::random({3, 4}, f32, 5)), 0);
}

TEST(Constant, HasTheValuesOfItsArray) {
  const NDArray a = NDArray::full({3}, f32, 2);
  const Tensor w = constant(a, "w");
  EXPECT_EQ(w.name(), "w");
  EXPECT_TRUE(w.op()->is_constant());
  ASSERT_NE(w.op()->data(), nullptr);
  EXPECT_EQ(w.op()->data()->data(), a.data());
  EXPECT_EQ(constant_placeholder({3}).op()->data(), nullptr);
  EXPECT_THAT(error_of([] { constant(NDArray(), "w"); }),
              testing::HasSubstr("constant 'w' is given an array that was never assigned"));
}

// ---- extents of 0 ----

TEST(Empty, ATensorWithoutElementsReadsNothing) {
  const Tensor x = placeholder({0, 4}, f32, "x"), b = placeholder({4}, f32, "b");
  const Tensor y = compute({0, 4}, [&](Axis i, Axis j) { return x(i, j) * b(j); }, "y");
  EXPECT_EQ(y.extents(), (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(y.dtype(), f32);
  EXPECT_TRUE(y.op()->inputs().empty());
  ASSERT_EQ(y.op()->unread().size(), 2u);
  EXPECT_TRUE(y.op()->unread()[0].same_as(x));
}

TEST(Empty, AReductionOverNothingIsItsIdentity) {
  const Tensor x = placeholder({3, 0}, f32, "x");
  const Axis k = reduce_axis(0, "k");
  const Tensor total = compute({3}, [&](Axis i) { return sum(x(i, k), k); });
  const Tensor most = compute({3}, [&](Axis i) { return max(x(i, k), k); });
  EXPECT_TRUE(is_const(total.op()->bodies()[0], 0));
  EXPECT_EQ(to_string(most.op()->bodies()[0]), to_string(lowest_value(f32)));
  EXPECT_FALSE(total.op()->is_reduction());
  const Tensor z = placeholder({3, 4}, f32, "z");
  const Axis k4 = reduce_axis(4, "k4");
  const Tensor both = compute({3}, [&](Axis i) { return sum(z(i, k4) * x(i, k), {k4, k}); });
  EXPECT_TRUE(is_const(both.op()->bodies()[0], 0));
}

TEST(Empty, IsReadWhereNothingIsEverRead) {
  const Tensor a = placeholder({0}, f32, "a"), b = placeholder({4}, f32, "b");
  const Tensor y = compute({4}, [&](Axis i) { return select(i < 0, a(i), b(i)); }, "y");
  ASSERT_EQ(y.op()->inputs().size(), 1u);
  EXPECT_TRUE(y.op()->inputs()[0].same_as(b));
  EXPECT_THAT(error_of([&] { compute({4}, [&](Axis i) { return a(i); }, "y"); }),
              testing::HasSubstr("out of bounds"));
}

TEST(Empty, ExtentsAreNotNegative) {
  EXPECT_THAT(
      error_of([] { placeholder({-1}, f32, "x"); }),
      testing::HasSubstr("the extent of dimension 0 of 'x' is -1 | extents are at least 0"));
}

}  // namespace
}  // namespace heddle
