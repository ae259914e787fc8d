#include "heddle/driver/build.h"
#include "heddle/dsl/arrays.h"
#include "ops/ops_testing.h"

namespace heddle {
namespace {

struct UnaryCase {
  const char* name;
  Tensor (*op)(const Tensor&, Where);
  double (*reference)(double);
  double lo = -2, hi = 2;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::log1p(std::exp(x)); }
double clip(double x, double lo, double hi) { return std::min(std::max(x, lo), hi); }

const UnaryCase kUnary[] = {
    {"neg", ops::neg, [](double x) { return -x; }},
    {"abs", ops::abs, [](double x) { return std::abs(x); }},
    {"sign", ops::sign, [](double x) { return x > 0   ? 1.0
                                              : x < 0 ? -1.0
                                                      : 0.0; }},
    {"square", ops::square, [](double x) { return x * x; }},
    {"reciprocal", ops::reciprocal, [](double x) { return 1 / x; }, 0.5, 3},
    {"exp", ops::exp, [](double x) { return std::exp(x); }},
    {"exp2", ops::exp2, [](double x) { return std::exp2(x); }},
    {"expm1", ops::expm1, [](double x) { return std::expm1(x); }},
    {"log", ops::log, [](double x) { return std::log(x); }, 0.1, 4},
    {"log2", ops::log2, [](double x) { return std::log2(x); }, 0.1, 4},
    {"log10", ops::log10, [](double x) { return std::log10(x); }, 0.1, 4},
    {"log1p", ops::log1p, [](double x) { return std::log1p(x); }, -0.5, 4},
    {"sqrt", ops::sqrt, [](double x) { return std::sqrt(x); }, 0, 4},
    {"rsqrt", ops::rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0.1, 4},
    {"sin", ops::sin, [](double x) { return std::sin(x); }},
    {"cos", ops::cos, [](double x) { return std::cos(x); }},
    {"tan", ops::tan, [](double x) { return std::tan(x); }, -1, 1},
    {"asin", ops::asin, [](double x) { return std::asin(x); }, -1, 1},
    {"acos", ops::acos, [](double x) { return std::acos(x); }, -1, 1},
    {"atan", ops::atan, [](double x) { return std::atan(x); }},
    {"sinh", ops::sinh, [](double x) { return std::sinh(x); }},
    {"cosh", ops::cosh, [](double x) { return std::cosh(x); }},
    {"tanh", ops::tanh, [](double x) { return std::tanh(x); }},
    {"erf", ops::erf, [](double x) { return std::erf(x); }},
    {"floor", ops::floor, [](double x) { return std::floor(x); }},
    {"ceil", ops::ceil, [](double x) { return std::ceil(x); }},
    {"round", ops::round, [](double x) { return std::nearbyint(x); }},
    {"trunc", ops::trunc, [](double x) { return std::trunc(x); }},
    {"relu", ops::relu, [](double x) { return std::max(x, 0.0); }},
    {"relu6", ops::relu6, [](double x) { return clip(x, 0, 6); }, -9, 9},
    {"selu", ops::selu,
     [](double x) {
       return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * (std::exp(x) - 1));
     }},
    {"sigmoid", ops::sigmoid, sigmoid, -30, 30},
    {"gelu", ops::gelu, [](double x) { return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }},
    {"gelu_tanh", ops::gelu_tanh,
     [](double x) {
       return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
     }},
    {"silu", ops::silu, [](double x) { return x * sigmoid(x); }, -9, 9},
    {"softplus", ops::softplus, softplus, -30, 30},
    {"softsign", ops::softsign, [](double x) { return x / (1 + std::abs(x)); }},
    {"mish", ops::mish, [](double x) { return x * std::tanh(softplus(x)); }, -9, 9},
    {"hardswish", ops::hardswish, [](double x) { return x * clip(x / 6 + 0.5, 0, 1); }, -5, 5},
};

TEST(Unary, AgreesWithTheReference) {
  for (const UnaryCase& c : kUnary) {
    SCOPED_TRACE(c.name);
    for (DataType t : {f32, f64, f16, bf16}) {
      const Input x = input({3, 7}, t, 5, c.lo, c.hi);
      const Tensor y = c.op(x, Where::current());
      EXPECT_EQ(y.dtype(), t);
      EXPECT_EQ(y.op()->tag(), c.name);
      expect_elements(y, {x}, [&](const Dims& i) { return c.reference(x.at(i)); });
    }
  }
}

TEST(Unary, WithParameters) {
  const Input x = input({11}, f32, 2, -3, 3);
  expect_elements(ops::leaky_relu(x, 0.2), {x},
                  [&](const Dims& i) { return x.at(i) < 0 ? 0.2 * x.at(i) : x.at(i); });
  expect_elements(ops::elu(x, 0.5), {x},
                  [&](const Dims& i) { return x.at(i) < 0 ? 0.5 * std::expm1(x.at(i)) : x.at(i); });
  expect_elements(ops::hardsigmoid(x, 0.2), {x},
                  [&](const Dims& i) { return clip(0.2 * x.at(i) + 0.5, 0, 1); });
  expect_elements(ops::clip(x, -0.5, 1.25), {x},
                  [&](const Dims& i) { return clip(x.at(i), -0.5, 1.25); });
  expect_elements(ops::pow(x, 3), {x}, [&](const Dims& i) { return std::pow(x.at(i), 3); }, 1e-5);
  expect_elements(ops::mul(x, 1.5), {x}, [&](const Dims& i) { return 1.5 * x.at(i); });
  const Input slope = input({2, 1}, f32, 3), z = input({3, 2, 4}, f32, 4);
  expect_elements(ops::prelu(z, slope), {z, slope},
                  [&](const Dims& i) { return z.at(i) < 0 ? z.at(i) * slope(i[1], 0) : z.at(i); });
}

TEST(Unary, ClipOfIntegersRoundsItsBoundsInwards) {
  const Input x = input({40}, i8, 2, -100, 100);
  expect_elements(ops::clip(x, -3.5, 1000), {x},
                  [&](const Dims& i) { return std::max(x.at(i), -3.0); });
}

TEST(Unary, ExtremesDoNotOverflow) {
  const float inf = std::numeric_limits<float>::infinity();
  const Input x = input_of(NDArray::from<float>({-200, 200, -inf, inf}));
  const double sig[] = {0, 1, 0, 1}, soft[] = {0, 200, 0, static_cast<double>(inf)};
  expect_elements(ops::sigmoid(x), {x}, [&](const Dims& i) { return sig[i[0]]; });
  expect_elements(ops::softplus(x), {x}, [&](const Dims& i) { return soft[i[0]]; });
}

TEST(Binary, BroadcastsBothWays) {
  const Input a = input({4, 1, 3}, f32, 1), b = input({5, 1}, f32, 2, 0.5, 2);
  const auto check = [&](const Tensor& y, double (*f)(double, double)) {
    SCOPED_TRACE(y.name());
    EXPECT_EQ(y.extents(), (Dims{4, 5, 3}));
    expect_elements(y, {a, b}, [&](const Dims& i) { return f(a(i[0], 0, i[2]), b(i[1], 0)); });
  };
  check(ops::add(a, b), [](double x, double y) { return x + y; });
  check(ops::sub(a, b), [](double x, double y) { return x - y; });
  check(ops::mul(a, b), [](double x, double y) { return x * y; });
  check(ops::div(a, b), [](double x, double y) { return x / y; });
  check(ops::maximum(a, b), [](double x, double y) { return std::max(x, y); });
  check(ops::minimum(a, b), [](double x, double y) { return std::min(x, y); });
  check(ops::atan2(a, b), [](double x, double y) { return std::atan2(x, y); });
  check(ops::pow(ops::abs(a), b), [](double x, double y) { return std::pow(std::abs(x), y); });
  check(ops::floor_divide(a, b), [](double x, double y) { return std::floor(x / y); });
  check(ops::fmod(a, b), [](double x, double y) { return std::fmod(x, y); });
  check(ops::mod(a, b), [](double x, double y) { return x - std::floor(x / y) * y; });
  check(ops::less(a, b), [](double x, double y) { return x < y ? 1.0 : 0.0; });
  check(ops::greater_equal(a, b), [](double x, double y) { return x >= y ? 1.0 : 0.0; });
}

TEST(Binary, OfIntegers) {
  const Input a = input({50}, i32, 1, -20, 20);
  const Input b = input_of(NDArray::from<int32_t>(std::vector<int32_t>(50, -3)), "b");
  const auto check = [&](const Tensor& y, int (*f)(int, int)) {
    SCOPED_TRACE(y.name());
    expect_elements(y, {a, b}, [&](const Dims& i) {
      return static_cast<double>(f(static_cast<int>(a.at(i)), static_cast<int>(b.at(i))));
    });
  };
  check(ops::div(a, b), [](int x, int y) { return x / y; });
  check(ops::fmod(a, b), [](int x, int y) { return x % y; });
  check(ops::mod(a, b), [](int x, int y) { return ((x % y) + y) % y; });
  check(ops::floor_divide(a, b),
        [](int x, int y) { return static_cast<int>(std::floor(static_cast<double>(x) / y)); });
  check(ops::bitwise_and(a, b), [](int x, int y) { return x & y; });
  check(ops::bitwise_or(a, b), [](int x, int y) { return x | y; });
  check(ops::bitwise_xor(a, b), [](int x, int y) { return x ^ y; });
  check(ops::shift_right(a, ops::neg(b)), [](int x, int) { return x >> 3; });
  check(ops::shift_left(ops::neg(b), ops::neg(b)), [](int, int) { return 24; });
  check(ops::equal(a, b), [](int x, int y) { return x == y ? 1 : 0; });
  check(ops::not_equal(a, b), [](int x, int y) { return x != y ? 1 : 0; });
}

TEST(Logic, OfBools) {
  const Input a = input({3, 9}, boolean, 1), b = input({9}, boolean, 2);
  const auto both = [&](const Dims& i) { return std::pair{a.at(i) != 0, b(i[1]) != 0}; };
  expect_elements(ops::logical_and(a, b), {a, b},
                  [&](const Dims& i) { return both(i).first && both(i).second; });
  expect_elements(ops::logical_or(a, b), {a, b},
                  [&](const Dims& i) { return both(i).first || both(i).second; });
  expect_elements(ops::logical_xor(a, b), {a, b},
                  [&](const Dims& i) { return both(i).first != both(i).second; });
  expect_elements(ops::logical_not(a), {a}, [&](const Dims& i) { return a.at(i) == 0; });
  const Input x = input({3, 1}, f32, 3), y = input({9}, f32, 4);
  expect_elements(ops::where(b, x, y), {b, x, y},
                  [&](const Dims& i) { return b(i[1]) != 0 ? x(i[0], 0) : y(i[1]); });
}

TEST(Cast, Converts) {
  const Input x = input({20}, f32, 1, -5, 5);
  expect_elements(ops::cast(x, i32), {x}, [&](const Dims& i) { return std::trunc(x.at(i)); });
  expect_elements(ops::cast(x, boolean), {x}, [&](const Dims& i) { return x.at(i) != 0; });
  expect_elements(ops::cast(x, f16), {x}, [&](const Dims& i) { return x.at(i); });
}

TEST(Full, HasOneValueInEveryElement) {
  expect_elements(ops::full({2, 3}, 1.5), {}, [](const Dims&) { return 1.5; });
  expect_elements(ops::zeros({4}, i8), {}, [](const Dims&) { return 0; });
  const Input x = input({3, 5}, f32);
  const Tensor one = ops::ones(x.tensor.extents());
  EXPECT_EQ(one.extents(), (Dims{3, 5}));
  expect_elements(ops::add(x, one), {x}, [&](const Dims& i) { return x.at(i) + 1; });
  EXPECT_EQ(ops::full(std::vector<int>{7, 0}, 1).size(), 0);
  EXPECT_EQ(ops::full({}, 2, f64).rank(), 0);
}

TEST(Full, IsBuiltWithoutInputsAndIntoWhatReadsIt) {
  const Tensor minus_three = ops::full({5, 17}, -3, i32);
  NDArray alone = zeros_like(minus_three);
  build(create_schedule({minus_three}), {minus_three})(alone);
  EXPECT_TRUE(allclose(alone, full_like(minus_three, -3), 0, 0));

  const Tensor x = placeholder({5, 17}, i32, "x");
  const Tensor y = ops::mul(x, minus_three);
  const NDArray in = random_like(x, 1);
  NDArray out = zeros_like(y);
  build(create_schedule({y}), {x, y})(in, out);
  for (int64_t i = 0; i < out.size(); ++i) EXPECT_EQ(out.get(i), in.get(i) * -3);
}

TEST(Full, AValueThatTheTypeDoesNotHoldIsAnError) {
  for (const auto& [value, type] : {std::pair{300.0, i8}, {0.5, i32}, {-1.0, u16}}) {
    try {
      ops::full({4}, value, type);
      FAIL() << value;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User);
      EXPECT_THAT(e.message, testing::HasSubstr(to_string(type)));
      EXPECT_TRUE(e.where.known());
    }
  }
}

