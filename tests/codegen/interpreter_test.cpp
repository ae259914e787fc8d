#include "heddle/codegen/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "heddle/ir/print.h"
#include "heddle/support/rng.h"
#include "support/numbers/half.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// ---- declarations ----

TEST(InterpretDeclaration, MatmulBiasRelu) {
  const int m = 5, n = 7, kk = 9;
  Tensor a = placeholder({m, kk}, f32, "A"), b = placeholder({kk, n}, f32, "B");
  Tensor bias = placeholder({n}, f32, "bias");
  Axis k = reduce_axis(kk, "k");
  Tensor c = compute({m, n}, [&](Axis i, Axis j) { return sum(a(i, k) * b(k, j), k); }, "C");
  Tensor d = compute({m, n}, [&](Axis i, Axis j) { return max(c(i, j) + bias(j), 0.f); }, "D");

  NDArray x = NDArray::random({m, kk}, f32, 1), y = NDArray::random({kk, n}, f32, 2);
  NDArray z = NDArray::random({n}, f32, 3);
  const auto out = interpret({d, c}, {{a, x}, {b, y}, {bias, z}});
  ASSERT_EQ(out.size(), 2u);
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      float s = 0;
      for (int p = 0; p < kk; ++p) {
        const volatile float product = x.at<float>({i, p}) * y.at<float>({p, j});
        s += product;
      }
      EXPECT_EQ(out[1].at<float>({i, j}), s);
      EXPECT_EQ(out[0].at<float>({i, j}), std::max(s + z.at<float>({j}), 0.f));
    }
  }
}

TEST(InterpretDeclaration, TupleReductionAndSeveralOutputs) {
  const int m = 4, n = 13;
  Tensor a = placeholder({m, n}, f32, "A");
  Reducer argmax = reducer("argmax", {i64, f32}, {Expr(int64_t{-1}), lowest_value(f32)},
                           [](const std::vector<Expr>& p, const std::vector<Expr>& q) {
                             return std::vector<Expr>{select(p[1] >= q[1], p[0], q[0]),
                                                      select(p[1] >= q[1], p[1], q[1])};
                           });
  Axis k = reduce_axis(n, "k");
  auto out = compute_all({m}, [&](Axis i) { return argmax({k, a(i, k)}, {k}); }, "best");
  auto both = compute_all({m}, [&](Axis i) {
    return std::vector<Expr>{out[1](i) * 2.f, cast(i32, out[0](i)) + cast(i32, i)};
  });
  NDArray x = NDArray::random({m, n}, f32, 7);
  const auto r = interpret({out[0], out[1], both[0], both[1]}, {{a, x}});
  for (int i = 0; i < m; ++i) {
    int best = 0;
    for (int j = 1; j < n; ++j) {
      if (x.at<float>({i, j}) > x.at<float>({i, best})) best = j;
    }
    EXPECT_EQ(r[0].at<int64_t>({i}), best);
    EXPECT_EQ(r[1].at<float>({i}), x.at<float>({i, best}));
    EXPECT_EQ(r[2].at<float>({i}), 2 * x.at<float>({i, best}));
    EXPECT_EQ(r[3].at<int32_t>({i}), best + i);
  }
}

