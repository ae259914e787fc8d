// Unary and binary operations against libm: f32 and f64, scalar and vector. Errors are in units of
// the last place of the exact result, from a sweep that includes denormals, overflow and NaN.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "codegen/llvm_util.h"

namespace heddle::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Distance of `got` from the exact `want` in units of the last place of T around `want`.
template <class T>
double ulps(T got, long double want) {
  const T nearest = static_cast<T>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e9;
  if (std::isinf(nearest)) {
    // The largest finite number is one unit away from an overflow.
    return got == nearest                                                 ? 0
           : got == std::copysign(std::numeric_limits<T>::max(), nearest) ? 1
                                                                          : 1e9;
  }
  if (std::isnan(got) || std::isinf(got)) {
    return !std::isnan(got) && std::abs(nearest) == std::numeric_limits<T>::max() ? 1 : 1e9;
  }
  const int exponent =
      std::max(nearest == 0 ? std::numeric_limits<T>::min_exponent : std::ilogb(nearest) + 1,
               std::numeric_limits<T>::min_exponent);
  const long double unit = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(std::abs(static_cast<long double>(got) - want) / unit);
}

struct Function {
  UnaryOp op;
  std::function<long double(long double)> exact;
  double low, high;  ///< where most arguments are drawn from
  double bound_f32;  ///< ulp
  double bound_f64;
  bool tails_agree;       ///< f32 scalars give the same bits as vectors
  double zero_below = 0;  ///< f32 results smaller than this may be zero
};

// Computed with integers as multiples of the last of 10 bits of mantissa. Numbers below the smallest
// normal f32 have fewer bits.
long double round_tf32(long double x) {
  const auto single = static_cast<float>(x);
  if (!std::isfinite(single) || single == 0) return single;
  const int last = std::max(std::ilogb(single), -126) - 10;
  const long double result =
      std::ldexp(std::round(std::ldexp(static_cast<long double>(single), -last)), last);
  return std::abs(result) > std::numeric_limits<float>::max() ? std::copysign(kInf, single)
                                                              : result;
}

std::vector<Function> functions() {
  using L = long double;
  return {
      {UnaryOp::Exp, [](L x) { return std::exp(x); }, -110, 95, 1.2, 4, true, 0x1p-125},
      {UnaryOp::Exp2, [](L x) { return std::exp2(x); }, -155, 130, 1.5, 2, true, 0x1p-125},
      {UnaryOp::Expm1, [](L x) { return std::expm1(x); }, -20, 90, 3, 4, true},
      {UnaryOp::Log, [](L x) { return std::log(x); }, 0, 100, 2, 2, true},
      {UnaryOp::Log2, [](L x) { return std::log2(x); }, 0, 100, 2, 2, true},
      {UnaryOp::Log10, [](L x) { return std::log10(x); }, 0, 100, 2, 4, true},
      {UnaryOp::Log1p, [](L x) { return std::log1p(x); }, -1, 100, 4, 4, true},
      {UnaryOp::Sqrt, [](L x) { return std::sqrt(x); }, 0, 1e6, 0.5001, 0.5001, true},
      {UnaryOp::Rsqrt, [](L x) { return 1 / std::sqrt(x); }, 0, 1e6, 1.5, 1.5, true},
      {UnaryOp::Sin, [](L x) { return std::sin(x); }, -100, 100, 4, 4, false},
      {UnaryOp::Cos, [](L x) { return std::cos(x); }, -100, 100, 4, 4, false},
      {UnaryOp::Tan, [](L x) { return std::tan(x); }, -10, 10, 4, 4, false},
      {UnaryOp::Asin, [](L x) { return std::asin(x); }, -1, 1, 4, 4, false},
      {UnaryOp::Acos, [](L x) { return std::acos(x); }, -1, 1, 4, 4, false},
      {UnaryOp::Atan, [](L x) { return std::atan(x); }, -10, 10, 4, 4, false},
      {UnaryOp::Sinh, [](L x) { return std::sinh(x); }, -90, 90, 4, 4, false},
      {UnaryOp::Cosh, [](L x) { return std::cosh(x); }, -90, 90, 4, 4, false},
      {UnaryOp::Tanh, [](L x) { return std::tanh(x); }, -12, 12, 7, 4, true},
      {UnaryOp::Erf, [](L x) { return std::erf(x); }, -5, 5, 6, 4, true},
      {UnaryOp::Floor, [](L x) { return std::floor(x); }, -10, 10, 0, 0, true},
      {UnaryOp::Ceil, [](L x) { return std::ceil(x); }, -10, 10, 0, 0, true},
      {UnaryOp::Trunc, [](L x) { return std::trunc(x); }, -10, 10, 0, 0, true},
      {UnaryOp::Round, [](L x) { return std::nearbyint(x); }, -10, 10, 0, 0, true},
      {UnaryOp::RoundTf32, round_tf32, -10, 10, 0, 0, true},
      {UnaryOp::Neg, [](L x) { return -x; }, -10, 10, 0, 0, true},
      {UnaryOp::Abs, [](L x) { return std::abs(x); }, -10, 10, 0, 0, true},
  };
}

