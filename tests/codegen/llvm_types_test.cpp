// Element types: memory round trips, conversions between all of them, integer arithmetic.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "codegen/llvm_util.h"
#include "support/numbers/float8.h"
#include "support/numbers/half.h"

namespace heddle::testing {
namespace {

const std::vector<DataType> kTypes{f64, f32, f16, bf16, f8e4m3, f8e5m2, i8,     i16,
                                   i32, i64, u8,  u16,  u32,    u64,    boolean};
const std::vector<int> kLaneCounts{1, 3, 4, 8, 16, 21};

std::vector<uint8_t> random_bytes(DataType t, int64_t n) {
  std::mt19937_64 random(11);
  std::vector<uint8_t> bytes(static_cast<size_t>(n * t.bytes()));
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(t.is_bool() ? random() % 2 : random());
  return bytes;
}

// The value of element i as a double (exact save for large 64-bit integers).
double value_of(DataType t, const uint8_t* p) {
  const auto as = [&](auto zero) {
    auto v = zero;
    std::memcpy(&v, p, sizeof v);
    return v;
  };
  if (t == f64) return as(double{});
  if (t == f32) return as(float{});
  if (t == f16) return half_to_float(as(uint16_t{}));
  if (t == bf16) return bfloat16_to_float(as(uint16_t{}));
  if (t == f8e4m3) return e4m3_to_float(as(uint8_t{}));
  if (t == f8e5m2) return e5m2_to_float(as(uint8_t{}));
  if (t == i8) return as(int8_t{});
  if (t == i16) return as(int16_t{});
  if (t == i32) return as(int32_t{});
  if (t == i64) return static_cast<double>(as(int64_t{}));
  if (t == u16) return as(uint16_t{});
  if (t == u32) return as(uint32_t{});
  if (t == u64) return static_cast<double>(as(uint64_t{}));
  return as(uint8_t{});
}

TEST(LlvmTypes, EveryTypeIsCopiedBitForBitAndNothingElseIsTouched) {
  for (DataType t : kTypes) {
    for (int lanes : kLaneCounts) {
      const int64_t n = 2 * lanes;
      CompiledModule m =
          compile(elementwise({t}, t, n, lanes, [](const std::vector<Expr>& x) { return x[0]; }));
      const std::vector<uint8_t> in = random_bytes(t, n);
      for (bool front : {false, true}) {
        GuardedArray<uint8_t> a(in.size(), front), b(in.size(), front);
        std::memcpy(a.data(), in.data(), in.size());
        ASSERT_EQ(call(m, a.data(), b.data()), 0);
        EXPECT_EQ(std::memcmp(a.data(), b.data(), in.size()), 0) << to_string(t) << " x " << lanes;
      }
    }
  }
}

// Whether `got` is what cast() specifies for a value given as a double. True where nothing is
// specified.
bool expect_cast(DataType to, double v, double got) {
  if (to.is_bool()) return got == (v != 0);
  if (to == f64) return got == v || (std::isnan(v) && std::isnan(got));
  if (to.is_float()) {
    double want = to == f32      ? static_cast<double>(static_cast<float>(v))
                  : to == f16    ? static_cast<double>(half_to_float(double_to_half(v)))
                  : to == f8e4m3 ? static_cast<double>(e4m3_to_float(double_to_e4m3(v)))
                  : to == f8e5m2 ? static_cast<double>(e5m2_to_float(double_to_e5m2(v)))
                                 : static_cast<double>(bfloat16_to_float(double_to_bfloat16(v)));
    return got == want || (std::isnan(want) && std::isnan(got));
  }
  const double t = std::trunc(v);
  const int bits = to.bits - (to.is_int() ? 1 : 0);
  const double high = std::ldexp(1.0, bits), low = to.is_int() ? -high : 0;
  if (std::isnan(v) || t < low || t >= high) return true;  // defined, but the test says nothing
  return got == t;
}

TEST(LlvmTypes, EveryConversion) {
  for (DataType from : kTypes) {
    for (DataType to : kTypes) {
      for (int lanes : {1, 4, 5, 8}) {
        const int64_t n = 512;
        CompiledModule m =
            compile(elementwise({from}, to, n, lanes, [&](const std::vector<Expr>& x) {
              return cast(to.with_lanes(x[0].dtype().lanes), x[0]);
            }));
        std::vector<uint8_t> in = random_bytes(from, n);
        if (from.is_float()) {
          // Values that other types hold, beside random bits.
          const double small[] = {0,     -0.0,  1,    -1,   2.5,     -3.5, 100.75, 255, -128,
                                  65504, 65520, 1e-7, 3e38, 1.0 / 3, 2049, 6e-8,   1e30};
          for (size_t i = 0; i < std::size(small); ++i) {
            uint8_t* p = in.data() + i * from.bytes();
            if (from == f64) std::memcpy(p, &small[i], 8);
            const float f = static_cast<float>(small[i]);
            if (from == f32) std::memcpy(p, &f, 4);
            const uint16_t h = from == f16 ? float_to_half(f) : float_to_bfloat16(f);
            if (from.bits == 16) std::memcpy(p, &h, 2);
          }
        }
        std::vector<uint8_t> out(n * to.bytes());
        ASSERT_EQ(call(m, in.data(), out.data()), 0);
        // A double does not hold every 64-bit integer, nor do two roundings equal one.
        const bool exact = !(from.is_integral() && from.bits == 64);
        for (int64_t i = 0; i < n; ++i) {
          const double v = value_of(from, in.data() + i * from.bytes());
          const double got = value_of(to, out.data() + i * to.bytes());
          if (exact) {
            const bool copied = from == to && (got == v || (std::isnan(v) && std::isnan(got)));
            ASSERT_TRUE(copied || expect_cast(to, v, got))
                << to_string(from) << " " << v << " to " << to_string(to) << " gives " << got
                << ", " << lanes << " lanes";
          } else if (to.is_integral() && !to.is_bool()) {
            uint64_t bits = 0, result = 0;
            std::memcpy(&bits, in.data() + i * 8, 8);
            std::memcpy(&result, out.data() + i * to.bytes(), to.bytes());
            const uint64_t mask = to.bits == 64 ? ~uint64_t{0} : (uint64_t{1} << to.bits) - 1;
            ASSERT_EQ(result, bits & mask) << to_string(from) << " to " << to_string(to);
          }
        }
      }
    }
  }
}

TEST(LlvmTypes, SmallFloatsRoundAfterEveryOperation) {
  for (DataType t : {f16, bf16, f8e4m3, f8e5m2}) {
    for (int lanes : {1, 8, 11}) {
      const int64_t n = 1024;
      CompiledModule m = compile(elementwise(
          {t, t}, t, n, lanes, [](const std::vector<Expr>& x) { return x[0] * x[1] + x[0]; }));
      const std::vector<uint8_t> in = random_bytes(t, 2 * n);
      const int64_t size = t.bytes();
      std::vector<uint8_t> out(n * size);
      ASSERT_EQ(call(m, in.data(), in.data() + n * size, out.data()), 0);
      for (int64_t i = 0; i < n; ++i) {
        const auto round = [&](float v) {
          return t == f16      ? half_to_float(float_to_half(v))
                 : t == f8e4m3 ? e4m3_to_float(float_to_e4m3(v))
                 : t == f8e5m2 ? e5m2_to_float(float_to_e5m2(v))
                               : bfloat16_to_float(float_to_bfloat16(v));
        };
        const float a = static_cast<float>(value_of(t, in.data() + size * i));
        const float b = static_cast<float>(value_of(t, in.data() + size * (n + i)));
        const float want = round(round(a * b) + a);
        const float got = static_cast<float>(value_of(t, out.data() + size * i));
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(got));
        } else {
          ASSERT_EQ(got, want) << to_string(t) << " " << a << " " << b;
        }
      }
    }
  }
}

