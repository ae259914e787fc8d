// The pass short_functions: what it makes shorter, what it leaves, and how far its functions are
// from the exact ones, for all 65536 numbers of 16 bits.
#include <cmath>
#include <cstring>
#include <functional>

#include "lower/lower_testing.h"
#include "lower/passes.h"

namespace heddle::testing {
namespace {

constexpr int64_t kNumbers = 1 << 16;

/// `y` after the pass, where x is the element that is loaded.
struct Changed {
  Buffer from, to;
  Stmt loop;
  Expr value() const { return loop.as<For>()->body.as<Store>()->value; }
};

/// The pass on a body that is stored as `t`. `y` takes x as `t`.
Changed changed(DataType t, const std::function<Expr(const Expr&)>& y) {
  const Buffer from = Buffer::make("X", t, {kNumbers}, Scope::Argument),
               to = Buffer::make("Y", t, {kNumbers}, Scope::Argument);
  const Var i("i");
  return {from, to,
          lowering::short_functions(make_for(i, kNumbers, LoopKind::Serial,
                                             make_store(to, {i}, y(make_load(from, {i})))))};
}

bool is_changed(DataType t, const std::function<Expr(const Expr&)>& y) {
  const Changed after = changed(t, y);
  return any_below(after.value(), [](const Expr& e) {
    return e.as<Unary>() && e.as<Unary>()->op == UnaryOp::Exp2;
  });
}

/// The distance between two numbers of type `t` as it was made shorter, and `exact`, in halves of
/// the unit in the last place of the exact result; the largest of all finite arguments.
double most_halves(DataType t, const std::function<Expr(const Expr&)>& y,
                   const std::function<double(double)>& exact) {
  const Changed after = changed(t, y);
  // Before its rounding, in f32.
  const Buffer wide = Buffer::make("Y", f32, {kNumbers}, Scope::Argument);
  const For& loop = *after.loop.as<For>();
  const Store& store = *loop.body.as<Store>();
  const LoweredFunction f{"f",
                          {after.from, wide},
                          make_for(loop.var, kNumbers, LoopKind::Serial,
                                   make_store(wide, store.indices, store.value.as<Cast>()->value))};
  const NDArray x = NDArray::zeros({kNumbers}, t), out = NDArray::zeros({kNumbers}, f32);
  for (int64_t b = 0; b < kNumbers; ++b) {
    const auto bits = static_cast<uint16_t>(b);
    std::memcpy(static_cast<char*>(x.data()) + 2 * b, &bits, 2);
  }
  interpret(f, {x, out});
  const int mantissa = t == f16 ? 10 : 7, least = t == f16 ? -14 : -126;
  double most = 0;
  for (int64_t b = 0; b < kNumbers; ++b) {
    const double at = x.get(b), want = exact(at);
    if (!std::isfinite(at) || !std::isfinite(want)) continue;
    const int exponent = want == 0 ? least : std::max(least, std::ilogb(want));
    most = std::max(most, std::fabs(out.get(b) - want) / std::ldexp(0.5, exponent - mantissa));
  }
  return most;
}

Expr gelu_of(const Expr& x) { return x * 0.5 * (1 + erf(x * std::sqrt(0.5))); }
Expr gelu(const Expr& x) { return cast(x.dtype(), gelu_of(cast(f32, x))); }
// As a file has it, each operator of 16 bits.
Expr gelu_by_operators(const Expr& x) {
  const DataType t = x.dtype();
  return x * (erf(x / make_const(t, std::sqrt(2.0))) + make_const(t, 1)) * make_const(t, 0.5);
}
Expr gelu_tanh(const Expr& x) {
  const Expr v = cast(f32, x);
  return cast(x.dtype(), v * 0.5 * (1 + tanh((v + v * v * v * 0.044715) * 0.7978845608028654)));
}
Expr silu(const Expr& x) {
  const Expr v = cast(f32, x);
  return cast(x.dtype(), v / (1 + exp(-v)));
}
Expr sigmoid(const Expr& x) { return cast(x.dtype(), 1 / (1 + exp(-cast(f32, x)))); }

double exact_gelu(double x) { return x * 0.5 * std::erfc(-x * std::sqrt(0.5)); }

TEST(ShortFunctions, AreFarBelowHalfAUnitOfTheResult) {
  EXPECT_LT(most_halves(f16, gelu, exact_gelu), 0.03);
  EXPECT_LT(most_halves(f16, gelu_tanh,
                        [](double x) {
                          const double z = (x + x * x * x * 0.044715) * 0.7978845608028654;
                          return x / (1 + std::exp(-2 * z));
                        }),
            0.03);
  EXPECT_LT(most_halves(f16, silu, [](double x) { return x / (1 + std::exp(-x)); }), 0.03);
  EXPECT_LT(most_halves(f16, sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }), 0.03);
  EXPECT_LT(
      most_halves(bf16, silu, [](double x) { return x < -80 ? NAN : x / (1 + std::exp(-x)); }),
      0.03);
}

// A power beside a sum, as in the gradient of a softmax. The sum is not rounded before.
TEST(ShortFunctions, PowersOfAProductAreThoseOfTwo) {
  const auto power = [](const Expr& x) {
    const Expr v = cast(f32, x);
    return cast(x.dtype(), exp(v * 0.125f - 2) * 0.5f);
  };
  const auto exact = [](double x) { return 0.5 * std::exp(x * 0.125 - 2); };
  const auto finite = [&](double x) { return std::fabs(x) > 600 ? NAN : exact(x); };
  EXPECT_LT(most_halves(f16, power, finite), 0.03);
  EXPECT_LT(most_halves(bf16, power, finite), 0.03);
  EXPECT_LT(
      most_halves(
          f16,
          [](const Expr& x) {
            const Expr v = cast(f32, x);
            return cast(f16, (cast(f32, cast(f16, v * 0.3f)) + 1) * exp(v * 0.125f));
          },
          [](double x) { return x < 0 || x > 80 ? NAN : (x * 0.3f + 1) * std::exp(x * 0.125); }),
      0.1);
  EXPECT_FALSE(is_changed(f32, [](const Expr& x) { return exp(x); }));
}

// bf16 has numbers that are far smaller than the last ones of the polynomial, which is constant from
// there on.
TEST(ShortFunctions, GeluOfBf16EndsNearZero) {
  EXPECT_LT(most_halves(bf16, gelu, [](double x) { return x < -6.5 ? NAN : exact_gelu(x); }), 0.03);
  const Changed after = changed(bf16, gelu);
  const NDArray x = NDArray::zeros({kNumbers}, bf16), y = NDArray::zeros({kNumbers}, bf16);
  x.set(0, -1e30);
  x.set(1, 1e30);
  x.set(2, -INFINITY);
  x.set(3, INFINITY);
  x.set(4, NAN);
  interpret({"f", {after.from, after.to}, after.loop}, {x, y});
  EXPECT_NEAR(y.get(0), 0, 1e-9);
  EXPECT_NEAR(y.get(1), 1e30, 1e28);
  EXPECT_NEAR(y.get(2), 0, 1e-9);
  EXPECT_EQ(y.get(3), INFINITY);
  EXPECT_TRUE(std::isnan(y.get(4)));
}

TEST(ShortFunctions, GeluIsRecognisedInSeveralForms) {
  EXPECT_TRUE(is_changed(f16, gelu));
  EXPECT_TRUE(is_changed(f16, gelu_by_operators));
  EXPECT_TRUE(is_changed(bf16, gelu_by_operators));
  EXPECT_TRUE(is_changed(f16, [](const Expr& x) {
    const Expr v = cast(f32, x) + 1;  // of a sum
    return cast(f16, gelu_of(v));
  }));
  EXPECT_TRUE(is_changed(f16, [](const Expr& x) {  // times a gate
    return cast(f16, gelu_of(cast(f32, x)) * cast(f32, x));
  }));
}

TEST(ShortFunctions, OthersStay) {
  const auto of_f32 = [](const Expr& x) { return gelu_of(x); };
  EXPECT_FALSE(is_changed(f32, of_f32)) << "more bits are needed";
  EXPECT_FALSE(is_changed(f16, [](const Expr& x) { return erf(x); }));
  EXPECT_FALSE(is_changed(f16, [](const Expr& x) {
    const Expr v = cast(f32, x);
    return cast(f16, v * 0.5 * (1 + erf(v)));  // another function
  }));
  EXPECT_FALSE(is_changed(f16, [](const Expr& x) {
    const Expr v = cast(f32, x);
    return cast(f16, gelu_of(v) - v);  // differences may need all bits
  }));
}

// The constants of a file in 16 bits are not those of gelu, and are kept.
TEST(ShortFunctions, RoundedConstantsCount) {
  const double rounded = 1 / 1.4140625;
  const auto exact = [&](double x) { return x * 0.5 * std::erfc(-x * rounded); };
  EXPECT_LT(most_halves(f16, gelu_by_operators, exact), 0.03);
}

}  // namespace
}  // namespace heddle::testing