template <class T>
std::vector<T> arguments(double low, double high, int64_t n) {
  std::mt19937_64 random(42);
  std::uniform_real_distribution<double> uniform(low, high), exponent(-44, 5);
  std::vector<T> x{static_cast<T>(kInf),
                   static_cast<T>(-kInf),
                   static_cast<T>(kNan),
                   T(0),
                   T(-0.0),
                   T(1),
                   T(-1),
                   T(0.5),
                   T(-0.5),
                   T(2.5),
                   T(-2.5),
                   T(1.5),
                   T(3.5),
                   T(1e-40),
                   T(-1e-40),
                   T(1e-45),
                   std::numeric_limits<T>::min(),
                   std::numeric_limits<T>::max(),
                   std::numeric_limits<T>::lowest(),
                   T(88.72283),
                   T(88.72284),
                   T(-87.33654),
                   T(-103.97),
                   T(-104),
                   T(127.99999),
                   T(0.99999994),
                   T(1.0000001),
                   T(8388609),
                   T(4194304.5)};
  while (static_cast<int64_t>(x.size()) < n) {
    // Half of them evenly in the range, half at all scales.
    if (x.size() % 2) {
      x.push_back(static_cast<T>(uniform(random)));
    } else {
      x.push_back(static_cast<T>(std::copysign(std::pow(10.0, exponent(random)), uniform(random))));
    }
  }
  return x;
}

template <class T>
void check(const Function& f, double bound, bool tails_agree) {
  constexpr int64_t kN = 40000;
  const DataType t = sizeof(T) == 4 ? f32 : f64;
  const std::vector<T> x = arguments<T>(f.low, f.high, kN);
  std::vector<T> scalar(kN), vector(kN), odd(kN);
  const auto body = [&](const std::vector<Expr>& e) { return make_unary(f.op, e[0]); };
  const int lanes = test_target().vector_lanes(sizeof(T));
  call(compile(elementwise({t}, t, kN, 1, body)), x.data(), scalar.data());
  call(compile(elementwise({t}, t, kN, lanes, body)), x.data(), vector.data());
  call(compile(elementwise({t}, t, kN, 2 * lanes + 3, body)), x.data(), odd.data());
  double worst = 0;
  T worst_at = 0, worst_got = 0;
  for (int64_t i = 0; i < kN; ++i) {
    // Where glibc's own long double functions are slow or meaningless.
    const bool periodic = f.op == UnaryOp::Sin || f.op == UnaryOp::Cos || f.op == UnaryOp::Tan;
    if (periodic && std::isfinite(x[i]) && std::abs(x[i]) > 1e5) continue;
    const long double want = f.exact(static_cast<long double>(x[i]));
    for (T got : {scalar[i], vector[i], odd[i]}) {
      if (sizeof(T) == 4 && got == 0 && want > 0 && want < f.zero_below) continue;
      const double error = ulps(got, want);
      if (error > worst) {
        worst = error;
        worst_at = x[i];
        worst_got = got;
      }
    }
    if (tails_agree) {
      ASSERT_EQ(std::isnan(scalar[i]), std::isnan(vector[i]));
      if (!std::isnan(scalar[i])) {
        ASSERT_EQ(scalar[i], vector[i]) << to_string(f.op) << " at " << x[i];
        ASSERT_EQ(scalar[i], odd[i]) << to_string(f.op) << " at " << x[i];
      }
    }
  }
  std::printf("%-6s %s max %.3f ulp at %.9g\n", to_string(f.op), sizeof(T) == 4 ? "f32" : "f64",
              worst, static_cast<double>(worst_at));
  EXPECT_LE(worst, bound) << to_string(f.op) << " at " << worst_at << " gives " << worst_got
                          << ", exactly " << f.exact(static_cast<long double>(worst_at));
}

