// Divisions by constants, of the numbers at the ends.
#include "driver/driver_testing.h"
#include "heddle/codegen/emulator.h"

namespace heddle::testing {
namespace {

int64_t floor_quotient(int64_t a, int64_t b) {
  const __int128 x = a;
  __int128 q = x / b;
  if (x % b != 0 && (x < 0) != (b < 0)) --q;
  return static_cast<int64_t>(q);
}

// v - q * c; the product may lie beyond the type's ends, and unsigned numbers wrap around.
int64_t difference(int64_t v, int64_t q, int64_t c) {
  return static_cast<int64_t>(static_cast<uint64_t>(v) -
                              static_cast<uint64_t>(q) * static_cast<uint64_t>(c));
}

TEST(ConstantDivisor, OfTheLowestNumbersIsRight) {
  const std::vector<int64_t> values{
      INT64_MIN, INT64_MIN + 1, INT64_MIN + 6, INT64_MAX, INT64_MAX - 1, -15, -14, -1, 0, 1, 13,
      14};
  const auto n = static_cast<int64_t>(values.size());
  const Tensor x = placeholder({n}, i64, "X");
  const NDArray in = NDArray::from<int64_t>(values);
  for (const int64_t c : {-7, -2, -3, 7, 8, -8}) {
    for (const bool negative : {false, true}) {
      // Below 0 it is known of them, which is when signs are turned around.
      const auto read = [&](const Axis& i) { return negative ? min(x(i), Expr(0)) : x(i); };
      const std::vector<Tensor> results{
          compute(
              {n}, [&](Axis i) { return floordiv(read(i), Expr(c)); }, "floordiv"),
          compute(
              {n}, [&](Axis i) { return floormod(read(i), Expr(c)); }, "floormod"),
          compute(
              {n}, [&](Axis i) { return read(i) / Expr(c); }, "div"),
          compute({n}, [&](Axis i) { return read(i) % Expr(c); }, "mod")};
      for (size_t r = 0; r < results.size(); ++r) {
        const auto check = [&](const NDArray& got, const char* who) {
          for (int64_t i = 0; i < n; ++i) {
            int64_t v = values[static_cast<size_t>(i)];
            if (negative) v = std::min<int64_t>(v, 0);
            const int64_t q = floor_quotient(v, c);
            const int64_t want = r == 0 ? q : r == 1 ? difference(v, q, c) : r == 2 ? v / c : v % c;
            EXPECT_EQ(got.at<int64_t>({i}), want)
                << who << ": " << results[r].name() << "(" << v << ", " << c << ")";
          }
        };
        check(interpret({results[r]}, {{x, in}})[0], "interpreter");
        const Schedule s = create_schedule({results[r]});
        std::vector<NDArray> arrays{in, NDArray::zeros({n}, i64)};
        build(s, all_args(s.dag())).call(arrays);
        check(arrays[1], "kernel");
        const Schedule gpu = create_schedule({results[r]}, Target::parse("cuda -gpu=h100"));
        arrays[1] = NDArray::zeros({n}, i64);
        emulate(lower_gpu(gpu, all_args(gpu.dag())), arrays);
        check(arrays[1], "emulator");
      }
    }
  }
}

TEST(OptLevel, OutOfRangeIsAnError) {
  const Tensor a = placeholder({4}, f32, "A");
  const Tensor b = compute({4}, [&](Axis i) { return a(i) + 1.f; });
  for (const int level : {-1, 0, 3, 99}) {
    BuildOptions options;
    options.opt_level = level;
    EXPECT_THROW(build(create_schedule({b}), {a, b}, options), Error) << level;
  }
}

}  // namespace
}  // namespace heddle::testing
