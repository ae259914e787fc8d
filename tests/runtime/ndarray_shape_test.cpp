// Arrays of other shapes and orders.
#include <gtest/gtest.h>

#include "heddle/runtime/ndarray.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.kind == ErrorKind::User ? e.message : "NOT A USER ERROR: " + e.message;
  }
  return "no error";
}

NDArray counted(Extents extents, DataType dtype = i32) {
  NDArray a = NDArray::empty(std::move(extents), dtype);
  for (std::int64_t i = 0; i < a.size(); ++i) a.set(i, static_cast<double>(i % 100));
  return a;
}

TEST(Shape, RankAndExtentsAreCalledAsThoseOfATensor) {
  const NDArray a = NDArray::zeros({2, 3, 4}, f32);
  EXPECT_EQ(a.rank(), 3);
  EXPECT_EQ(a.extents(), (Extents{2, 3, 4}));
  EXPECT_EQ(a.extent(0), 2);
  EXPECT_EQ(a.extent(-1), 4);
  EXPECT_EQ(message_of([&] { a.extent(3); }), "no dimension 3 in f32[2, 3, 4]");
  EXPECT_EQ(message_of([&] { a.extent(-4); }), "no dimension -4 in f32[2, 3, 4]");
}

TEST(Shape, ReshapeSharesElementsAndFindsTheOpenExtent) {
  const NDArray a = counted({2, 6});
  const NDArray b = a.reshape({3, -1, 2});
  EXPECT_EQ(b.extents(), (Extents{3, 2, 2}));
  EXPECT_EQ(b.data(), a.data());
  EXPECT_EQ(counted({0, 3}).reshape({5, 0}).extents(), (Extents{5, 0}));
  EXPECT_EQ(counted({0, 3}).reshape({-1, 3}).extents(), (Extents{0, 3}));
  EXPECT_EQ(message_of([&] { a.reshape({5, -1}); }),
            "cannot reshape i32[2, 6]: nothing fits in place of -1");
  EXPECT_EQ(message_of([&] { a.reshape({-1, -1}); }),
            "cannot reshape i32[2, 6]: nothing fits in place of -1");
  EXPECT_EQ(message_of([&] { a.reshape({0, -1}); }),
            "cannot reshape i32[2, 6]: nothing fits in place of -1");
  EXPECT_EQ(message_of([&] { a.reshape({7}); }),
            "cannot view i32[2, 6] as [7]: the numbers of elements differ");
}

TEST(Shape, PermuteMovesElementsOfEveryWidth) {
  for (const DataType dtype : {u8, bf16, f32, i64, boolean}) {
    const NDArray a = counted({2, 3, 4, 5}, dtype);
    const NDArray b = a.permute({2, 3, 1, 0});
    ASSERT_EQ(b.extents(), (Extents{4, 5, 3, 2}));
    std::int64_t at = 0;
    for (int p = 0; p < 4; ++p) {
      for (int q = 0; q < 5; ++q) {
        for (int r = 0; r < 3; ++r) {
          for (int s = 0; s < 2; ++s) {
            EXPECT_EQ(b.get(at++), a.get(((s * 3 + r) * 4 + p) * 5 + q)) << to_string(dtype);
          }
        }
      }
    }
  }
}

TEST(Shape, PermuteOfSmallAndEmptyArrays) {
  EXPECT_EQ(counted({}).permute({}).get(0), 0);
  EXPECT_EQ(counted({0, 3}).permute({1, 0}).extents(), (Extents{3, 0}));
  const NDArray a = counted({3, 4});
  const NDArray same = a.permute({0, -1});
  EXPECT_NE(same.data(), a.data());
  EXPECT_EQ(max_abs_diff(same, a), 0);
  EXPECT_EQ(a.permute({-1, 0}).at<int>({3, 2}), a.at<int>({2, 3}));
}

TEST(Shape, PermuteNamesEachDimensionOnce) {
  const NDArray a = counted({2, 3});
  for (const std::vector<int>& order : {std::vector<int>{0}, {0, 0}, {0, 2}, {0, 1, 2}, {1, -1}}) {
    EXPECT_TRUE(message_of([&] { a.permute(order); }).starts_with("cannot permute i32[2, 3] by {"));
  }
  EXPECT_EQ(message_of([] { NDArray().permute({}); }), "cannot permute an undefined array");
}

TEST(Shape, LikeArraysTakeTypeAndShape) {
  const NDArray a = counted({2, 3}, bf16);
  EXPECT_EQ(describe(zeros_like(a)), "bf16[2, 3]");
  EXPECT_EQ(zeros_like(a).get(5), 0);
  EXPECT_EQ(full_like(a, 2.5).get(5), 2.5);
}

}  // namespace
}  // namespace heddle