TEST(InterpretDeclaration, EveryReducerOverTwoAxes) {
  Tensor a = placeholder({3, 4, 5}, i32, "A");
  Axis r = reduce_axis(4, "r"), s = reduce_axis(5, "s");
  const auto over = [&](auto f) { return compute({3}, [&](Axis i) { return f(a(i, r, s)); }); };
  Tensor sums = over([&](Expr e) { return sum(e, {r, s}); });
  Tensor prods = over([&](Expr e) { return prod(e, {r, s}); });
  Tensor lows = over([&](Expr e) { return reduce_min(e, {r, s}); });
  Tensor highs = over([&](Expr e) { return reduce_max(e, {r, s}); });
  Tensor anys = over([&](Expr e) { return any(e == 7, {r, s}); });
  Tensor alls = over([&](Expr e) { return all(e < 8, {r, s}); });
  NDArray x = NDArray::random({3, 4, 5}, i32, 3);
  const auto out = interpret({sums, prods, lows, highs, anys, alls}, {{a, x}});
  for (int i = 0; i < 3; ++i) {
    int32_t total = 0, low = INT32_MAX, high = INT32_MIN;
    uint32_t product = 1;
    bool seven = false, small = true;
    for (int j = 0; j < 20; ++j) {
      const int32_t v = x.data<int32_t>()[i * 20 + j];
      total += v;
      product *= static_cast<uint32_t>(v);
      low = std::min(low, v);
      high = std::max(high, v);
      seven |= v == 7;
      small &= v < 8;
    }
    EXPECT_EQ(out[0].at<int32_t>({i}), total);
    EXPECT_EQ(out[1].at<int32_t>({i}), static_cast<int32_t>(product));
    EXPECT_EQ(out[2].at<int32_t>({i}), low);
    EXPECT_EQ(out[3].at<int32_t>({i}), high);
    EXPECT_EQ(out[4].at<bool>({i}), seven);
    EXPECT_EQ(out[5].at<bool>({i}), small);
  }
}

TEST(InterpretDeclaration, ZeroDimensionsAndNonCommutativeReducer) {
  Tensor a = placeholder({6}, i64, "A");
  Axis k = reduce_axis(6, "k");
  // "The last one": associative, order matters.
  Reducer last = reducer(
      "last", {i64}, {Expr(int64_t{0})},
      [](const std::vector<Expr>&, const std::vector<Expr>& q) { return q; }, false);
  Tensor t = compute({}, [&](const std::vector<Axis>&) { return last({a(k)}, {k})[0]; });
  const auto out = interpret({t}, {{a, NDArray::from<int64_t>({1, 2, 3, 4, 5, 42})}});
  EXPECT_EQ(out[0].data<int64_t>()[0], 42);
}

TEST(InterpretDeclaration, SixteenBitFloatsRoundAfterEveryOperation) {
  Tensor h = placeholder({4096}, f16, "H"), b = placeholder({4096}, bf16, "B");
  Axis k = reduce_axis(4096, "k");
  Tensor s = compute({1}, [&](Axis) { return sum_in(f16, h(k), {k}); });
  Tensor t = compute({1}, [&](Axis) { return sum_in(bf16, b(k), {k}); });
  const auto out =
      interpret({s, t}, {{h, NDArray::full({4096}, f16, 1)}, {b, NDArray::full({4096}, bf16, 1)}});
  EXPECT_EQ(out[0].get(0), 2048);  // 2048 + 1 rounds to 2048
  EXPECT_EQ(out[1].get(0), 256);
}

TEST(InterpretDeclaration, MistakesOfTheCaller) {
  Tensor a = placeholder({4, 4}, f32, "A");
  Tensor b = compute({4, 4}, [&](Axis i, Axis j) { return a(i, j) + 1.f; }, "B");
  EXPECT_THAT(error_of([&] { interpret({b}, {}); }), HasSubstr("no value for the placeholder 'A'"));
  EXPECT_THAT(error_of([&] { interpret({b}, {{a, NDArray::zeros({4, 5}, f32)}}); }),
              HasSubstr("input 'A': expected extent 4 in dimension 1, got f32[4, 5]"));
  EXPECT_THAT(error_of([&] { interpret({b}, {{a, NDArray::zeros({4, 4}, f64)}}); }),
              HasSubstr("input 'A': expected f32, got f64[4, 4]"));
}

// ---- operators against C++ ----

template <typename T>
DataType type_of() {
  return heddle::internal::dtype_of<T>();
}