// ---- integers ----

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

template <class T>
void check_division(DataType t, bool by_constant) {
  std::mt19937_64 random(5);
  const int64_t n = 600;
  for (int lanes : {1, 3, 8}) {
    for (int round = 0; round < (by_constant ? 12 : 2); ++round) {
      std::vector<T> a(n), b(n), div(n), mod(n), fdiv(n), fmod(n);
      const T constants[] = {1, 2, 3, 7, 8, 10, 64, 100, T(-1), T(-2), T(-3), T(-8)};
      for (int64_t i = 0; i < n; ++i) {
        a[i] = static_cast<T>(random() >> (random() % 64));
        b[i] = by_constant ? constants[round] : static_cast<T>(random() >> (random() % 64));
        if (b[i] == 0) b[i] = 1;
      }
      a[0] = std::numeric_limits<T>::min();
      a[1] = std::numeric_limits<T>::max();
      a[2] = a[0] = std::numeric_limits<T>::min();
      if (!by_constant && std::is_signed_v<T>) b[0] = static_cast<T>(-1);
      const auto run = [&](BinaryOp op, std::vector<T>& out) {
        CompiledModule m =
            compile(elementwise({t, t}, t, n, lanes, [&](const std::vector<Expr>& x) {
              const DataType vt = x[1].dtype();
              Expr divisor =
                  by_constant ? make_int(vt, static_cast<int64_t>(constants[round])) : x[1];
              return make_binary(op, x[0], divisor);
            }));
        ASSERT_EQ(call(m, a.data(), b.data(), out.data()), 0);
      };
      run(BinaryOp::Div, div);
      run(BinaryOp::Mod, mod);
      run(BinaryOp::FloorDiv, fdiv);
      run(BinaryOp::FloorMod, fmod);
      for (int64_t i = 0; i < n; ++i) {
        const bool overflow = std::is_signed_v<T> && a[i] == std::numeric_limits<T>::min() &&
                              b[i] == static_cast<T>(-1);
        T q = a[i], r = 0, fq = a[i], fr = 0;
        if (!overflow) {
          q = static_cast<T>(a[i] / b[i]);
          r = static_cast<T>(a[i] % b[i]);
          fq = std::is_signed_v<T> ? static_cast<T>(floor_div(static_cast<int64_t>(a[i]),
                                                              static_cast<int64_t>(b[i])))
                                   : q;
          // The product may lie beyond the type's ends; unsigned numbers wrap around.
          fr = static_cast<T>(static_cast<uint64_t>(a[i]) -
                              static_cast<uint64_t>(fq) * static_cast<uint64_t>(b[i]));
        }
        ASSERT_EQ(div[i], q) << to_string(t) << " " << +a[i] << " / " << +b[i];
        ASSERT_EQ(mod[i], r) << to_string(t) << " " << +a[i] << " % " << +b[i];
        ASSERT_EQ(fdiv[i], fq) << to_string(t) << " floor " << +a[i] << " / " << +b[i];
        ASSERT_EQ(fmod[i], fr) << to_string(t) << " floor " << +a[i] << " % " << +b[i];
      }
    }
  }
}