TEST(ElementwiseErrors, NameOperatorArgumentAndShapes) {
  const Input a = input({2, 3}), b = input({4}), h = input({3}, f16), n = input({3}, i32);
  EXPECT_EQ(error_of([&] { ops::add(a, b); }),
            "add: the shapes (2, 3) and (4) do not broadcast | from the back, extents must be "
            "equal or 1");
  EXPECT_EQ(error_of([&] { ops::add(a, h); }),
            "add: 'x1' is f32 (2, 3) but 'x1' is f16 (3) | convert one of them with ops::cast");
  EXPECT_EQ(error_of([&] { ops::exp(n); }),
            "exp: argument 'x' is i32 (3), and needs a float type | convert it with "
            "ops::cast(x, f32)");
  EXPECT_EQ(error_of([&] { ops::gelu(Tensor()); }),
            "gelu: argument 'x' is a Tensor that was never assigned | ");
  EXPECT_EQ(error_of([&] { ops::where(a, a, a); }),
            "where: argument 'condition' is f32 (2, 3), and needs bool | compare it first, for "
            "example with ops::not_equal");
  EXPECT_EQ(error_of([&] { ops::clip(a, 2, 1); }),
            "clip: the lower bound 2.000000 is above the upper bound 1.000000 | ");
  EXPECT_EQ(error_of([&] { ops::prelu(h, ops::cast(a, f16)); }),
            "prelu: 'slope' f16 (2, 3) does not broadcast to x f16 (3) | ");
}

}  // namespace
}  // namespace heddle