/// Values with the extremes among them.
template <typename T>
NDArray values(int n, uint64_t seed) {
  Rng rng(seed);
  NDArray array = NDArray::empty({n}, type_of<T>());
  for (int i = 0; i < n; ++i) {
    T v;
    if constexpr (std::is_floating_point_v<T>) {
      v = static_cast<T>(rng.normal() * std::pow(2.0, static_cast<double>(rng.uniform_int(-3, 3))));
    } else {
      v = static_cast<T>(rng());
    }
    if (i == 1) v = std::numeric_limits<T>::lowest();
    if (i == 2) v = std::numeric_limits<T>::max();
    if (i == 3) v = static_cast<T>(-1);
    if (i == 4 || v == 0) v = 1;
    array.data<T>()[i] = v;
  }
  return array;
}

template <typename T, typename R>
void check_binary(const std::function<Expr(Expr, Expr)>& build, R (*expected)(T, T),
                  const char* what) {
  constexpr int n = 200;
  NDArray x = values<T>(n, 11), y = values<T>(n, 12);
  if (std::string(what) == "shift") {
    for (int i = 0; i < n; ++i) y.data<T>()[i] = static_cast<T>(i % (8 * sizeof(T)));
  }
  Tensor a = placeholder({n}, type_of<T>(), "A"), b = placeholder({n}, type_of<T>(), "B");
  Tensor c = compute({n}, [&](Axis i) { return build(a(i), b(i)); });
  const auto out = interpret({c}, {{a, x}, {b, y}});
  for (int i = 0; i < n; ++i) {
    const R want = expected(x.data<T>()[i], y.data<T>()[i]);
    const R got = out[0].data<R>()[i];
    EXPECT_TRUE(got == want || (got != got && want != want))
        << what << " of " << to_string(type_of<T>()) << ": " << +x.data<T>()[i] << ", "
        << +y.data<T>()[i] << " gave " << +got << ", not " << +want;
  }
}

template <typename T>
class Integers : public ::testing::Test {};
using IntegerTypes =
    ::testing::Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(Integers, IntegerTypes);

template <typename T>
T floor_quotient(T x, T y) {
  if (std::is_signed_v<T> && y == static_cast<T>(-1))
    return static_cast<T>(0 - static_cast<uint64_t>(x));
  T q = static_cast<T>(x / y);
  if (x % y != 0 && (x < 0) != (y < 0)) --q;
  return q;
}

