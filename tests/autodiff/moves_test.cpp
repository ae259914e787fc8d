// Movement of data: each read is inverted without a search where its indices are affine.
#include "autodiff/gradient_testing.h"

namespace heddle {
namespace {

using Tensors = std::vector<Tensor>;

int64_t work_of(const Tensor& t) {
  const ComputeDag dag({t});
  int64_t work = 0;
  for (int s = 0; s < dag.size(); ++s)
    if (!dag.stage(s).is_placeholder())
      work = std::max(work, dag.info(s).points * dag.info(s).reduce_points);
  return work;
}

/// The gradient is right, and no stage of it evaluates more than `times` as many points as both
/// tensors have elements.
void expect_linear(const Declare& declare, const std::vector<Input>& inputs, int64_t times = 1) {
  expect_gradient(declare, inputs);
  Tensors tensors;
  for (const Input& in : inputs) tensors.push_back(in.tensor);
  const Tensor y = declare(tensors);
  const Input head = input(y.extents(), f64, 9);
  for (const Tensor& dx : gradient({y}, tensors, {head.tensor}))
    EXPECT_LE(work_of(dx), times * (y.size() + dx.size())) << ComputeDag({dx}).to_text();
}

TEST(MoveGradient, ShapesAndOrders) {
  const auto x = real({4, 6, 5});
  expect_linear([](const Tensors& t) { return ops::reshape(t[0], {24, 5}); }, {x});
  expect_linear([](const Tensors& t) { return ops::reshape(t[0], {6, 4, 5}); }, {x});
  expect_linear([](const Tensors& t) { return ops::reshape(t[0], {8, 15}); }, {x});
  expect_linear([](const Tensors& t) { return ops::reshape(t[0], {2, 2, 3, 10}); }, {x});
  expect_linear([](const Tensors& t) { return ops::flatten(t[0]); }, {x});
  expect_linear([](const Tensors& t) { return ops::transpose(t[0], {2, 0, 1}); }, {x});
  expect_linear([](const Tensors& t) { return ops::flip(t[0], {0, 2}); }, {x});
  expect_linear([](const Tensors& t) { return ops::roll(t[0], 2, 1); }, {x});
  expect_linear([](const Tensors& t) { return ops::broadcast_to(t[0], {3, 4, 5}); },
                {real({4, 1})});
}

TEST(MoveGradient, PartsAndWholes) {
  const auto x = real({4, 7}), y = real({4, 3}, 2);
  expect_linear([](const Tensors& t) { return ops::concat({t[0], t[1]}, 1); }, {x, y});
  expect_linear([](const Tensors& t) { return ops::stack({t[0], t[1]}, 1); }, {y, real({4, 3}, 3)});
  expect_linear([](const Tensors& t) { return ops::split(t[0], {2, 5}, 1)[1]; }, {x});
  expect_linear([](const Tensors& t) { return ops::slice(t[0], {1}, {7}, {1}, {2}); }, {x});
  expect_linear([](const Tensors& t) { return ops::slice(t[0], {6}, {0}, {1}, {-2}); }, {x});
  expect_linear([](const Tensors& t) { return ops::tile(t[0], {2, 3}); }, {x});
  expect_linear([](const Tensors& t) { return ops::repeat(t[0], 3, 1); }, {x});
  expect_linear([](const Tensors& t) { return ops::tril(t[0]); }, {x});
}

TEST(MoveGradient, ManyNestedClampsHaveTheirGradientAtOnce) {
  // Each clamp doubles the cases of an index. Too many of them are not listed.
  const int clamps = 40;
  expect_gradient(
      [&](const Tensors& t) {
        return compute(
            {Expr(9)},
            [&](const Axis& i) {
              Expr at = i;
              for (int n = 0; n < clamps; ++n) at = max(min(at + 1, 6), 2) - n % 2;
              return t[0](at);
            },
            "clamped");
      },
      {real({8})});
}

TEST(MoveGradient, PaddingOfEachKind) {
  const auto x = real({5, 6});
  expect_linear([](const Tensors& t) { return ops::pad(t[0], {1, 2}, {0, 3}); }, {x});
  expect_linear([](const Tensors& t) { return ops::pad(t[0], {-1, 2}, {0, -3}); }, {x});
  expect_linear([](const Tensors& t) { return ops::pad(t[0], {1, 2}, {2, 3}, ops::PadMode::Edge); },
                {x}, 2);
  expect_linear(
      [](const Tensors& t) { return ops::pad(t[0], {1, 2}, {2, 3}, ops::PadMode::Reflect); }, {x},
      2);
}

TEST(MoveGradient, BlocksOfPixels) {
  expect_linear([](const Tensors& t) { return ops::space_to_depth(t[0], 2); },
                {real({2, 3, 4, 6})});
  expect_linear([](const Tensors& t) { return ops::depth_to_space(t[0], 2); },
                {real({2, 8, 3, 2})});
  expect_linear([](const Tensors& t) { return ops::pixel_shuffle(t[0], 2); }, {real({2, 8, 3, 2})});
}

TEST(MoveGradient, GathersAddUpAllThatReadAnElement) {
  const Input rows = input_of(NDArray::from(std::vector<int64_t>{2, 0, 2, -1, 2}, {5}), "rows");
  const Input pairs =
      input_of(NDArray::from(std::vector<int64_t>{2, 1, 0, 3, 2, 1}, {3, 2}), "pairs");
  const Declare gathered = [](const Tensors& t) { return ops::gather(t[0], t[1], 0); };
  expect_gradient(gathered, {real({4, 3}), rows});
  expect_second_gradient([](const Tensors& t) { return ops::square(ops::gather(t[0], t[1], 0)); },
                         {real({4, 3}), rows});
  expect_gradient([](const Tensors& t) { return ops::gather_nd(t[0], t[1]); },
                  {real({3, 4, 2}), pairs});
  expect_gradient([](const Tensors& t) { return ops::take(t[0], t[1]); }, {real({4, 3}), rows});
  const Input at = input_of(NDArray::from(std::vector<int64_t>{2, 1, 0, 0, 1, 2}, {2, 3}), "at");
  expect_gradient([](const Tensors& t) { return ops::gather_elements(t[0], t[1]); },
                  {real({3, 3}), at});
}

TEST(MoveGradient, Scatters) {
  const Input at = input_of(NDArray::from(std::vector<int64_t>{1, 4, 1, 0, 3, 0}, {3, 2}), "at");
  for (ops::ScatterReduction how : {ops::ScatterReduction::Add, ops::ScatterReduction::Replace})
    expect_gradient(
        [how](const Tensors& t) { return ops::scatter_elements(t[0], t[1], t[2], 0, how); },
        {real({5, 4}), at, real({3, 2}, 2)});
}

TEST(MoveGradient, RunsOnEveryTarget) {
  const auto x = input({4, 6, 5});
  expect_same_every_way(
      [](const Tensors& t) { return ops::reshape(ops::flip(t[0], {1}), {8, 15}); }, {x});
  expect_same_every_way(
      [](const Tensors& t) { return ops::pad(t[0], {1, 2, 0}, {2, 3, 1}, ops::PadMode::Edge); },
      {x});
  const Input rows = input_of(NDArray::from(std::vector<int64_t>{2, 0, 2, -1, 2}, {5}), "rows");
  const Input at = input_of(NDArray::from(std::vector<int64_t>{2, 1, 0, 0, 1, 2}, {2, 3}), "at");
  for (const DataType type : {f32, f16}) {
    const double tolerance = type == f32 ? 1e-4 : 1e-2;
    for (const int64_t axis : {0, 1, 2})
      expect_same_every_way([&](const Tensors& t) { return ops::gather(t[0], t[1], axis); },
                            {input({4, 3, 18}, type), rows}, tolerance);
    expect_same_every_way([](const Tensors& t) { return ops::gather_elements(t[0], t[1]); },
                          {input({3, 3}, type), at}, tolerance);
  }
}

}  // namespace
}  // namespace heddle
