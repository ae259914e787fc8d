#include <functional>

#include "ops/ops_testing.h"

namespace heddle {
namespace {

/// The elements of x (3, 4, 5) at position `at` of a reduction over dimensions 0 and 2.
std::vector<double> block(const Input& x, int64_t at) {
  std::vector<double> values;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 5; ++j) values.push_back(x(i, at, j));
  return values;
}

double fold(const std::vector<double>& values, double start,
            const std::function<double(double, double)>& f) {
  for (double v : values) start = f(start, v);
  return start;
}

double sum(const std::vector<double>& v) { return fold(v, 0, std::plus<>()); }

TEST(Reduce, OverSomeAxes) {
  for (DataType t : {f32, f64, f16, bf16, i32}) {
    SCOPED_TRACE(to_string(t));
    const Input x = input({3, 4, 5}, t, 1);
    const auto of = [&](const Dims& i) { return block(x, i.size() == 1 ? i[0] : i[1]); };
    const double loose = 8 * tolerance_of(t);
    for (bool keep : {false, true}) {
      const Tensor total = ops::sum(x, {0, -1}, keep);
      EXPECT_EQ(total.extents(), keep ? (Dims{1, 4, 1}) : Dims{4});
      EXPECT_EQ(total.dtype(), t);
      expect_elements(total, {x}, [&](const Dims& i) { return sum(of(i)); });
      expect_elements(ops::max(x, {0, 2}, keep), {x}, [&](const Dims& i) {
        return fold(of(i), -1e9, [](double a, double b) { return std::max(a, b); });
      });
      expect_elements(ops::min(x, {2, 0}, keep), {x}, [&](const Dims& i) {
        return fold(of(i), 1e9, [](double a, double b) { return std::min(a, b); });
      });
      expect_elements(
          ops::prod(x, {0, 2}, keep), {x},
          [&](const Dims& i) { return fold(of(i), 1, std::multiplies<>()); }, loose);
      if (!t.is_float()) continue;
      expect_elements(ops::mean(x, {0, 2}, keep), {x},
                      [&](const Dims& i) { return sum(of(i)) / 15; });
      for (bool unbiased : {false, true})
        expect_elements(ops::var(x, {0, 2}, keep, unbiased), {x}, [&](const Dims& i) {
          const double mean = sum(of(i)) / 15;
          const double squares =
              fold(of(i), 0, [&](double s, double v) { return s + (v - mean) * (v - mean); });
          return squares / (unbiased ? 14 : 15);
        });
      expect_elements(ops::logsumexp(x, {0, 2}, keep), {x}, [&](const Dims& i) {
        return std::log(fold(of(i), 0, [](double s, double v) { return s + std::exp(v); }));
      });
      expect_elements(ops::norm_l1(x, {0, 2}, keep), {x}, [&](const Dims& i) {
        return fold(of(i), 0, [](double s, double v) { return s + std::abs(v); });
      });
      expect_elements(ops::norm_l2(x, {0, 2}, keep), {x}, [&](const Dims& i) {
        return std::sqrt(fold(of(i), 0, [](double s, double v) { return s + v * v; }));
      });
    }
  }
}

TEST(Reduce, OverAllAxes) {
  const Input x = input({3, 7});
  double total = 0;
  for (int i = 0; i < 21; ++i) total += x.array.get(i);
  const Tensor y = ops::sum(x);
  EXPECT_EQ(y.rank(), 0);
  expect_elements(y, {x}, [&](const Dims&) { return total; });
  expect_elements(ops::mean(x, {}, true), {x}, [&](const Dims&) { return total / 21; });
}

TEST(Reduce, OfHalvesAddsUpInF32) {
  const Input x = input_of(NDArray::full({4097}, f16, 1));
  expect_elements(ops::sum(x), {x}, [](const Dims&) { return 4096.0; }, 0);  // 4097 rounded
}

TEST(Reduce, VarianceFarFromZeroDoesNotCancel) {
  const Input x = input_of(NDArray::from<float>({10001, 10002, 10003, 10004}));
  expect_elements(ops::var(x), {x}, [](const Dims&) { return 5.0 / 3; }, 1e-6);
}

TEST(Reduce, LogSumExpOfExtremes) {
  const float inf = std::numeric_limits<float>::infinity();
  const Input x =
      input_of(NDArray::from<float>({500, 500, -inf, -inf, -900, -900, inf, 0}, {4, 2}));
  const double want[] = {500 + std::log(2.0), -static_cast<double>(inf), -900 + std::log(2.0),
                         static_cast<double>(inf)};
  expect_elements(ops::logsumexp(x, {1}), {x}, [&](const Dims& i) { return want[i[0]]; });
}

TEST(Reduce, AnyAndAll) {
  const Input x = input({6, 3}, boolean, 3);
  const auto count = [&](int64_t i) { return x(i, 0) + x(i, 1) + x(i, 2); };
  expect_elements(ops::any(x, {1}), {x}, [&](const Dims& i) { return count(i[0]) > 0; });
  expect_elements(ops::all(x, {1}), {x}, [&](const Dims& i) { return count(i[0]) == 3; });
}

TEST(ArgReduce, TakesTheFirstOfEqualElements) {
  for (DataType t : {f32, f16, i8, u8}) {
    const Input x = input({5, 40}, t, 1, -3, 3);
    const auto first = [&](int64_t i, bool largest) {
      int64_t best = 0;
      for (int64_t k = 1; k < 40; ++k)
        if (largest ? x(i, k) > x(i, best) : x(i, k) < x(i, best)) best = k;
      return static_cast<double>(best);
    };
    const Tensor y = ops::argmax(x);
    EXPECT_EQ(y.dtype(), i64);
    expect_elements(y, {x}, [&](const Dims& i) { return first(i[0], true); });
    expect_elements(ops::argmin(x, 1, true), {x},
                    [&](const Dims& i) { return first(i[0], false); });
  }
}

TEST(ArgReduce, OfARowOfInfinitiesIsTheFirst) {
  const float inf = std::numeric_limits<float>::infinity();
  const Input x = input_of(NDArray::from<float>({-inf, -inf, -inf}));
  expect_elements(ops::argmax(x), {x}, [](const Dims&) { return 0.0; });
}

TEST(ReduceErrors, NameOperatorArgumentAndShapes) {
  const Input x = input({2, 3}), n = input({2, 3}, i32), one = input({1});
  EXPECT_EQ(error_of([&] { ops::sum(x, {2}); }),
            "sum: axis 2 of a tensor with 2 dimensions | an axis is in [-2, 1]");
  EXPECT_EQ(error_of([&] { ops::max(x, {1, -1}); }), "max: axis 1 is given twice | ");
  EXPECT_EQ(error_of([&] { ops::mean(n); }),
            "mean: argument 'x' is i32 (2, 3), and needs a float type | convert it with "
            "ops::cast(x, f32)");
  EXPECT_EQ(error_of([&] { ops::any(x); }),
            "any: argument 'x' is f32 (2, 3), and needs bool | compare it first, for example with "
            "ops::not_equal");
  EXPECT_EQ(error_of([&] { ops::var(one); }),
            "var: the unbiased variance of one element is not defined | pass unbiased = false");
  EXPECT_EQ(error_of([&] { ops::argmax(input({3}, boolean)); }),
            "argmax: argument 'x' is bool (3) | convert it with ops::cast(x, u8)");
}

}  // namespace
}  // namespace heddle
