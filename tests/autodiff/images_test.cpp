// Convolutions, pooling and resizing, and that their gradients are what templates take.
#include "autodiff/gradient_testing.h"

namespace heddle {
namespace {

using Tensors = std::vector<Tensor>;

Declare convolution(const ops::Conv& c) {
  return [c](const Tensors& t) { return ops::conv2d(t[0], t[1], c); };
}

const std::vector<ops::Conv>& convolutions() {
  static const std::vector<ops::Conv> all = {
      {},
      {.padding = {1}},
      {.stride = {2}},
      {.stride = {2}, .padding = {1}},
      {.stride = {3}, .padding = {2}},
      {.dilation = {2}},
      {.stride = {2}, .padding = {2}, .dilation = {2}},
      {.stride = {2}, .padding = {3}, .dilation = {3}},
      {.stride = {3, 1}, .padding = {0, 1}, .dilation = {1, 2}},
      {.padding = {1}, .groups = 2},
      {.stride = {2}, .padding = {1}, .groups = 2},
      {.padding = {1}, .layout = ops::NHWC},
      {.stride = {2}, .padding = {1}, .layout = ops::NHWC},
  };
  return all;
}

std::vector<Input> inputs_of(const ops::Conv& c, DataType t = f64) {
  if (c.layout == ops::NHWC) return {input({2, 8, 7, 4}, t), input({3, 3, 4, 6}, t, 2)};
  return {input({2, 4, 8, 7}, t), input({6, 4 / c.groups, 3, 3}, t, 2)};
}

TEST(ImageGradient, Convolutions) {
  for (const ops::Conv& c : convolutions()) expect_gradient(convolution(c), inputs_of(c));
  expect_gradient([](const Tensors& t) { return ops::conv2d(t[0], t[1], {.stride = {2}}, t[2]); },
                  {real({1, 2, 5, 5}), real({3, 2, 1, 1}, 2), real({3}, 3)});
  expect_gradient([](const Tensors& t) { return ops::conv1d(t[0], t[1], {.stride = {4}}); },
                  {real({1, 2, 13}), real({3, 2, 3}, 2)});
  expect_gradient(
      [](const Tensors& t) { return ops::depthwise_conv2d(t[0], t[1], {.padding = {1}}); },
      {real({2, 3, 5, 5}), real({3, 1, 3, 3}, 2)});
  expect_gradient(
      [](const Tensors& t) {
        return ops::conv_transpose2d(t[0], t[1], {.stride = {2}, .padding = {1}});
      },
      {real({1, 2, 4, 4}), real({2, 3, 3, 3}, 2)});
  expect_second_gradient(convolution({.stride = {2}, .padding = {1}}),
                         {real({1, 2, 5, 4}), real({2, 2, 3, 3}, 2)});
}

TEST(ImageGradient, PoolingAndResizing) {
  const auto x = real({1, 2, 7, 8});
  for (const ops::Pool& p : {ops::Pool{.kernel = {2}},
                             {.kernel = {3}, .stride = {2}, .padding = {1}},
                             {.kernel = {3}, .stride = {1}}}) {
    expect_gradient([p](const Tensors& t) { return ops::max_pool(t[0], p); }, {x});
    expect_gradient([p](const Tensors& t) { return ops::avg_pool(t[0], p); }, {x});
  }
  expect_gradient([](const Tensors& t) { return ops::global_avg_pool(t[0]); }, {x});
  expect_gradient([](const Tensors& t) { return ops::global_max_pool(t[0]); }, {x});
  expect_gradient([](const Tensors& t) { return ops::adaptive_avg_pool(t[0], {3, 5}); }, {x});
  for (ops::ResizeMode mode : {ops::ResizeMode::Linear, ops::ResizeMode::Nearest})
    expect_gradient([mode](const Tensors& t) { return ops::resize(t[0], {11, 5}, {.mode = mode}); },
                    {x});
}

/// The class of the stage of `t` that does most of the work.
StageClass main_class(const Tensor& t) {
  const ComputeDag dag({t});
  int main = 0;
  for (int s = 0; s < dag.size(); ++s)
    if (dag.info(s).flops > dag.info(main).flops) main = s;
  return dag.info(main).stage_class;
}

TEST(ImageGradient, GradientsOfProductsAreProducts) {
  for (const ops::Conv& c : convolutions()) {
    const std::vector<Input> in = inputs_of(c, f32);
    const Tensor y = convolution(c)({in[0], in[1]});
    const Input head = input(y.extents(), f32, 3);
    for (const Tensor& dx : gradient({y}, {in[0], in[1]}, {head.tensor})) {
      const ComputeDag dag({dx});
      EXPECT_EQ(main_class(dx), StageClass::ComplexReduction) << dag.to_text();
      // Multiply-adds of the forward pass; phases and borders add a part of them.
      EXPECT_LE(dag.total_flops(), 4 * ComputeDag({y}).total_flops()) << dag.to_text();
      for (int s = 0; s < dag.size(); ++s)
        for (const Access& a : dag.info(s).reads)
          EXPECT_FALSE(a.guarded && dag.stage(s).is_reduction()) << dag.to_text();
    }
  }
}

TEST(ImageGradient, EachPhaseOfAStrideIsAConvolutionWithItsTaps) {
  const std::vector<Input> in{input({2, 4, 12, 12}), input({6, 4, 3, 3}, f32, 2)};
  const Tensor y = convolution({.stride = {2}, .padding = {1}})({in[0], in[1]});
  const Input head = input(y.extents(), f32, 3);
  const ComputeDag dag({gradient({y}, {in[0]}, {head.tensor})});
  double points = 0;
  for (int s = 0; s < dag.size(); ++s) {
    if (!dag.stage(s).is_reduction()) continue;
    points += dag.info(s).flops;
    for (const Access& a : dag.info(s).reads) EXPECT_NE(a.pattern, AccessPattern::Opaque);
  }
  // 9 taps in all, of which a phase has 4, 2, 2 or 1.
  EXPECT_EQ(points, ComputeDag({y}).total_flops()) << dag.to_text();
}

/// The same numbers in f64.
Input in_f64(const Input& x) {
  NDArray wide = NDArray::zeros(x.array.shape(), f64);
  for (int64_t i = 0; i < wide.size(); ++i) wide.set(i, x.array.get(i));
  return input_of(wide, x.tensor.name());
}

/// The gradients of `declare` for a head of the type of its result.
std::vector<NDArray> gradients_of(const Declare& declare, std::vector<Input> in,
                                  const Input& head) {
  const Tensor y = declare({in[0].tensor, in[1].tensor});
  const std::vector<Tensor> d = gradient({y}, {in[0].tensor, in[1].tensor}, {head.tensor});
  in.push_back(head);
  std::vector<NDArray> out;
  for (const Tensor& t : d) out.push_back(run_interpreted(t, in).result);
  return out;
}

TEST(ImageGradient, InHalfFloatsIsThatOfF64) {
  for (const ops::Conv& c : convolutions()) {
    const std::vector<Input> in = inputs_of(c, f16);
    const Input head = input(convolution(c)({in[0].tensor, in[1].tensor}).extents(), f16, 3);
    const std::vector<NDArray> got = gradients_of(convolution(c), in, head);
    const std::vector<NDArray> want =
        gradients_of(convolution(c), {in_f64(in[0]), in_f64(in[1])}, in_f64(head));
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(allclose(got[i], want[i], 4e-3, 4e-2))
          << "stride " << c.stride[0] << ", input " << i;
  }
}

// What is rounded to 16 bits moves to the places that a slice or a transposition reads, as what is not does:
// no f32 goes through memory, and no border of a padded image is computed.
TEST(ImageGradient, OfAPaddedImageInHalfFloatsHasNoBorders) {
  const std::vector<Input> in = inputs_of({.padding = {1}}, f16);
  const Tensor y = convolution({.padding = {1}})({in[0].tensor, in[1].tensor});
  const Input head = input(y.extents(), f16, 3);
  const ComputeDag dag({gradient({y}, {in[0].tensor}, {head.tensor})});
  for (int s = 0; s < dag.size(); ++s) {
    if (!dag.stage(s).is_reduction()) continue;
    EXPECT_EQ(dag.stage(s).output(0).extents(), in[0].tensor.extents()) << dag.to_text();
  }
}

TEST(ImageGradient, OfAStrideInHalfFloatsIsOneSum) {
  const std::vector<Input> in = inputs_of({.stride = {2}, .padding = {1}}, f16);
  const Tensor y = convolution({.stride = {2}, .padding = {1}})({in[0].tensor, in[1].tensor});
  const Input head = input(y.extents(), f16, 3);
  const ComputeDag dag({gradient({y}, {in[0].tensor}, {head.tensor})});
  int sums = 0;
  for (int s = 0; s < dag.size(); ++s) sums += dag.stage(s).is_reduction() ? 1 : 0;
  EXPECT_EQ(sums, 1) << dag.to_text();
}

TEST(ImageGradient, OfAPoolingWindowSearchesAWinnerOnce) {
  const Input x = input({1, 2, 9, 9});
  const Tensor y = ops::max_pool(x.tensor, {.kernel = {3}, .stride = {2}, .padding = {1}});
  const Input head = input(y.extents(), f32, 3);
  const ComputeDag dag({gradient({y}, {x.tensor}, {head.tensor})});
  std::vector<DataType> reduced;
  for (int s = 0; s < dag.size(); ++s)
    if (dag.stage(s).is_reduction()) reduced.push_back(dag.stage(s).output(0).dtype());
  EXPECT_EQ(reduced, (std::vector<DataType>{f32, i32})) << dag.to_text();
}

TEST(ImageGradient, RunsOnEveryTarget) {
  for (const ops::Conv& c : convolutions())
    expect_same_every_way(convolution(c), inputs_of(c, f32));
  for (const ops::Conv& c : convolutions())
    expect_same_every_way(convolution(c), inputs_of(c, f16), 2e-2);
  for (const DataType t : {f16, bf16}) {
    expect_same_every_way(convolution({.stride = {2}, .padding = {1}}),
                          {input({1, 8, 9, 11}, t), input({8, 8, 3, 3}, t, 2)}, 2e-2);
    expect_same_every_way(convolution({.padding = {1}, .groups = 2}),
                          {input({2, 32, 6, 7}, t), input({32, 16, 3, 3}, t, 2)}, 4e-2);
    expect_same_every_way(
        [](const Tensors& x) {
          return ops::max_pool(x[0], {.kernel = {3}, .stride = {2}, .padding = {1}});
        },
        {input({1, 3, 12, 37}, t)}, 2e-2);
  }
  expect_same_every_way(
      [](const Tensors& t) { return ops::max_pool(t[0], {.kernel = {3}, .stride = {2}}); },
      {input({1, 2, 9, 9})});
}

}  // namespace
}  // namespace heddle