TEST(LlvmTypes, IntegerDivisionRoundsAsItsNameSays) {
  for (bool by_constant : {false, true}) {
    check_division<int8_t>(i8, by_constant);
    check_division<int32_t>(i32, by_constant);
    check_division<int64_t>(i64, by_constant);
    check_division<uint8_t>(u8, by_constant);
    check_division<uint32_t>(u32, by_constant);
    check_division<uint64_t>(u64, by_constant);
  }
}

TEST(LlvmTypes, DivisionByZeroDoesNotTrap) {
  for (int lanes : {1, 3, 4}) {
    CompiledModule m =
        compile(elementwise({i32, i32}, i32, 12, lanes, [](const std::vector<Expr>& x) {
          return make_binary(BinaryOp::FloorDiv, x[0], x[1]);
        }));
    std::vector<int32_t> a(12, 5), b(12, 0), c(12);
    EXPECT_EQ(call(m, a.data(), b.data(), c.data()), 0);
  }
}

TEST(LlvmTypes, FloorDivisionOfLoopVariables) {
  // The range of a loop variable makes the division unsigned; a shifted one is not.
  constexpr int64_t kN = 100;
  Buffer out = argument("out", i64, 4 * kN);
  Var i("i");
  const auto store = [&](int64_t at, Expr value) {
    return make_store(out, {i + Expr(at * kN)}, value);
  };
  Expr below = i - Expr(50);
  CompiledModule m =
      compile({"ranges",
               {out},
               make_for(i, kN, LoopKind::Serial,
                        make_block({store(0, floordiv(i, 7)), store(1, floormod(i, 7)),
                                    store(2, floordiv(below, 7)), store(3, floormod(below, 7))}))});
  std::vector<int64_t> y(4 * kN);
  ASSERT_EQ(call(m, y.data()), 0);
  for (int64_t k = 0; k < kN; ++k) {
    EXPECT_EQ(y[k], k / 7);
    EXPECT_EQ(y[kN + k], k % 7);
    EXPECT_EQ(y[2 * kN + k], floor_div(k - 50, 7));
    EXPECT_EQ(y[3 * kN + k], k - 50 - 7 * floor_div(k - 50, 7));
  }
}

