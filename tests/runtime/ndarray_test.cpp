#include "heddle/runtime/ndarray.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "heddle/support/error.h"

namespace heddle {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

const DataType kAllTypes[] = {f64, f32, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean};

TEST(NDArray, KnowsItsShape) {
  const NDArray a = NDArray::zeros({2, 3, 4}, f32);
  EXPECT_EQ(a.size(), 24);
  EXPECT_EQ(a.bytes(), 96);
  EXPECT_EQ(a.strides(), (Extents{12, 4, 1}));
  EXPECT_EQ(a.extent(1), 3);
  EXPECT_EQ(describe(a), "f32[2, 3, 4]");
  EXPECT_EQ(NDArray::zeros({}, f64).size(), 1);
  EXPECT_EQ(NDArray::zeros({0, 5}, f64).size(), 0);
  EXPECT_TRUE(NDArray::zeros({0, 5}, f64).defined());
  EXPECT_FALSE(NDArray().defined());
}

TEST(NDArray, MemoryIsAligned) {
  for (std::int64_t n : {1, 17, 1000}) {
    const NDArray a = NDArray::empty({n}, f32);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 64, 0U);
  }
  const NDArray large = NDArray::zeros({1 << 20}, f32);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data()) % (2 << 20), 0U);
  EXPECT_EQ(large.get(large.size() - 1), 0);
}

TEST(NDArray, HandlesShareAndCopiesDoNot) {
  NDArray a = NDArray::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const NDArray same = a, copy = a.copy(), flat = a.view({6}), row = a.rows(1, 2);
  a.at<float>({1, 0}) = 40;
  EXPECT_EQ(same.at<float>({1, 0}), 40);
  EXPECT_EQ(flat.at<float>({3}), 40);
  EXPECT_EQ(row.at<float>({0, 0}), 40);
  EXPECT_EQ(copy.at<float>({1, 0}), 4);
  NDArray moved = std::move(a);
  EXPECT_FALSE(a.defined());  // NOLINT(bugprone-use-after-move)
  moved = NDArray();
  EXPECT_EQ(row.at<float>({0, 2}), 6);  // a view keeps the memory
}

TEST(NDArray, RandomNumbersDependOnTheSeedOnly) {
  for (DataType type : kAllTypes) {
    const NDArray a = NDArray::random({100}, type, 1), b = NDArray::random({100}, type, 1);
    EXPECT_EQ(max_abs_diff(a, b), 0) << to_string(type);
    EXPECT_GT(max_abs_diff(a, NDArray::random({100}, type, 2)), 0) << to_string(type);
    const double least = type.is_uint() || type.is_bool() ? 0 : type.is_int() ? -8 : -1;
    const double most = type.is_bool() ? 1 : type.is_integral() ? 8 : 1;
    for (std::int64_t i = 0; i < a.size(); ++i) {
      EXPECT_GE(a.get(i), least);
      EXPECT_LE(a.get(i), most);
    }
  }
  const NDArray ranged = NDArray::random({1000}, i32, 3, 5, 6);
  for (std::int64_t i = 0; i < ranged.size(); ++i)
    EXPECT_TRUE(ranged.get(i) == 5 || ranged.get(i) == 6);
}

TEST(NDArray, EveryTypeHoldsNumbers) {
  for (DataType type : kAllTypes) {
    const NDArray a = NDArray::full({3}, type, 1);
    EXPECT_EQ(a.get(2), 1) << to_string(type);
    EXPECT_TRUE(allclose(a.cast(f64), a));
    EXPECT_EQ(a.cast(i32).cast(type).get(0), 1);
  }
  const NDArray bytes = NDArray::zeros({4}, i8);
  bytes.set(0, 200);
  bytes.set(1, -200);
  bytes.set(2, kNan);
  bytes.set(3, 2.5);
  EXPECT_EQ(bytes.get(0), 127);
  EXPECT_EQ(bytes.get(1), -128);
  EXPECT_EQ(bytes.get(2), 0);
  EXPECT_EQ(bytes.get(3), 2);
  const NDArray large = NDArray::full({1}, u64, 1e30);
  EXPECT_EQ(large.data<std::uint64_t>()[0], std::numeric_limits<std::uint64_t>::max());
}

TEST(NDArray, DataIsTypeChecked) {
  const NDArray a = NDArray::zeros({2}, bf16);
  a.data<std::uint16_t>()[0] = 0x3f80;
  EXPECT_EQ(a.get(0), 1);
  EXPECT_THROW(a.data<float>(), Error);
  EXPECT_THROW(a.data<std::int16_t>(), Error);
  EXPECT_NO_THROW(NDArray::zeros({2}, boolean).data<bool>());
}