TEST(LlvmMath, UnaryFunctionsOfF32) {
  for (const Function& f : functions()) check<float>(f, f.bound_f32, f.tails_agree);
}

TEST(LlvmMath, UnaryFunctionsOfF64) {
  for (const Function& f : functions()) check<double>(f, f.bound_f64, false);
}

TEST(LlvmMath, ErfIsExactlyOneWhereItRoundsToOne) {
  const std::vector<float> x{3.9f, 3.92f, 4, 10, 1e30f, kInf, -3.9f, -4, -10, -kInf};
  for (int lanes : {1, 5, 8}) {
    std::vector<float> y(x.size());
    call(compile(elementwise(
             {f32}, f32, static_cast<int64_t>(x.size()), lanes,
             [](const std::vector<Expr>& e) { return make_unary(UnaryOp::Erf, e[0]); })),
         x.data(), y.data());
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], x[i] > 0 ? 1.0f : -1.0f) << x[i];
  }
}

TEST(LlvmMath, NanAndInfinityAreFound) {
  for (int lanes : {1, 4, 5}) {
    const std::vector<float> x{1, kNan, kInf, -kInf, 0, 1e38f, -kNan, 2, 3, 4};
    std::vector<uint8_t> nan(10), inf(10);
    const auto run = [&](UnaryOp op, std::vector<uint8_t>& out) {
      call(compile(elementwise({f32}, boolean, 10, lanes,
                               [&](const std::vector<Expr>& e) { return make_unary(op, e[0]); })),
           x.data(), out.data());
    };
    run(UnaryOp::IsNan, nan);
    run(UnaryOp::IsInf, inf);
    EXPECT_EQ(nan, (std::vector<uint8_t>{0, 1, 0, 0, 0, 0, 1, 0, 0, 0}));
    EXPECT_EQ(inf, (std::vector<uint8_t>{0, 0, 1, 1, 0, 0, 0, 0, 0, 0}));
  }
}

template <class T>
void check_binary(BinaryOp op, std::function<long double(long double, long double)> exact,
                  double low, double high, double bound) {
  constexpr int64_t kN = 5000;
  const DataType t = sizeof(T) == 4 ? f32 : f64;
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> uniform(low, high), second(-8, 8);
  std::vector<T> x(kN), y(kN), out(kN);
  for (T& v : x) v = static_cast<T>(uniform(random));
  for (T& v : y) v = static_cast<T>(second(random));
  for (int lanes : {1, 3, 8, 16}) {
    call(compile(
             elementwise({t, t}, t, kN, lanes,
                         [&](const std::vector<Expr>& e) { return make_binary(op, e[0], e[1]); })),
         x.data(), y.data(), out.data());
    for (int64_t i = 0; i < kN; ++i) {
      ASSERT_LE(ulps(out[i], exact(x[i], y[i])), bound)
          << to_string(op) << "(" << x[i] << ", " << y[i] << ") = " << out[i];
    }
  }
}

