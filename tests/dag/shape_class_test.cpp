// What declarations of one structure and other extents have in common.
#include <gtest/gtest.h>

#include <set>

#include "dag/declarations.h"
#include "heddle/ops/ops.h"

namespace heddle::dag_test {
namespace {

uint64_t class_of(const Tensor& t) { return ComputeDag({t}).shape_class(); }

Tensor conv(int64_t n, int64_t c, int64_t size, int64_t k, int64_t r, int64_t stride, int64_t pad) {
  ops::Conv at;
  at.padding = {pad, pad};
  at.stride = {stride, stride};
  return ops::relu(ops::conv2d(placeholder({n, c, size, size}),
                               constant_placeholder({k, c, r, r}, f32, "w"), at,
                               placeholder({k}, f32, "b")));
}

TEST(ShapeClass, IsOneForAllSizes) {
  EXPECT_EQ(class_of(Matmul(64, 48, 32, f32).d), class_of(Matmul(512, 100, 7, f32).d));
  EXPECT_EQ(class_of(Softmax(64, 128).y), class_of(Softmax(3, 1000).y));
  // Padding is in the bounds of a select.
  EXPECT_EQ(class_of(Conv(64, 56, 64, 3, 1, 1).relu), class_of(Conv(3, 28, 100, 5, 1, 2).relu));
  EXPECT_EQ(class_of(conv(1, 64, 56, 64, 3, 1, 1)), class_of(conv(8, 128, 28, 256, 3, 1, 1)));
  EXPECT_EQ(class_of(conv(1, 64, 56, 64, 3, 2, 1)), class_of(conv(1, 32, 112, 48, 3, 2, 1)));
}

TEST(ShapeClass, LeavesOutWhatFollowsFromExtents) {
  const auto mean = [](int64_t m, int64_t n) { return ops::mean(placeholder({m, n}), {1}); };
  EXPECT_EQ(class_of(mean(10, 30)), class_of(mean(4, 1000)));
  const auto var = [](int64_t n) { return ops::var(placeholder({5, n}), {1}, false, true); };
  EXPECT_EQ(class_of(var(30)), class_of(var(77)));
  const auto reshape = [](int64_t m, int64_t n) {
    return ops::reshape(placeholder({m, n * 16}), {m * 16, n});
  };
  EXPECT_EQ(class_of(reshape(10, 30)), class_of(reshape(12, 50)));
  const auto pool = [](int64_t c, int64_t size) {
    ops::Pool p;
    p.kernel = {3, 3};
    p.stride = {2, 2};
    p.padding = {1, 1};
    return ops::avg_pool(placeholder({1, c, size, size}), p);
  };
  EXPECT_EQ(class_of(pool(8, 20)), class_of(pool(64, 112)));
  const auto attention = [](int64_t n, int64_t d) {
    const Tensor q = placeholder({2, n, d}), k = placeholder({2, n, d}), v = placeholder({2, n, d});
    return ops::scaled_dot_product_attention(q, k, v);
  };
  EXPECT_EQ(class_of(attention(32, 64)), class_of(attention(50, 128)));
  const auto gelu = [](int64_t m, int64_t k) {
    return ops::gelu(ops::matmul(placeholder({m, k}), placeholder({k, m})));
  };
  EXPECT_EQ(class_of(gelu(10, 3)), class_of(gelu(10, 4)));
  const auto norm = [](int64_t m, int64_t n) {
    return ops::layer_norm(placeholder({m, n}), placeholder({n}), placeholder({n}));
  };
  EXPECT_EQ(class_of(norm(10, 30)), class_of(norm(20, 768)));
}

TEST(ShapeClass, SeesEverythingElse) {
  std::set<uint64_t> classes;
  int count = 0;
  const auto add = [&](const Tensor& t) {
    classes.insert(class_of(t));
    ++count;
  };
  Tensor x = placeholder({8, 8}, f32, "x"), y = placeholder({8, 8}, f32, "y");
  Axis k = reduce_axis(8, "k");
  add(ops::matmul(x, y));
  add(ops::matmul(placeholder({8, 8}, f64), placeholder({8, 8}, f64)));
  add(ops::matmul(x, constant_placeholder({8, 8}, f32, "w")));
  add(ops::relu(ops::matmul(x, y)));
  add(compute({8, 8}, [&](Axis i, Axis j) { return sum(x(i, k) * y(j, k), k); }));
  add(compute({8, 8}, [&](Axis i, Axis j) { return max(x(i, k) * y(k, j), k); }));
  add(compute({8, 8}, [&](Axis i, Axis j) { return x(i, j) + 1.f; }));
  add(compute({8, 8}, [&](Axis i, Axis j) { return x(i, j) + 2.f; }));
  add(compute({8, 8}, [&](Axis i, Axis j) { return x(j, i) + 1.f; }));
  for (int64_t stride : {1, 2}) add(conv(1, 8, 16, 8, 3, stride, 1));
  Tensor n = placeholder({8}, i32, "n");
  add(compute({8}, [&](Axis i) { return n(i) + 3; }));
  add(compute({8}, [&](Axis i) { return n(i) + 4; }));
  EXPECT_EQ(classes.size(), static_cast<size_t>(count));
}

TEST(ShapeClass, ExtentsAreThoseOfAllStages) {
  EXPECT_EQ(ComputeDag({Matmul(2, 3, 4, f32).c}).extents(),
            (std::vector<int64_t>{2, 4, 4, 3, 2, 3, 4}));
}

// In records on disk, as the structural hash is.
TEST(ShapeClass, GoldenValues) {
  EXPECT_EQ(class_of(Matmul(64, 48, 32, f32).d), 10529904869845898365u);
  EXPECT_EQ(class_of(Conv(64, 56, 64, 3, 1, 1).relu), 3662952551226604114u);
}

}  // namespace
}  // namespace heddle::dag_test