TYPED_TEST(Integers, MatchCpp) {
  using T = TypeParam;
  using U = uint64_t;
  check_binary<T, T>([](Expr a, Expr b) { return a + b; },
                     [](T x, T y) { return static_cast<T>(U(x) + U(y)); }, "+");
  check_binary<T, T>([](Expr a, Expr b) { return a - b; },
                     [](T x, T y) { return static_cast<T>(U(x) - U(y)); }, "-");
  check_binary<T, T>([](Expr a, Expr b) { return a * b; },
                     [](T x, T y) { return static_cast<T>(U(x) * U(y)); }, "*");
  check_binary<T, T>([](Expr a, Expr b) { return a / b; },
                     [](T x, T y) {
                       if (std::is_signed_v<T> && y == static_cast<T>(-1))
                         return static_cast<T>(0 - U(x));
                       return static_cast<T>(x / y);
                     },
                     "/");
  check_binary<T, T>([](Expr a, Expr b) { return a % b; },
                     [](T x, T y) {
                       if (std::is_signed_v<T> && y == static_cast<T>(-1)) return T{0};
                       return static_cast<T>(x % y);
                     },
                     "%");
  check_binary<T, T>([](Expr a, Expr b) { return floordiv(a, b); }, floor_quotient<T>, "floordiv");
  check_binary<T, T>([](Expr a, Expr b) { return floormod(a, b); },
                     [](T x, T y) { return static_cast<T>(U(x) - U(floor_quotient(x, y)) * U(y)); },
                     "floormod");
  check_binary<T, T>([](Expr a, Expr b) { return min(a, b); },
                     [](T x, T y) { return std::min(x, y); }, "min");
  check_binary<T, T>([](Expr a, Expr b) { return max(a, b); },
                     [](T x, T y) { return std::max(x, y); }, "max");
  check_binary<T, bool>([](Expr a, Expr b) { return a < b; }, [](T x, T y) { return x < y; }, "<");
  check_binary<T, bool>([](Expr a, Expr b) { return a <= b; }, [](T x, T y) { return x <= y; },
                        "<=");
  check_binary<T, bool>([](Expr a, Expr b) { return a == b; }, [](T x, T y) { return x == y; },
                        "==");
  check_binary<T, T>([](Expr a, Expr b) { return bitwise_and(a, b); },
                     [](T x, T y) { return static_cast<T>(x & y); }, "&");
  check_binary<T, T>([](Expr a, Expr b) { return bitwise_xor(a, b); },
                     [](T x, T y) { return static_cast<T>(x ^ y); }, "^");
  check_binary<T, T>([](Expr a, Expr) { return bitwise_not(a); },
                     [](T x, T) { return static_cast<T>(~x); }, "~");
  check_binary<T, T>([](Expr a, Expr) { return abs(a); },
                     [](T x, T) { return x < 0 ? static_cast<T>(0 - U(x)) : x; }, "abs");
  check_binary<T, T>([](Expr a, Expr b) { return shift_left(a, b); },
                     [](T x, T y) { return static_cast<T>(U(x) << y); }, "shift");
  check_binary<T, T>([](Expr a, Expr b) { return shift_right(a, b); },
                     [](T x, T y) { return static_cast<T>(x >> y); }, "shift");
  check_binary<T, float>([](Expr a, Expr) { return cast(f32, a); },
                         [](T x, T) { return static_cast<float>(x); }, "to f32");
  check_binary<T, double>([](Expr a, Expr) { return cast(f64, a); },
                          [](T x, T) { return static_cast<double>(x); }, "to f64");
  check_binary<T, int8_t>([](Expr a, Expr) { return cast(i8, a); },
                          [](T x, T) { return static_cast<int8_t>(x); }, "to i8");
  check_binary<T, uint64_t>([](Expr a, Expr) { return cast(u64, a); },
                            [](T x, T) { return static_cast<uint64_t>(x); }, "to u64");
}

template <typename T>
class Floats : public ::testing::Test {};
using FloatTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Floats, FloatTypes);

TYPED_TEST(Floats, MatchCpp) {
  using T = TypeParam;
  check_binary<T, T>([](Expr a, Expr b) { return a + b; }, [](T x, T y) { return x + y; }, "+");
  check_binary<T, T>([](Expr a, Expr b) { return a - b; }, [](T x, T y) { return x - y; }, "-");
  check_binary<T, T>([](Expr a, Expr b) { return a * b; }, [](T x, T y) { return x * y; }, "*");
  check_binary<T, T>([](Expr a, Expr b) { return a / b; }, [](T x, T y) { return x / y; }, "/");
  check_binary<T, T>([](Expr a, Expr b) { return a % b; }, [](T x, T y) { return std::fmod(x, y); },
                     "%");
  check_binary<T, T>([](Expr a, Expr) { return sqrt(a); }, [](T x, T) { return std::sqrt(x); },
                     "sqrt");
  check_binary<T, T>([](Expr a, Expr) { return round(a); },
                     [](T x, T) { return std::nearbyint(x); }, "round");
  check_binary<T, T>([](Expr a, Expr) { return -a; }, [](T x, T) { return -x; }, "neg");
  check_binary<T, bool>([](Expr a, Expr b) { return a < b; }, [](T x, T y) { return x < y; }, "<");
  check_binary<T, bool>([](Expr a, Expr b) { return a != b; }, [](T x, T y) { return x != y; },
                        "!=");
  check_binary<T, T>([](Expr a, Expr) { return exp(a); },
                     [](T x, T) { return static_cast<T>(std::exp(static_cast<double>(x))); },
                     "exp");
  check_binary<T, T>(
      [](Expr a, Expr b) { return pow(abs(a), b); },
      [](T x, T y) {
        return static_cast<T>(std::pow(static_cast<double>(std::fabs(x)), static_cast<double>(y)));
      },
      "pow");
}

