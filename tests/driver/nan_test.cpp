// Extremes of what may be no number: max and min hand NaN on, fmax and fmin drop it.
#include <cmath>
#include <limits>

#include "driver/driver_testing.h"
#include "heddle/codegen/emulator.h"

namespace heddle::testing {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();

/// Runs `t` of inputs filled from `values`, in this order, on the CPU and the emulated GPU, with
/// the interpreter in between; all must give `want`.
void expect_everywhere(const Tensor& t, const std::vector<std::vector<double>>& values,
                       const std::vector<double>& want) {
  const Schedule on_cpu = create_schedule({t});
  const Schedule on_gpu = create_schedule({t}, Target::parse("cuda -gpu=h100"));
  std::vector<NDArray> arrays = call_arrays(on_cpu.dag());
  for (size_t a = 0; a < values.size(); ++a)
    for (size_t i = 0; i < values[a].size(); ++i)
      arrays[a].set(static_cast<int64_t>(i), values[a][i]);
  const auto check = [&](const NDArray& got, const char* who) {
    for (size_t i = 0; i < want.size(); ++i) {
      const double x = got.get(static_cast<int64_t>(i));
      EXPECT_TRUE(x == want[i] || (std::isnan(x) && std::isnan(want[i])))
          << who << " of " << to_string(t.dtype()) << ", element " << i << ": " << x << " for "
          << want[i];
    }
  };
  check(wanted(on_cpu.dag(), arrays)[0], "interpreter");
  build(on_cpu, all_args(on_cpu.dag())).call(arrays);
  check(arrays.back(), "kernel");
  arrays.back() = NDArray::full(t.extents(), t.dtype(), 77);
  emulate(lower_gpu(on_gpu, all_args(on_gpu.dag())), arrays);
  check(arrays.back(), "emulator");
}

TEST(Nan, IsHandedOnByMaxAndMinAndDroppedByFmaxAndFmin) {
  std::vector<double> x, y, high, low, number_high, number_low;
  for (int i = 0; i < 40; ++i) {
    x.push_back(i % 4 == 1 || i % 4 == 3 ? kNan : i);
    y.push_back(i % 4 == 2 || i % 4 == 3 ? kNan : 20);
    const bool any = i % 4 != 0;
    high.push_back(any ? kNan : std::max(i, 20));
    low.push_back(any ? kNan : std::min(i, 20));
    number_high.push_back(std::fmax(x.back(), y.back()));
    number_low.push_back(std::fmin(x.back(), y.back()));
  }
  for (const DataType t : {f32, f64, f16, bf16}) {
    const Tensor a = placeholder({40}, t, "A"), b = placeholder({40}, t, "B");
    const auto of = [&](Expr (*f)(Expr, Expr)) {
      return compute({40}, [&](Axis i) { return f(a(i), b(i)); });
    };
    expect_everywhere(of(max), {x, y}, high);
    expect_everywhere(of(min), {x, y}, low);
    expect_everywhere(of(fmax), {x, y}, number_high);
    expect_everywhere(of(fmin), {x, y}, number_low);
  }
}

TEST(Nan, IsHandedOnNextToConstants) {
  const Tensor a = placeholder({3}, f32, "A");
  const std::vector<double> x{-1, kNan, 2};
  expect_everywhere(ops::relu(a), {x}, {0, kNan, 2});
  expect_everywhere(compute({3}, [&](Axis i) { return max(Expr(0.f), a(i)); }), {x}, {0, kNan, 2});
  expect_everywhere(compute({3}, [&](Axis i) { return min(a(i), Expr(1.f)); }), {x}, {-1, kNan, 1});
  expect_everywhere(compute({3}, [&](Axis i) { return fmax(a(i), Expr(0.f)); }), {x}, {0, 0, 2});
  const Expr nan = make_float(f32, kNan);
  expect_everywhere(compute({3}, [&](Axis i) { return max(a(i), nan); }), {x}, {kNan, kNan, kNan});
  expect_everywhere(compute({3}, [&](Axis i) { return fmin(nan, a(i)); }), {x}, {-1, kNan, 2});
}

TEST(Nan, AnywhereInARowIsItsExtreme) {
  constexpr int64_t kRows = 12, kLength = 70;
  std::vector<double> x, high, number_high;
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t k = 0; k < kLength; ++k)
      x.push_back(r > 1 && k == r * 6 ? kNan : r == 1 ? kNan : static_cast<double>(k));
    high.push_back(r == 0 ? kLength - 1 : kNan);
    number_high.push_back(r == 1 ? kNan : kLength - 1);
  }
  for (const DataType t : {f32, f64}) {
    const Tensor a = placeholder({kRows, kLength}, t, "A");
    const Axis k = reduce_axis(kLength, "k");
    expect_everywhere(ops::max(a, {1}), {x}, high);
    expect_everywhere(compute({kRows}, [&](Axis i) { return reduce_fmax(a(i, k), {k}); }), {x},
                      number_high);
  }
}

TEST(Nan, IsHandedOnByMaxPool) {
  const Tensor a = placeholder({1, 1, 2, 4}, f32, "A");
  expect_everywhere(ops::max_pool(a, {.kernel = {2, 2}, .stride = {2, 2}}),
                    {{1, 2, 3, 4, 5, 6, kNan, 8}}, {6, kNan});
}

// ---- sums of 16-bit floats ----

TEST(SumsOf16Bits, AreMadeInF32) {
  constexpr int64_t kLength = 4096;
  for (const DataType t : {bf16, f16}) {
    const Tensor a = placeholder({2, kLength}, t, "A");
    const Axis k = reduce_axis(kLength, "k");
    // Added one by one in the type itself, ones stop to count at 256 or 2048.
    const std::vector<double> ones(2 * kLength, 1);
    const Tensor sums = compute({2}, [&](Axis i) { return sum(a(i, k), k); }, "s");
    EXPECT_EQ(sums.dtype(), t);
    expect_everywhere(sums, {ones}, {kLength, kLength});
    const Tensor wide = compute({2}, [&](Axis i) { return sum_in(f32, a(i, k), {k}); });
    EXPECT_EQ(wide.dtype(), f32);
    expect_everywhere(wide, {ones}, {kLength, kLength});
  }
}

TEST(SumsOf16Bits, AreMadeInTheTypeThatIsAskedFor) {
  const Tensor a = placeholder({1, 1000}, bf16, "A");
  const Axis k = reduce_axis(1000, "k");
  const Tensor t = compute({1}, [&](Axis i) { return sum_in(bf16, a(i, k), {k}); });
  EXPECT_EQ(t.dtype(), bf16);
  const NDArray ones = NDArray::full({1, 1000}, bf16, 1);
  EXPECT_EQ(interpret({t}, {{a, ones}})[0].get(0), 256);
}

TEST(SumsOf16Bits, AreProductsToo) {
  const Tensor a = placeholder({4}, bf16, "A");
  const Axis k = reduce_axis(4, "k");
  // 1.0078125^4 is 1.03125.. and a little: rounded once it is 1.03125, and in steps as well 1.03125
  // or less; what is asked is that the type is kept and the result is right.
  const Tensor t = compute({1}, [&](Axis) { return prod(a(k), k); });
  EXPECT_EQ(t.dtype(), bf16);
  expect_everywhere(t, {{2, 3, 0.5, 7}}, {21});
}

}  // namespace
}  // namespace heddle::testing