TEST(NDArray, MistakesAreErrors) {
  const NDArray a = NDArray::zeros({2, 3}, f32);
  EXPECT_THROW(a.at<float>({2, 0}), Error);
  EXPECT_THROW(a.at<float>({0, -1}), Error);
  EXPECT_THROW(a.at<float>({0}), Error);
  EXPECT_THROW(a.get(6), Error);
  EXPECT_THROW(a.set(-1, 0), Error);
  EXPECT_THROW(a.view({5}), Error);
  EXPECT_THROW(a.rows(1, 3), Error);
  EXPECT_THROW(a.extent(2), Error);
  EXPECT_THROW(a.copy_from(NDArray::zeros({2, 3}, f64)), Error);
  EXPECT_THROW(NDArray::zeros({-1}, f32), Error);
  EXPECT_THROW(NDArray::zeros({1LL << 40, 1LL << 40}, f32), Error);
  EXPECT_THROW(NDArray::empty({1LL << 60}, f32), Error);
  EXPECT_THROW(NDArray::zeros({4}, f32.with_lanes(4)), Error);
  EXPECT_THROW(NDArray::wrap(nullptr, {4}, f32), Error);
  EXPECT_THROW(NDArray().copy(), Error);
  EXPECT_THROW(NDArray().fill(0), Error);
  EXPECT_THROW(NDArray().get(0), Error);
  EXPECT_THROW(NDArray::random({4}, f32, 1, 2, 1), Error);
  EXPECT_THROW(compare(a, NDArray::zeros({3, 2}, f32), 0, 0), Error);
}

TEST(NDArray, WrapSeesTheCallersMemory) {
  std::int32_t values[] = {1, 2, 3};
  const NDArray a = NDArray::wrap(values, {3}, i32);
  values[1] = 20;
  EXPECT_EQ(a.get(1), 20);
}

TEST(Compare, CountsAndLocatesDifferences) {
  const NDArray a = NDArray::from<float>({1, 2, 3, 4}, {2, 2});
  const NDArray b = NDArray::from<float>({1, 2, 3.5, 4.25}, {2, 2});
  const Difference d = compare(a, b, 0, 0.1);
  EXPECT_EQ(d.mismatches, 2);
  EXPECT_EQ(d.first_mismatch, 2);
  EXPECT_EQ(d.max_abs, 0.5);
  EXPECT_EQ(describe(d, a),
            "2 of 4 elements differ, first at [1, 0]: 3 and 3.5, largest difference 0.5");
  EXPECT_TRUE(compare(a, b, 0.2, 0).ok());
  EXPECT_TRUE(allclose(a, a.cast(f16)));
}

TEST(Compare, TheShortWayAgreesWithTheLong) {
  const std::int64_t size = 2 * 256 + 40;  // blocks and a rest
  const NDArray right = NDArray::random({size}, f32, 1);
  const float kInfF = std::numeric_limits<float>::infinity();
  for (const std::int64_t at : {std::int64_t{0}, std::int64_t{255}, std::int64_t{300}, size - 1}) {
    for (const auto& [value, expected] : {std::pair{0.5f, 0.5f},
                                          {0.5f, 0.51f},
                                          {0.5f, 0.6f},
                                          {kInfF, kInfF},
                                          {kInfF, -kInfF},
                                          {0.5f, kInfF},
                                          {kInfF, 0.5f},
                                          {NAN, NAN},
                                          {0.5f, NAN},
                                          {NAN, 0.5f}}) {
      for (const double tolerance : {0.0, 0.03, 1e300, kInf}) {
        NDArray a = right.copy(), b = right.copy();
        a.at<float>({at}) = value;
        b.at<float>({at}) = expected;
        EXPECT_EQ(allclose(a, b, tolerance, 0), compare(a, b, tolerance, 0).ok())
            << value << " for " << expected << " at " << at << ", rtol " << tolerance;
        EXPECT_EQ(allclose(a, b, 0, tolerance), compare(a, b, 0, tolerance).ok())
            << value << " for " << expected << " at " << at << ", atol " << tolerance;
      }
    }
  }
}

TEST(Compare, SpecialValues) {
  const NDArray a = NDArray::from<double>({kNan, kInf, -kInf, 0.0});
  EXPECT_TRUE(allclose(a, a.copy()));
  EXPECT_FALSE(allclose(a, NDArray::from<double>({0, kInf, -kInf, 0}), 1e9, 1e9));
  EXPECT_FALSE(allclose(NDArray::from<double>({1}), NDArray::from<double>({kInf}), 1, 1));
  EXPECT_EQ(max_abs_diff(NDArray::from<double>({kNan}), NDArray::from<double>({0})), kInf);
  // 64-bit integers that are the same double.
  const std::int64_t big = (std::int64_t{1} << 60) + 1;
  EXPECT_EQ(
      max_abs_diff(NDArray::from<std::int64_t>({big}), NDArray::from<std::int64_t>({big - 1})), 1);
}

TEST(NDArray, RandomIntegersHaveBoundsThatExist) {
  const double gap = 9007199254740992;  // 2^53
  EXPECT_EQ(NDArray::random({4}, i64, 1, gap, gap).get(3), gap);
  EXPECT_THROW(NDArray::random({4}, i64, 1, 0, 1e300), Error);
  EXPECT_THROW(NDArray::random({4}, i8, 1, -1e300, 0), Error);
  EXPECT_THROW(NDArray::random({4}, f32, 1, 1, 0), Error);
  EXPECT_NO_THROW(NDArray::random({4}, f64, 1, -1e300, 1e300));
}

}  // namespace
}  // namespace heddle