TEST(InterpretOperators, NanInMinOrMaxIsTheResult) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Tensor a = placeholder({2}, f32, "A"), b = placeholder({2}, f32, "B");
  Tensor low = compute({2}, [&](Axis i) { return min(a(i), b(i)); });
  Tensor high = compute({2}, [&](Axis i) { return max(a(i), b(i)); });
  const auto out = interpret(
      {low, high}, {{a, NDArray::from<float>({nan, 1})}, {b, NDArray::from<float>({1, nan})}});
  for (const NDArray& x : out) {
    EXPECT_TRUE(std::isnan(x.get(0)));
    EXPECT_TRUE(std::isnan(x.get(1)));
  }
}

TEST(InterpretOperators, FloatToIntegerSaturates) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> in = {std::nanf(""), inf, -inf, 1e20f, -1e20f, 2.9f, -2.9f, 300.f};
  Tensor a = placeholder({8}, f32, "A");
  const auto to = [&](DataType t) {
    Tensor c = compute({8}, [&](Axis i) { return cast(t, a(i)); });
    return interpret({c}, {{a, NDArray::from<float>(in)}})[0];
  };
  const auto check = [](const NDArray& got, std::vector<double> want) {
    for (int i = 0; i < 8; ++i) EXPECT_EQ(got.get(i), want[static_cast<size_t>(i)]) << i;
  };
  check(to(i8), {0, 127, -128, 127, -128, 2, -2, 127});
  check(to(u8), {0, 255, 0, 255, 0, 2, 0, 255});
  check(to(i32), {0, 2147483647., -2147483648., 2147483647., -2147483648., 2, -2, 300});
  EXPECT_EQ(to(i64).data<int64_t>()[1], INT64_MAX);
  EXPECT_EQ(to(u64).data<uint64_t>()[1], UINT64_MAX);
  check(to(boolean), {1, 1, 1, 1, 1, 1, 1, 1});
}

TEST(InterpretOperators, LargeIntegersConvertToFloatInOneRounding) {
  // Between two floats and just above the middle: by way of double it would be a tie.
  const int64_t v = (int64_t{1} << 60) + (int64_t{1} << 36) + 1;
  Tensor a = placeholder({1}, i64, "A");
  Tensor c = compute({1}, [&](Axis i) { return cast(f32, a(i)); });
  EXPECT_EQ(interpret({c}, {{a, NDArray::from<int64_t>({v})}})[0].at<float>({0}),
            static_cast<float>(v));
}

TEST(InterpretOperators, IntegerDivisionByZeroIsAnError) {
  Tensor a = placeholder({2}, i32, "A");
  Tensor c = compute({2}, [&](Axis i) { return Expr(make_int(i32, 1)) / a(i); }, "Q");
  const std::string e = error_of([&] { interpret({c}, {{a, NDArray::zeros({2}, i32)}}); });
  EXPECT_THAT(e, HasSubstr("integer division by zero"));
  EXPECT_THAT(e, HasSubstr("while evaluating 'Q'"));
  EXPECT_THAT(e, ::testing::Not(HasSubstr("bug of Heddle"))) << "the data are at fault";
}

// ---- lowered functions ----

LoweredFunction function(std::vector<Buffer> args, Stmt body) {
  return {"f", std::move(args), std::move(body)};
}
Buffer argument(const char* name, DataType t, std::vector<Expr> shape) {
  return Buffer::make(name, t, std::move(shape), Scope::Argument);
}

