// Element-wise operators: against differences, and at the points where there is no derivative.
#include <limits>

#include "autodiff/gradient_testing.h"

namespace heddle {
namespace {

using Unary = Tensor (*)(const Tensor&, Where);

void expect_unary(Unary f, double lo, double hi) {
  const auto declare = [f](const std::vector<Tensor>& x) { return f(x[0], Where::current()); };
  expect_gradient(declare, {real({3, 4}, 1, lo, hi)});
  expect_second_gradient(declare, {real({5}, 2, lo, hi)});
}

TEST(ElementGradient, FunctionsOfOneOperand) {
  for (Unary f :
       {Unary(ops::neg),      Unary(ops::abs),      Unary(ops::square),    Unary(ops::exp),
        Unary(ops::exp2),     Unary(ops::expm1),    Unary(ops::sin),       Unary(ops::cos),
        Unary(ops::atan),     Unary(ops::sinh),     Unary(ops::cosh),      Unary(ops::tanh),
        Unary(ops::erf),      Unary(ops::relu),     Unary(ops::relu6),     Unary(ops::selu),
        Unary(ops::sigmoid),  Unary(ops::gelu),     Unary(ops::gelu_tanh), Unary(ops::silu),
        Unary(ops::softplus), Unary(ops::softsign), Unary(ops::mish),      Unary(ops::hardswish),
        Unary(ops::identity)})
    expect_unary(f, -2, 2);
  for (Unary f : {Unary(ops::log), Unary(ops::log2), Unary(ops::log10), Unary(ops::log1p),
                  Unary(ops::sqrt), Unary(ops::rsqrt), Unary(ops::reciprocal)})
    expect_unary(f, 0.5, 2);
  for (Unary f : {Unary(ops::tan), Unary(ops::asin), Unary(ops::acos), Unary(ops::floor),
                  Unary(ops::ceil), Unary(ops::round), Unary(ops::trunc)})
    expect_unary(f, 0.55, 0.95);
}

TEST(ElementGradient, FunctionsOfTwoOperands) {
  const auto both = [](Tensor (*f)(const Tensor&, const Tensor&, Where), double lo) {
    const auto declare = [f](const std::vector<Tensor>& x) {
      return f(x[0], x[1], Where::current());
    };
    expect_gradient(declare, {real({3, 4}, 1, lo, 3), real({4}, 2, lo, 3)});
    expect_gradient(declare, {real({2, 1, 3}, 3, lo, 3), real({4, 1}, 4, lo, 3)});
    expect_second_gradient(declare, {real({3}, 5, lo, 3), real({2, 3}, 6, lo, 3)});
  };
  for (auto f : {+[](const Tensor& a, const Tensor& b, Where w) { return ops::add(a, b, w); },
                 +[](const Tensor& a, const Tensor& b, Where w) { return ops::sub(a, b, w); },
                 +[](const Tensor& a, const Tensor& b, Where w) { return ops::mul(a, b, w); }})
    both(f, -2);
  both([](const Tensor& a, const Tensor& b, Where w) { return ops::div(a, b, w); }, 0.5);
  both([](const Tensor& a, const Tensor& b, Where w) { return ops::pow(a, b, w); }, 0.5);
  both([](const Tensor& a, const Tensor& b, Where w) { return ops::fmod(a, b, w); }, 0.5);
  both(ops::atan2, 0.5);
  both(ops::maximum, -2);
  both(ops::minimum, -2);
}

TEST(ElementGradient, PowersOfNumbersAndParameters) {
  for (double n : {0.0, 1.0, 2.0, 3.0, -1.5}) {
    expect_gradient([n](const std::vector<Tensor>& x) { return ops::pow(x[0], n); },
                    {real({3, 4}, 1, 0.5, 2)});
  }
  expect_gradient([](const std::vector<Tensor>& x) { return ops::prelu(x[0], x[1]); },
                  {real({3, 4}), real({4}, 2)});
  expect_gradient([](const std::vector<Tensor>& x) { return ops::elu(x[0], 0.7); }, {real({9})});
  expect_gradient([](const std::vector<Tensor>& x) { return ops::leaky_relu(x[0], 0.1); },
                  {real({9})});
  expect_gradient([](const std::vector<Tensor>& x) { return ops::clip(x[0], -1, 1); }, {real({9})});
  expect_gradient([](const std::vector<Tensor>& x) { return ops::hardsigmoid(x[0]); }, {real({9})});
  expect_gradient(
      [](const std::vector<Tensor>& x) { return ops::where(ops::less(x[0], x[1]), x[0], x[1]); },
      {real({3, 4}), real({4}, 2)});
}

/// The gradient of `f` at one value, in f32.
double slope(Unary f, double at) {
  const Input x = input_of(NDArray::full({1}, f32, at));
  const Tensor dx = gradient(f(x.tensor, Where::current()), x.tensor);
  return run_interpreted(dx, {x}).result.get(0);
}

TEST(ElementGradient, PointsWithoutADerivativeAreAsInPyTorch) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(slope(ops::abs, 0), 0);
  EXPECT_EQ(slope(ops::relu, 0), 0);
  EXPECT_EQ(slope(ops::relu6, 6), 0);
  EXPECT_EQ(slope(ops::sqrt, 0), inf);
  EXPECT_EQ(slope(ops::softplus, 0), 0.5);
  const Input a = input_of(NDArray::full({1}, f32, 3), "a"),
              b = input_of(NDArray::full({1}, f32, 3), "b");
  for (const Tensor& dx : gradient({ops::maximum(a, b)}, {a, b}))
    EXPECT_EQ(run_interpreted(dx, {a, b}).result.get(0), 0.5);
}

TEST(ElementGradient, AnInfiniteArmThatIsNotTakenDoesNoHarm) {
  // exp overflows far from 0, where another arm or a finite quotient is the value.
  EXPECT_EQ(slope(ops::selu, 200), 1.0507009873554805f);
  EXPECT_EQ(slope(ops::sigmoid, -200), 0);
  EXPECT_EQ(slope(ops::sigmoid, 200), 0);
  EXPECT_EQ(slope(ops::silu, -200), 0);
  EXPECT_EQ(slope(ops::softplus, 200), 1);
  EXPECT_EQ(slope(ops::softplus, -200), 0);
}

TEST(ElementGradient, SmallFloatsAndConversions) {
  const Input x = input({4, 8}, bf16);
  const Tensor y = ops::cast(ops::square(ops::cast(x, f32)), bf16);
  const Tensor dx = gradient(ops::sum(y, {0, 1}), x.tensor);
  EXPECT_EQ(dx.dtype(), bf16);
  expect_elements(dx, {x}, [&](const Dims& p) { return 2 * x.at(p); });
}

}  // namespace
}  // namespace heddle