template <class T>
void check_all_binary() {
  using L = long double;
  check_binary<T>(BinaryOp::Add, [](L a, L b) { return a + b; }, -10, 10, 0.5001);
  check_binary<T>(BinaryOp::Sub, [](L a, L b) { return a - b; }, -10, 10, 0.5001);
  check_binary<T>(BinaryOp::Mul, [](L a, L b) { return a * b; }, -10, 10, 0.5001);
  check_binary<T>(BinaryOp::Div, [](L a, L b) { return a / b; }, -10, 10, 0.5001);
  check_binary<T>(BinaryOp::Mod, [](L a, L b) { return std::fmod(a, b); }, -10, 10, 0);
  check_binary<T>(BinaryOp::Min, [](L a, L b) { return a < b ? a : b; }, -10, 10, 0);
  check_binary<T>(BinaryOp::Max, [](L a, L b) { return a > b ? a : b; }, -10, 10, 0);
  check_binary<T>(BinaryOp::Pow, [](L a, L b) { return std::pow(a, b); }, 0, 20, 4);
  check_binary<T>(BinaryOp::Atan2, [](L a, L b) { return std::atan2(a, b); }, -10, 10, 4);
}

TEST(LlvmMath, BinaryFunctions) {
  check_all_binary<float>();
  check_all_binary<double>();
}

// No function of libm is called for the elements of a vector: that takes ten times as long.
TEST(LlvmMath, VectorsOfF32AreComputedWithoutCalls) {
  for (const char* text : {"llvm -mcpu=haswell -mtriple=x86_64-linux-gnu",
                           "llvm -mcpu=skylake-avx512 -mtriple=x86_64-linux-gnu"}) {
    const Target target = Target::parse(text);
    const int lanes = target.vector_lanes(4);
    for (UnaryOp op : {UnaryOp::Exp, UnaryOp::Exp2, UnaryOp::Expm1, UnaryOp::Log, UnaryOp::Log2,
                       UnaryOp::Log10, UnaryOp::Log1p, UnaryOp::Sqrt, UnaryOp::Rsqrt, UnaryOp::Tanh,
                       UnaryOp::Erf, UnaryOp::Floor, UnaryOp::Round, UnaryOp::Neg, UnaryOp::Abs}) {
      const LoweredFunction f =
          elementwise({f32}, f32, 4 * lanes, lanes,
                      [&](const std::vector<Expr>& e) { return make_unary(op, e[0]); });
      const std::string code = emit_llvm({f}, target, "s");
      EXPECT_EQ(code.find("call"), std::string::npos) << to_string(op) << "\n" << code;
      EXPECT_NE(code.find(lanes == 16 ? "zmm" : "ymm"), std::string::npos) << to_string(op);
    }
  }
}

// LLVM takes its saturating conversions of vectors apart, which costs 2 ns for each element.
TEST(LlvmMath, VectorsOfF32BecomeIntegersWithoutScalars) {
  const Target target = Target::parse("llvm -mcpu=skylake-avx512 -mtriple=x86_64-linux-gnu");
  for (const DataType to : {u8, i8, u16, i16, u32, i32}) {
    const LoweredFunction f = elementwise({f32}, to, 64, 16, [&](const std::vector<Expr>& x) {
      return cast(to.with_lanes(x[0].dtype().lanes), x[0]);
    });
    const std::string code = emit_llvm({f}, target, "s");
    EXPECT_EQ(code.find("cvttss2"), std::string::npos) << to_string(to) << "\n" << code;
    EXPECT_NE(code.find("vcvttps2"), std::string::npos) << to_string(to);
  }
}

}  // namespace
}  // namespace heddle::testing