TEST(InterpretStmt, VectorLoopWithTailFlatIndicesAndSelect) {
  Buffer a = argument("A", f32, {3, 7}), b = argument("B", f32, {3, 7});
  Var io("io");
  const Expr at = make_ramp(io * 8, Expr(1), 8);
  // B = A > 0 ? A : 0, 21 elements in vectors of 8: lanes past the end must not load.
  Expr inside = at < make_broadcast(Expr(21), 8);
  Expr x = make_load(a, {at});
  Stmt body = make_for(io, Expr(2), LoopKind::Parallel,
                       make_store(b, {at}, max(x, make_broadcast(Expr(0.f), 8))));
  const Expr tail = make_ramp(Expr(16), Expr(1), 5);
  body = make_block(
      {body, make_store(b, {tail}, max(make_load(a, {tail}), make_broadcast(Expr(0.f), 5)))});
  NDArray in = NDArray::random({3, 7}, f32, 5), out = NDArray::zeros({3, 7}, f32);
  interpret(function({a, b}, body), {in, out});
  for (int i = 0; i < 21; ++i) {
    EXPECT_EQ(out.data<float>()[i], std::max(in.data<float>()[i], 0.f));
  }

  // The same through a masked load of 24 lanes into a local.
  Buffer t = Buffer::make("t", f32, {Expr(24)}, Scope::Local);
  Expr masked = select(inside, x, make_broadcast(Expr(0.f), 8));
  body = make_allocate(
      t, make_block({make_for(io, Expr(3), LoopKind::Serial, make_store(t, {at}, masked)),
                     make_store(b, {tail}, make_load(t, {tail}) * make_broadcast(Expr(2.f), 5))}));
  interpret(function({a, b}, body), {in, out});
  for (int i = 16; i < 21; ++i) EXPECT_EQ(out.data<float>()[i], 2 * in.data<float>()[i]);
}

TEST(InterpretStmt, AllLanesAreReadBeforeAnyIsWritten) {
  Buffer a = argument("A", i32, {8});
  const Expr from = make_ramp(Expr(0), Expr(1), 7), to = make_ramp(Expr(1), Expr(1), 7);
  NDArray x = NDArray::from<int32_t>({0, 1, 2, 3, 4, 5, 6, 7});
  interpret(function({a}, make_store(a, {to}, make_load(a, {from}))), {x});
  for (int i = 1; i < 8; ++i) EXPECT_EQ(x.at<int32_t>({i}), i - 1);
}

TEST(InterpretStmt, LetsGatherStridesAndMultiDimensionalRamps) {
  Buffer a = argument("A", i32, {4, 6}), idx = argument("idx", i32, {4}),
         b = argument("B", i32, {6, 4});
  Var j("j"), v("v", i64.with_lanes(4)), s("s");
  // B[j, 0..3] = A[idx[0..3], j]: a vector let, and a negative stride.
  const Expr lanes = make_ramp(Expr(3), Expr(-1), 4);
  Stmt body = make_let(v, cast(i64, make_load(idx, {lanes})),
                       make_store(b, {s, lanes}, make_load(a, {v, s})));
  body = make_for(j, Expr(6), LoopKind::Serial, make_let(s, Expr(5) - j, body));
  NDArray x = NDArray::random({4, 6}, i32, 5), p = NDArray::from<int32_t>({2, 0, 3, 1});
  NDArray y = NDArray::zeros({6, 4}, i32);
  interpret(function({a, idx, b}, body), {x, p, y});
  for (int c = 0; c < 6; ++c) {
    for (int r = 0; r < 4; ++r) {
      EXPECT_EQ(y.at<int32_t>({c, r}), x.at<int32_t>({p.at<int32_t>({r}), c}));
    }
  }
}

