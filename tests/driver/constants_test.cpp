// Constants are prepared once, for as long as the same arrays are passed.
#include "driver/driver_testing.h"

namespace heddle::testing {
namespace {

// y = x * (w*w + 1), the bracket prepared.
Kernel scaled() {
  Tensor x = placeholder({64}, f32, "x"), w = constant_placeholder({64}, f32, "w");
  Tensor p = compute({64}, [&](Axis i) { return w(i) * w(i) + 1.f; }, "p");
  Tensor y = compute({64}, [&](Axis i) { return x(i) * p(i); }, "y");
  return build(Schedule({y}), {x, w, y});
}

TEST(Constants, ArePreparedOnceUntilRefreshed) {
  Kernel k = scaled();
  NDArray x = NDArray::full({64}, f32, 1), w = NDArray::full({64}, f32, 2);
  NDArray y = NDArray::zeros({64}, f32);
  k(x, w, y);
  EXPECT_EQ(y.get(0), 5);
  // A change of the contents is not seen ...
  w.fill(3);
  k(x, w, y);
  EXPECT_EQ(y.get(0), 5);
  // ... until the kernel is told.
  k.refresh();
  k(x, w, y);
  EXPECT_EQ(y.get(0), 10);
}

TEST(Constants, OtherArraysArePreparedAnew) {
  Kernel k = scaled();
  NDArray x = NDArray::full({64}, f32, 1), y = NDArray::zeros({64}, f32);
  NDArray two = NDArray::full({64}, f32, 2), three = NDArray::full({64}, f32, 3);
  for (int i = 0; i < 3; ++i) {
    k(x, two, y);
    EXPECT_EQ(y.get(63), 5);
    k(x, three, y);
    EXPECT_EQ(y.get(63), 10);
  }
}

TEST(Constants, AFewSetsOfArraysStayPrepared) {
  Kernel k = scaled();
  NDArray x = NDArray::full({64}, f32, 1), y = NDArray::zeros({64}, f32);
  std::vector<NDArray> sets;
  for (int i = 0; i < 5; ++i) sets.push_back(NDArray::full({64}, f32, i));
  auto result = [&](int i) {
    k(x, sets[i], y);
    return y.get(0);
  };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(result(i), i * i + 1);
  // A change of the contents shows who prepares again: none of the four, in any order.
  for (NDArray& w : sets) w.fill(10);
  for (int i : {3, 0, 2, 1, 0}) EXPECT_EQ(result(i), i * i + 1);
  // A fifth drops the one that was not used for longest, 3.
  EXPECT_EQ(result(4), 101);
  EXPECT_EQ(result(0), 1);
  EXPECT_EQ(result(2), 5);
  EXPECT_EQ(result(3), 101);
  k.refresh();
  EXPECT_EQ(result(0), 101);
}

TEST(Constants, ACloneKeepsItsOwn) {
  Kernel k = scaled(), clone = k.clone();
  NDArray x = NDArray::full({64}, f32, 1), w = NDArray::full({64}, f32, 2);
  NDArray y = NDArray::zeros({64}, f32);
  k(x, w, y);
  w.fill(3);
  clone(x, w, y);
  EXPECT_EQ(y.get(0), 10);
  k(x, w, y);
  EXPECT_EQ(y.get(0), 5);
  k = Kernel();  // the code outlives the one it was made for
  clone(x, w, y);
  EXPECT_EQ(y.get(0), 10);
  EXPECT_THROW(Kernel().clone(), Error);
}

TEST(Constants, AFreedArrayIsNotMistakenForANewOneAtItsAddress) {
  Kernel k = scaled();
  NDArray x = NDArray::full({64}, f32, 1), y = NDArray::zeros({64}, f32);
  for (int i = 1; i < 20; ++i) {
    // Each goes before the next comes: allocators like to give the same place again.
    NDArray w = NDArray::full({64}, f32, i);
    k(x, w, y);
    EXPECT_EQ(y.get(0), i * i + 1);
  }
}

TEST(Constants, CopiesOfAKernelShareWhatWasPrepared) {
  Kernel k = scaled(), copy = k;
  NDArray x = NDArray::full({64}, f32, 1), w = NDArray::full({64}, f32, 2);
  NDArray y = NDArray::zeros({64}, f32);
  k(x, w, y);
  w.fill(3);
  copy(x, w, y);
  EXPECT_EQ(y.get(0), 5);
  copy.refresh();
  k(x, w, y);
  EXPECT_EQ(y.get(0), 10);
}

TEST(Constants, APackedWeightGivesTheAnswerOfTheInterpreterForTwoSetsOfWeights) {
  Tensor x = placeholder({20, 30}, f32, "x"), w = constant_placeholder({30, 40}, f32, "w");
  Tensor y = ops::matmul(x, w);
  Schedule s = create_schedule({y});
  Kernel k = build(s, {x, w, y});
  for (uint64_t seed : {1, 2, 1}) {
    NDArray xs = NDArray::random({20, 30}, f32, 9), ws = NDArray::random({30, 40}, f32, seed);
    NDArray ys = NDArray::zeros({20, 40}, f32);
    k(xs, ws, ys);
    NDArray want = interpret({y}, {{x, xs}, {w, ws}})[0];
    EXPECT_TRUE(allclose(ys, want, 1e-4, 1e-4)) << seed;
  }
}

}  // namespace
}  // namespace heddle::testing
