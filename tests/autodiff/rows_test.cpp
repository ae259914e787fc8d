// Reductions, normalisations, products of matrices, recurrent layers.
#include "autodiff/gradient_testing.h"
#include "heddle/codegen/interpreter.h"

namespace heddle {
namespace {

using Tensors = std::vector<Tensor>;

TEST(RowGradient, Reductions) {
  const auto x = real({3, 4, 5});
  for (const std::vector<int>& axes : {std::vector<int>{1}, {0, 2}, {}}) {
    expect_gradient([&](const Tensors& t) { return ops::sum(t[0], axes); }, {x});
    expect_gradient([&](const Tensors& t) { return ops::max(t[0], axes); }, {x});
    expect_gradient([&](const Tensors& t) { return ops::min(t[0], axes, true); }, {x});
    expect_gradient([&](const Tensors& t) { return ops::mean(t[0], axes); }, {x});
    expect_gradient([&](const Tensors& t) { return ops::var(t[0], axes); }, {x});
    expect_gradient([&](const Tensors& t) { return ops::logsumexp(t[0], axes); }, {x});
    expect_gradient([&](const Tensors& t) { return ops::norm_l1(t[0], axes); }, {x});
    expect_gradient([&](const Tensors& t) { return ops::norm_l2(t[0], axes); }, {x});
  }
  expect_gradient([](const Tensors& t) { return ops::prod(t[0], {1}); }, {x});
  expect_second_gradient([](const Tensors& t) { return ops::prod(t[0], {1}); }, {real({2, 4})});
  expect_second_gradient([](const Tensors& t) { return ops::logsumexp(t[0], {1}); },
                         {real({2, 4})});
}

TEST(RowGradient, ProductsWithZerosAreExact) {
  const Input x = input_of(NDArray::from(std::vector<double>{2, 0, 3, 0, 0, 5, 2, 3, 4}, {3, 3}));
  const Tensor dx = gradient(ops::sum(ops::prod(x, {1}), {0}), x.tensor);
  const double want[] = {0, 6, 0, 0, 0, 0, 12, 8, 6};
  expect_elements(dx, {x}, [&](const Dims& p) { return want[3 * p[0] + p[1]]; });
}

TEST(RowGradient, TheFirstOfEqualElementsWins) {
  const Input x = input_of(NDArray::from(std::vector<float>{1, 7, 7, 7, 2, 2}, {2, 3}));
  const Tensor dx = gradient(ops::sum(ops::max(x, {1}), {0}), x.tensor);
  const double want[] = {0, 1, 0, 1, 0, 0};
  expect_elements(dx, {x}, [&](const Dims& p) { return want[3 * p[0] + p[1]]; });
}

TEST(RowGradient, ReducersThatChooseAnOperand) {
  expect_gradient(
      [](const Tensors& t) {
        const Axis k = reduce_axis(5, "k");
        return compute({Expr(4)}, [&](Axis i) { return reduce_fmax(t[0](i, k), {k}); }, "fmax");
      },
      {real({4, 5})});
}

TEST(RowGradient, ComponentsOfTuplesAreReducedByThemselves) {
  const Reducer pair = reducer("sum_and_product", {f64, f64}, {0.0, 1.0},
                               [](const std::vector<Expr>& a, const std::vector<Expr>& b) {
                                 return std::vector<Expr>{a[0] + b[0], b[1] * a[1]};
                               });
  expect_gradient(
      [&](const Tensors& t) {
        const Axis k = reduce_axis(5, "k");
        const std::vector<Tensor> both = compute_all(
            {Expr(4)}, [&](Axis i) { return pair({t[0](i, k) * t[0](i, k), t[0](i, k)}, {k}); },
            "both");
        return ops::add(both[0], ops::mul(both[1], both[1]));
      },
      {real({4, 5})});
}

// The value of the largest key, which another component of the tuple has.
TEST(RowGradient, AChoiceByAnotherComponentIsFollowed) {
  const Reducer best =
      reducer("value_of_best", {f64, f64}, {std::numeric_limits<double>::lowest(), 0.0},
              [](const std::vector<Expr>& a, const std::vector<Expr>& b) {
                const Expr left = a[0] >= b[0];
                return std::vector<Expr>{max(a[0], b[0]), select(left, a[1], b[1])};
              });
  expect_gradient(
      [&](const Tensors& t) {
        const Axis k = reduce_axis(5, "k"), m = reduce_axis(3, "m");
        const std::vector<Tensor> both = compute_all(
            {Expr(4)}, [&](Axis i) { return best({t[0](i, k, m), sin(t[1](i, k, m))}, {k, m}); },
            "both");
        return ops::add(both[0], ops::mul(both[1], both[1]));
      },
      {real({4, 5, 3}), real({4, 5, 3}, 2)});
}

TEST(RowGradient, AReducerHasTheDerivativeThatIsDeclared) {
  const Reducer add = reducer("log_add_exp", {f64}, {-1e30},
                              [](const std::vector<Expr>& a, const std::vector<Expr>& b) {
                                const Expr most = max(a[0], b[0]), least = min(a[0], b[0]);
                                return std::vector<Expr>{most + log1p(exp(least - most))};
                              });
  const auto rule = [](const auto& element, const auto& result, const auto& head) {
    return std::vector<Expr>{head[0] * exp(element[0] - result[0])};
  };
  const Input x = real({2, 3});
  const Axis k = reduce_axis(3, "k");
  const Tensor y = compute({Expr(2)}, [&](Axis i) { return add({x.tensor(i, k) * 2.0}, {k})[0]; });
  const Tensor dx = gradient({ops::sum(y, {0})}, {x.tensor}, {}, {.reducers = {{add, rule}}})[0];
  const Tensor soft =
      ops::mul(ops::softmax(ops::mul(x.tensor, make_const(f64, 2))), make_const(f64, 2));
  const std::vector<NDArray> both = interpret({dx, soft}, {{x.tensor, x.array}});
  EXPECT_TRUE(allclose(both[0], both[1], 1e-9, 1e-12));
}

TEST(RowGradient, ANaNWinsOnlyWhereTheResultIsOne) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Input x = input_of(NDArray::from(std::vector<float>{nan, 1, 2, nan, nan, nan}, {2, 3}));
  const auto slope = [&](Expr reduce(Expr, std::vector<Axis>)) {
    const Axis k = reduce_axis(3, "k");
    const Tensor y = compute({Expr(2)}, [&](Axis i) { return reduce(x.tensor(i, k), {k}); }, "y");
    return gradient(ops::sum(y, {0}), x.tensor);
  };
  const double dropped[] = {0, 0, 1, 1, 0, 0}, spread[] = {1, 0, 0, 1, 0, 0};
  expect_elements(slope(reduce_fmax), {x}, [&](const Dims& p) { return dropped[3 * p[0] + p[1]]; });
  expect_elements(slope(reduce_max), {x}, [&](const Dims& p) { return spread[3 * p[0] + p[1]]; });
}

TEST(RowGradient, Normalisations) {
  const auto x = real({3, 6});
  expect_gradient([](const Tensors& t) { return ops::softmax(t[0]); }, {x});
  expect_gradient([](const Tensors& t) { return ops::softmax(t[0], 0); }, {x});
  expect_gradient([](const Tensors& t) { return ops::log_softmax(t[0]); }, {x});
  expect_gradient([](const Tensors& t) { return ops::layer_norm(t[0], t[1], t[2]); },
                  {x, real({6}, 2), real({6}, 3)});
  expect_gradient([](const Tensors& t) { return ops::rms_norm(t[0], t[1]); }, {x, real({6}, 2)});
  expect_gradient([](const Tensors& t) { return ops::group_norm(t[0], 2, t[1], t[2]); },
                  {real({2, 4, 3}), real({4}, 2), real({4}, 3)});
  expect_gradient([](const Tensors& t) { return ops::lrn(t[0], 3); }, {real({2, 4, 3})});
  expect_gradient(
      [](const Tensors& t) { return ops::batch_norm(t[0], t[1], t[2], t[3], t[4]); },
      {real({2, 4, 3}), real({4}, 2), real({4}, 3), real({4}, 4), real({4}, 5, 0.5, 2)});
  expect_second_gradient([](const Tensors& t) { return ops::softmax(t[0]); }, {real({2, 4})});
  expect_second_gradient([](const Tensors& t) { return ops::layer_norm(t[0]); }, {real({2, 4})});
}

/// A softmax along j of x(i, j), with its maximum and its sum taken from elsewhere.
Declare softmax_with(const std::function<Expr(const Tensor& of_row, Axis i, Axis j)>& highest,
                     const std::function<Expr(const Tensor& sums, Axis i, Axis j)>& sum) {
  return [=](const Tensors& t) {
    const Tensor x = t[0], m = ops::max(x, {1});
    const Tensor e = compute(
        {Expr(4), Expr(4)}, [&](Axis i, Axis j) { return exp(x(i, j) - highest(m, i, j)); }, "e");
    const Tensor sums = ops::sum(e, {1});
    return compute(
        {Expr(4), Expr(4)}, [&](Axis i, Axis j) { return e(i, j) / sum(sums, i, j); }, "y");
  };
}

/// The reductions of the gradient of `y`.
int reductions(const Tensor& y, const Tensor& x) {
  const Input head = input(y.extents(), f32, 3);
  const ComputeDag dag({gradient({y}, {x}, {head.tensor})});
  int count = 0;
  for (int s = 0; s < dag.size(); ++s) count += dag.stage(s).is_reduction();
  return count;
}

TEST(RowGradient, AMaximumThatCancelsIsNotSearchedFor) {
  const Tensor x = input({4, 5}).tensor;
  EXPECT_EQ(reductions(ops::softmax(x), x), 3);  // its maximum, its sum, and one of the head
  EXPECT_EQ(reductions(ops::log_softmax(x), x), 3);
  EXPECT_EQ(reductions(ops::logsumexp(x, {1}), x), 2);
  EXPECT_EQ(reductions(ops::sum(ops::square(ops::softmax(x)), {0}), x), 3);
}

/// The sum of squares of x - (sum of x) / `divisor`, along rows, and the second of the two.
std::pair<Tensor, Tensor> squares(const Tensor& x, double divisor) {
  const Tensor sums = ops::sum(x, {1});
  const Tensor mean = compute(
      sums.shape(), [&](Axis i) { return sums(i) / make_const(sums.dtype(), divisor); }, "mean");
  const Axis j = reduce_axis(x.extent(1), "j");
  return {
      compute(
          sums.shape(), [&](Axis i) { return sum((x(i, j) - mean(i)) * (x(i, j) - mean(i)), {j}); },
          "squares"),
      mean};
}

TEST(RowGradient, ASumOfDeviationsIsLeftOut) {
  const Tensor x = input({4, 5}).tensor, y = input({2, 4, 5}).tensor;
  EXPECT_EQ(reductions(ops::var(x, {1}), x), 1);  // the sum that the mean is made of
  EXPECT_EQ(reductions(ops::var(y, {0, 2}), y), 1);
  EXPECT_EQ(reductions(ops::layer_norm(x), x), 4);  // both sums, and two of the head
  EXPECT_EQ(reductions(squares(x, 5).first, x), 1);
  EXPECT_EQ(reductions(squares(x, 4).first, x), 2) << "it is no mean";
  for (const double divisor : {4, 5})
    expect_gradient([&](const Tensors& t) { return squares(t[0], divisor).first; }, {real({4, 5})});
  expect_second_gradient([&](const Tensors& t) { return squares(t[0], 5).first; }, {real({4, 5})});
}

// As a tensor of its own the mean is independent: the second derivative by it is twice the length of a
// row.
TEST(RowGradient, ADeviationFromATensorThatIsAskedForIsKept) {
  const Input x = real({4, 5});
  const auto [y, mean] = squares(x, 5);
  const Tensor once = gradient(ops::sum(y, {0}), mean);
  expect_elements(gradient(ops::sum(once, {0}), mean), {x}, [](const Dims&) { return 10.0; });
}

TEST(RowGradient, AMaximumThatDoesNotCancelIs) {
  const auto of_row = [](const Tensor& t, Axis i, Axis) { return t(i); };
  const auto of_column = [](const Tensor& t, Axis, Axis j) { return t(j); };
  const auto x = real({4, 4});
  expect_gradient(softmax_with(of_row, of_row), {x});
  expect_gradient(softmax_with(of_row, of_column), {x});
  expect_gradient(softmax_with(of_column, of_row), {x});
  expect_gradient([](const Tensors& t) { return ops::sub(t[0], ops::max(t[0], {1}, true)); }, {x});
  expect_gradient(
      [](const Tensors& t) {
        const Tensor m = ops::max(t[0], {1}, true), e = ops::exp(ops::sub(t[0], m));
        return ops::add(ops::div(e, ops::sum(e, {1}, true)), m);
      },
      {x});
  expect_gradient(
      [](const Tensors& t) {
        const Tensor e = ops::exp(ops::sub(t[0], ops::max(t[0], {1}, true)));
        return ops::div(e, ops::square(ops::sum(e, {1}, true)));
      },
      {x});
}

TEST(RowGradient, AStoppedStageIsAConstantToAMaximum) {
  const std::vector<float> at{1, 2, 0, -1, 0, 0.5, 1.5, 1, 3, 1, 2, 0};
  const Input x = input_of(NDArray::from(at, {3, 4}));
  const Tensor m = ops::max(x, {1}, true), e = ops::exp(ops::sub(x, m)),
               sums = ops::sum(e, {1}, true), y = ops::sum(ops::div(e, sums), {0, 1});
  const Tensor dx = gradient({y}, {x.tensor}, {}, {.stop = {sums}})[0];
  // exp(x - m) / c gives itself to x, and takes itself from the largest of the row.
  expect_elements(dx, {x}, [&](const Dims& p) {
    const float* row = &at[static_cast<size_t>(4 * p[0])];
    const auto winner = std::max_element(row, row + 4) - row;
    double total = 0;
    for (int j = 0; j < 4; ++j) total += std::exp(row[j] - row[winner]);
    const double own = std::exp(row[p[1]] - row[winner]) / total;
    return p[1] == winner ? own - 1 : own;
  });
}

TEST(RowGradient, Products) {
  expect_gradient([](const Tensors& t) { return ops::matmul(t[0], t[1]); },
                  {real({2, 3, 4}), real({4, 5}, 2)});
  expect_gradient([](const Tensors& t) { return ops::matmul(t[0], t[1], true, true); },
                  {real({4, 3}), real({5, 4}, 2)});
  expect_gradient([](const Tensors& t) { return ops::dense(t[0], t[1], t[2]); },
                  {real({3, 4}), real({5, 4}, 2), real({5}, 3)});
  expect_gradient([](const Tensors& t) { return ops::einsum("bij,bkj->bik", t[0], t[1]); },
                  {real({2, 3, 4}), real({2, 5, 4}, 2)});
  expect_gradient([](const Tensors& t) { return ops::einsum("ii->", t[0]); }, {real({4, 4})});
  expect_gradient([](const Tensors& t) { return ops::outer(t[0], t[1]); },
                  {real({3}), real({4}, 2)});
  expect_gradient([](const Tensors& t) { return ops::matmul(t[0], t[0]); }, {real({3, 3})});
  expect_gradient(
      [](const Tensors& t) { return ops::scaled_dot_product_attention(t[0], t[1], t[2]); },
      {real({2, 3, 4}), real({2, 5, 4}, 2), real({2, 5, 4}, 3)});
  expect_second_gradient([](const Tensors& t) { return ops::tanh(ops::matmul(t[0], t[1])); },
                         {real({2, 3}), real({3, 2}, 2)});
}

TEST(RowGradient, GradientsOfProductsAreProductsOfTheirWork) {
  const Tensor x = placeholder({40, 24}, f32, "x"), w = placeholder({32, 24}, f32, "w");
  const Tensor a = placeholder({2, 40, 24}, f32, "a"), b = placeholder({2, 24, 32}, f32, "b");
  const std::vector<std::pair<Tensor, std::vector<Tensor>>> products{
      {ops::dense(x, w), {x, w}}, {ops::batch_matmul(a, b), {a, b}}};
  for (const auto& [y, wrt] : products) {
    const Tensor head = placeholder(y.shape(), f32, "head");
    for (const Tensor& d : gradient({y}, wrt, {head})) {
      const ComputeDag dag({d});
      EXPECT_EQ(dag.info(dag.index_of(d.op())).stage_class, StageClass::ComplexReduction)
          << dag.to_text();
      EXPECT_EQ(dag.total_flops(), ComputeDag({y}).total_flops());
      EXPECT_EQ(dag.size(), 3) << dag.to_text();
    }
  }
}

TEST(RowGradient, Scans) {
  for (const bool reverse : {false, true}) {
    expect_gradient([&](const Tensors& t) { return ops::cumsum(t[0], 1, false, reverse); },
                    {real({2, 7})});
    expect_gradient([&](const Tensors& t) { return ops::cumprod(t[0], 0, false, reverse); },
                    {real({4, 3})});
  }
}

TEST(RowGradient, RecurrentLayers) {
  expect_gradient([](const Tensors& t) { return ops::lstm(t[0], {t[1], t[2], t[3]}).all; },
                  {real({3, 2, 3}, 1, -1, 1), real({8, 3}, 2, -1, 1), real({8, 2}, 3, -1, 1),
                   real({16}, 4, -1, 1)});
}

TEST(RowGradient, RunsOnEveryTarget) {
  expect_same_every_way([](const Tensors& t) { return ops::softmax(t[0]); }, {input({6, 33})});
  expect_same_every_way([](const Tensors& t) { return ops::layer_norm(t[0], t[1]); },
                        {input({6, 33}), input({33}, f32, 2)});
  expect_same_every_way([](const Tensors& t) { return ops::layer_norm(t[0], t[1]); },
                        {input({30, 130}), input({130}, f32, 2)});
  expect_same_every_way([](const Tensors& t) { return ops::matmul(t[0], t[1]); },
                        {input({17, 33}), input({33, 20}, f32, 2)});
  expect_same_every_way([](const Tensors& t) { return ops::max(t[0], {1}); }, {input({6, 33})});
}

}  // namespace
}  // namespace heddle