TEST(InterpretStmt, ExtentsAndConditionsAreExpressions) {
  Buffer b = argument("B", i64, {4, 4});
  Var i("i"), j("j");
  Stmt inner = make_if(floormod(i + j, 2) == 0, make_store(b, {i, j}, i * 10 + j),
                       make_store(b, {i, j}, Expr(-1)));
  Stmt body =
      make_for(i, Expr(4), LoopKind::Unrolled, make_for(j, i + 1, LoopKind::Vectorized, inner));
  NDArray y = NDArray::zeros({4, 4}, i64);
  interpret(function({b}, body), {y});
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 4; ++c) {
      const int64_t want = c > r ? 0 : (r + c) % 2 == 0 ? r * 10 + c : -1;
      EXPECT_EQ(y.at<int64_t>({r, c}), want);
    }
  }
}

TEST(InterpretStmt, SymbolicExtentsComeFromTheArguments) {
  Var n("n"), i("i");
  Buffer a = argument("A", f32, {n}), b = argument("B", f32, {n + 1});
  Stmt body = make_for(i, n, LoopKind::Serial, make_store(b, {i + 1}, make_load(a, {i})));
  NDArray x = NDArray::random({5}, f32, 1), y = NDArray::zeros({6}, f32);
  interpret(function({a, b}, body), {x, y});
  EXPECT_EQ(y.at<float>({5}), x.at<float>({4}));
  EXPECT_THAT(error_of([&] { interpret(function({a, b}, body), {x, x}); }),
              HasSubstr("argument 'B': expected extent 6 in dimension 0, got f32[5]"));
}

TEST(InterpretStmt, OutOfBoundsNamesBufferIndicesAndStatement) {
  Buffer a = argument("A", f32, {4, 8}), b = argument("B", f32, {4, 8});
  Var i("i"), j("j");
  Stmt body = make_for(
      i, Expr(4), LoopKind::Serial,
      make_for(j, Expr(8), LoopKind::Serial, make_store(b, {i, j}, make_load(a, {i, j + 1}))));
  NDArray x = NDArray::zeros({4, 8}, f32);
  const std::string e = error_of([&] { interpret(function({a, b}, body), {x, x.copy()}); });
  EXPECT_THAT(e, HasSubstr("access to 'A' at [0, 8], outside its extents [4, 8]"));
  EXPECT_THAT(e, HasSubstr("in: B[i, j] = A[i, j + 1]"));
  body = make_store(b, {Expr(32)}, Expr(1.f));
  EXPECT_THAT(error_of([&] { interpret(function({a, b}, body), {x, x.copy()}); }),
              HasSubstr("access to 'B' at [32] (flat), outside its extents [4, 8]"));
}

TEST(InterpretStmt, ReadingWhatWasNeverWrittenIsAnError) {
  Buffer b = argument("B", f32, {4});
  Buffer t = Buffer::make("t", f32, {Expr(4)}, Scope::Global);
  Var i("i"), o("o");
  Stmt fill = make_for(i, Expr(3), LoopKind::Serial, make_store(t, {i}, Expr(1.f)));
  Stmt copy = make_for(i, Expr(4), LoopKind::Serial, make_store(b, {i}, make_load(t, {i})));
  NDArray y = NDArray::zeros({4}, f32);
  EXPECT_THAT(
      error_of([&] { interpret(function({b}, make_allocate(t, make_block({fill, copy}))), {y}); }),
      HasSubstr("read of 't' at [3], which was never written"));

  // Every execution of an Allocate starts afresh.
  Stmt first = make_if(Expr(o) == 0, make_store(t, {Expr(0)}, Expr(1.f)));
  Stmt body = make_allocate(t, make_block({first, make_store(b, {o}, make_load(t, {Expr(0)}))}));
  const std::string e = error_of(
      [&] { interpret(function({b}, make_for(o, Expr(2), LoopKind::Serial, body)), {y}); });
  EXPECT_THAT(e, HasSubstr("read of 't' at [0], which was never written"));
}