TEST(LlvmTypes, BitsShiftsAndComparisons) {
  std::mt19937 random(9);
  constexpr int64_t kN = 200;
  std::vector<int32_t> a(kN), b(kN), out(kN);
  std::vector<uint8_t> truth(kN);
  for (int64_t i = 0; i < kN; ++i) {
    a[i] = static_cast<int32_t>(random());
    b[i] = static_cast<int32_t>(random() % 32);
  }
  for (int lanes : {1, 8, 5}) {
    const auto run = [&](BinaryOp op, auto want) {
      call(compile(elementwise(
               {i32, i32}, i32, kN, lanes,
               [&](const std::vector<Expr>& x) { return make_binary(op, x[0], x[1]); })),
           a.data(), b.data(), out.data());
      for (int64_t i = 0; i < kN; ++i) ASSERT_EQ(out[i], want(a[i], b[i])) << to_string(op);
    };
    run(BinaryOp::BitAnd, [](int32_t x, int32_t y) { return x & y; });
    run(BinaryOp::BitOr, [](int32_t x, int32_t y) { return x | y; });
    run(BinaryOp::BitXor, [](int32_t x, int32_t y) { return x ^ y; });
    run(BinaryOp::Shl,
        [](int32_t x, int32_t y) { return static_cast<int32_t>(static_cast<uint32_t>(x) << y); });
    run(BinaryOp::Shr, [](int32_t x, int32_t y) { return x >> y; });
    run(BinaryOp::Min, [](int32_t x, int32_t y) { return std::min(x, y); });
    run(BinaryOp::Max, [](int32_t x, int32_t y) { return std::max(x, y); });
    const auto test = [&](BinaryOp op, auto want) {
      call(compile(elementwise(
               {i32, i32}, boolean, kN, lanes,
               [&](const std::vector<Expr>& x) { return make_binary(op, x[0], x[1]); })),
           a.data(), b.data(), truth.data());
      for (int64_t i = 0; i < kN; ++i) ASSERT_EQ(truth[i], want(a[i], b[i])) << to_string(op);
    };
    test(BinaryOp::Eq, [](int32_t x, int32_t y) { return x == y; });
    test(BinaryOp::Ne, [](int32_t x, int32_t y) { return x != y; });
    test(BinaryOp::Lt, [](int32_t x, int32_t y) { return x < y; });
    test(BinaryOp::Le, [](int32_t x, int32_t y) { return x <= y; });
  }
}

}  // namespace
}  // namespace heddle::testing
