// Networks whose lengths are open in other places than the batch: convolutions over an open length,
// between which extents are no multiples of it, and a step of a decoder whose past has any length.
#include "family/family_testing.h"
#include "heddle/dag/generalize.h"
#include "heddle/network/network.h"
#include "network/sizes_testing.h"

namespace heddle::testing {
namespace {

std::vector<Tensor> args_of(const std::vector<Tensor>& outputs) {
  const ComputeDag dag(outputs);
  std::vector<Tensor> args = dag.placeholders();
  args.insert(args.end(), outputs.begin(), outputs.end());
  return args;
}

// As of wav2vec, whose strides divide the length: 20 n, 4 n - 1, 2 n - 1 and n - 1 elements.
TEST(OpenSizes, ConvolutionsOverAnOpenLength) {
  const Dim n = dim("n", 40, 800).multiple_of(20);
  const NDArray first = NDArray::random({8, 1, 10}, f32, 1),
                others = NDArray::random({8, 8, 3}, f32, 2);
  const Generalized g = generalize(n, [&](int64_t length) -> std::vector<Tensor> {
    const Tensor x = placeholder({1, 1, length}, f32, "x");
    const Tensor a = ops::relu(ops::conv1d(x, constant(first), {.stride = {5}}));
    const Tensor b = ops::relu(ops::conv1d(a, constant(others), {.stride = {2}}));
    return {ops::relu(ops::conv1d(b, constant(others), {.stride = {2}}))};
  });
  const std::vector<Tensor> args = args_of(g.outputs);
  const NetworkKernel kernel = Network(g.outputs).build(args);
  for (const int64_t size : {40, 60, 180, 620, 800})
    EXPECT_EQ(wrong_at(kernel, g.outputs, args, {{n, size}}), "") << size;
}

TEST(OpenSizes, ADecoderWithAPast) {
  const Dim past = dim("past", 1, 70);
  const Generalized g = generalize(past, [](int64_t length) -> std::vector<Tensor> {
    const Tensor query = placeholder({4, 1, 16}, f32, "query");
    const auto grown = [&](const char* name) {
      return ops::concat({placeholder({4, length, 16}, f32, name),
                          ops::relu(placeholder({4, 1, 16}, f32, std::string(name) + "_of_step"))},
                         1);
    };
    const Tensor keys = grown("keys"), values = grown("values");
    const Tensor weights = ops::softmax(ops::batch_matmul(query, keys, false, true));
    return {ops::batch_matmul(weights, values), keys, values};
  });
  const std::vector<Tensor> args = args_of(g.outputs);
  const NetworkKernel kernel = Network(g.outputs).build(args);
  for (const int64_t size : {1, 2, 15, 16, 33, 70})
    EXPECT_EQ(wrong_at(kernel, g.outputs, args, {{past, size}}), "") << size;
}

TEST(OpenSizes, AKernelReadsTheSizeFromAnExtentThatIsNoMultiple) {
  const Dim n = dim("n", 2, 64);
  const Tensor x = placeholder({4 * Expr(n) - 1}, f32, "x");
  const Tensor y = compute({2 * Expr(n) - 1}, [&](Axis i) { return x(2 * i) + x(2 * i + 1); }, "y");
  const Schedule s = create_schedule({y});
  const Kernel kernel = build(s, {x, y});
  for (const int64_t size : {2, 3, 17, 64}) EXPECT_EQ(wrong_at(kernel, y, {{n, size}}), "") << size;
  const auto call = [&](int64_t in, int64_t out) {
    return error_of([&] { kernel(NDArray::zeros({in}, f32), NDArray::zeros({out}, f32)); });
  };
  EXPECT_NE(call(12, 5).find("the kernel is for 7 to 255 in steps of 4 there"), std::string::npos);
  EXPECT_NE(call(11, 7).find("which is 2 * n - 1, and other arguments make that 5"),
            std::string::npos);
}

// A row of n elements read at i + n - 1 is as long as the last element says, and no longer.
TEST(OpenSizes, ReadsBeyondAConstantExtentAreRefusedWhereSizesCancel) {
  const Dim n = dim("n", 1, 64);
  const Tensor x = placeholder({1}, f32, "x");
  const auto read = [&](const Expr& before) {
    return error_of([&] {
      compute({Expr(n) + 1}, [&](Axis i) { return select(i < before, 0.f, x(i - before)); }, "y");
    });
  };
  EXPECT_EQ(read(n), "no error");
  EXPECT_NE(read(Expr(n) - 1).find("out of bounds"), std::string::npos);
}

}  // namespace
}  // namespace heddle::testing