TEST(InterpretStmt, LogicIsLazy) {
  Buffer a = argument("A", f32, {4}), b = argument("B", f32, {6});
  Var i("i");
  const Expr x = make_load(a, {i});
  Stmt body = make_store(b, {i}, select(Expr(i) < 4 && x > 0.f, 1.f, 0.f));
  body = make_block({body, make_if(4 <= Expr(i) || x > 0.f, make_store(b, {i}, Expr(2.f)))});
  NDArray in = NDArray::from<float>({1, -1, 1, -1}), out = NDArray::zeros({6}, f32);
  interpret(function({a, b}, make_for(i, Expr(6), LoopKind::Serial, body)), {in, out});
  EXPECT_EQ(out.get(0), 2);
  EXPECT_EQ(out.get(1), 0);
  EXPECT_EQ(out.get(5), 2);
}

TEST(InterpretStmt, SharedExpressionsAreEvaluatedOnce) {
  Buffer a = argument("A", f32, {2}), b = argument("B", f32, {2});
  Var i("i");
  Expr e = make_load(a, {i});
  for (int n = 0; n < 60; ++n) e = (e + e) * 0.5f;  // 2^60 evaluations as a tree
  NDArray x = NDArray::from<float>({3, -5}), y = NDArray::zeros({2}, f32);
  interpret(function({a, b}, make_for(i, Expr(2), LoopKind::Serial, make_store(b, {i}, e))),
            {x, y});
  EXPECT_EQ(y.get(0), 3);
  EXPECT_EQ(y.get(1), -5);
}

TEST(InterpretStmt, ScopesAreChecked) {
  Buffer b = argument("B", f32, {4});
  Buffer t = Buffer::make("t", f32, {Expr(4)}, Scope::Local);
  Var i("i");
  NDArray y = NDArray::zeros({4}, f32);
  EXPECT_THAT(error_of([&] { interpret(function({b}, make_store(b, {i}, Expr(1.f))), {y}); }),
              HasSubstr("variable 'i' is used outside its scope"));
  EXPECT_THAT(error_of([&] { interpret(function({b}, make_store(t, {Expr(0)}, Expr(1.f))), {y}); }),
              HasSubstr("buffer 't' is neither an argument nor allocated"));
  EXPECT_THAT(error_of([&] { interpret(function({b}, {}), {}); }), HasSubstr("takes 1 arguments"));
  interpret(function({b}, {}), {y});  // nothing to do
}

TEST(InterpretStmt, PrefetchMayPointAnywhere) {
  Buffer b = argument("B", f32, {4});
  NDArray y = NDArray::zeros({4}, f32);
  EXPECT_NO_THROW(interpret(function({b}, make_prefetch(b, {Expr(1000)})), {y}));
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(y.get(i), 0) << i;
}

TEST(InterpretStmt, MatrixProductByThePlainLoopNest) {
  const int64_t n = 24;
  Buffer a = argument("A", f32, {n, n}), b = argument("B", f32, {n, n}),
         c = argument("C", f32, {n, n});
  Var i("i"), j("j"), k("k");
  Stmt update =
      make_store(c, {i, j}, make_load(c, {i, j}) + make_load(a, {i, k}) * make_load(b, {k, j}));
  Stmt body = make_for(
      i, Expr(n), LoopKind::Serial,
      make_for(j, Expr(n), LoopKind::Serial, make_for(k, Expr(n), LoopKind::Serial, update)));
  NDArray x = NDArray::random({n, n}, f32, 1), y = NDArray::random({n, n}, f32, 2);
  NDArray z = NDArray::zeros({n, n}, f32);
  interpret(function({a, b, c}, body), {x, y, z});
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      float sum = 0;
      for (int64_t d = 0; d < n; ++d) sum += x.at<float>({row, d}) * y.at<float>({d, column});
      EXPECT_NEAR(z.at<float>({row, column}), sum, 1e-5) << row << ", " << column;
    }
  }
}

}  // namespace
}  // namespace heddle
