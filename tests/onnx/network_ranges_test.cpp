// Networks over dimensions: one NetworkKernel is right at every size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/ops/ops.h"
#include "heddle/support/error.h"
#include "onnx/network_at_sizes.h"

namespace heddle::testing {
namespace {

TEST(NetworkRanges, AttentionIsRightAtEveryLength) {
  const Dim seq = dim("seq", 1, 20);
  const Imported m(attention_model(), {.dims = {{"batch", 2}}, .ranges = {{"seq", seq}}});
  const Network net(m.model.outputs);
  // The passes change the graph in the same way at every size.
  EXPECT_FALSE(net.passes().empty());
  for (const PassApplication& a : net.passes())
    EXPECT_THAT(a.text, ::testing::Not(::testing::HasSubstr("left out"))) << a.pass;
  const NetworkKernel kernel = net.build(m.model.args());
  ASSERT_EQ(kernel.sizes().size(), 1u);
  EXPECT_EQ(kernel.sizes()[0].name, "seq");
  // Up and down, because buffers keep the shapes of the call before.
  for (const int64_t n : {20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 1})
    EXPECT_EQ(wrong_at(kernel, m.model.outputs, m.model.args(), {{seq, n}}), "") << n;
}

TEST(NetworkRanges, TwoDimensionsAreRightTogether) {
  const Dim batch = dim("batch", 1, 3), seq = dim("seq", 1, 9);
  const Imported m(attention_model(), {.ranges = {{"batch", batch}, {"seq", seq}}});
  const NetworkKernel kernel = Network(m.model.outputs).build(m.model.args());
  for (int64_t b = 1; b <= 3; ++b) {
    for (const int64_t n : {9, 1, 4, 8})
      EXPECT_EQ(wrong_at(kernel, m.model.outputs, m.model.args(), {{batch, b}, {seq, n}}), "")
          << b << " " << n;
  }
}

TEST(NetworkRanges, ImagesAreRightInEveryBatch) {
  const Dim batch = dim("batch", 1, 6);
  const Imported m(images_model(), {.ranges = {{"batch", batch}}});
  const Network net(m.model.outputs);
  const NetworkKernel chosen = net.build(m.model.args()),
                      naive = net.build(m.model.args(), net.naive_schedules());
  for (int64_t b = 1; b <= 6; ++b) {
    EXPECT_EQ(wrong_at(chosen, m.model.outputs, m.model.args(), {{batch, b}}), "") << b;
    EXPECT_EQ(wrong_at(naive, m.model.outputs, m.model.args(), {{batch, b}}), "") << b;
  }
}

TEST(NetworkRanges, NetworksOfTheDslHaveThem) {
  const Dim rows = dim("rows", 1, 40);
  const Tensor x = placeholder({rows, 12}, f32, "x"), w = constant_placeholder({12, 30}, f32, "w"),
               v = constant_placeholder({30, 7}, f32, "v");
  const auto times = [&](const Tensor& a, const Tensor& b) {
    const Axis k = reduce_axis(b.extent(0), "k");
    const Tensor sums =
        compute({rows, b.extent(1)}, [&](Axis i, Axis j) { return sum(a(i, k) * b(k, j), k); });
    return compute({rows, b.extent(1)}, [&](Axis i, Axis j) { return max(sums(i, j), 0.f); });
  };
  const Tensor y = times(times(x, w), v);
  const Network net({y});
  const NetworkKernel kernel = net.build({x, w, v, y});
  for (const int64_t n : {1, 2, 7, 16, 31, 40})
    EXPECT_EQ(wrong_at(kernel, {y}, {x, w, v, y}, {{rows, n}}), "") << n;
}

template <class F>
std::string error_of(F&& call) {
  try {
    call();
  } catch (const Error& e) {
    return std::string(e.what());
  }
  return "nothing was thrown";
}

TEST(NetworkRanges, WrongSizesAreNamed) {
  const Imported m(images_model(), {.ranges = {{"batch", dim("batch", 1, 4)}}});
  const Network net(m.model.outputs);
  const NetworkKernel kernel = net.build(m.model.args());
  const auto call = [&](int64_t in, int64_t out) {
    return error_of(
        [&] { kernel(NDArray::zeros({in, 3, 6, 6}, f32), NDArray::zeros({out, 5}, f32)); });
  };
  EXPECT_EQ(call(4, 4), "nothing was thrown");
  EXPECT_THAT(call(5, 5), ::testing::HasSubstr("'x'"));
  EXPECT_THAT(call(5, 5), ::testing::HasSubstr("1 to 4"));
  EXPECT_THAT(call(3, 2), ::testing::HasSubstr("which is batch"));
}

}  // namespace
}  // namespace heddle::testing
