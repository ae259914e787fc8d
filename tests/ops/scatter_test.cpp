// Scatters, gathers by several indices, order by value, recurrent layers.
#include <algorithm>
#include <limits>
#include <numeric>

#include "heddle/dag/compute_dag.h"
#include "heddle/dsl/arrays.h"
#include "heddle/family/schedule.h"
#include "heddle/lower/lower.h"
#include "heddle/support/rng.h"
#include "ops/ops_testing.h"

namespace heddle {
namespace {

Input indices(const std::vector<int64_t>& values, const Dims& dims, const char* name = "indices") {
  return input_of(NDArray::from(values, dims), name);
}

TEST(GatherNd, ReadsSlicesAndElements) {
  const Input x = input({3, 4, 5});
  const std::vector<int64_t> at = {2, 1, 0, 3, -1, -4};
  const Input i = indices(at, {3, 2});
  expect_elements(ops::gather_nd(x, i), {x, i}, [&](const Dims& p) {
    const int64_t a = at[static_cast<size_t>(2 * p[0])], b = at[static_cast<size_t>(2 * p[0] + 1)];
    return x(a < 0 ? a + 3 : a, b < 0 ? b + 4 : b, p[1]);
  });
  const Input rows = indices({4, 0, 2}, {3, 1});
  const int64_t picked[] = {4, 0, 2};
  const Input y = input({3, 5});
  expect_elements(ops::gather_nd(y, rows, 1), {y, rows},
                  [&](const Dims& p) { return y(p[0], picked[p[0]]); });
  EXPECT_THROW(ops::gather_nd(y, indices({0, 0, 0}, {1, 3})), Error);
}

// Without updates all elements stay; updates that name no dimension replace all.
TEST(Scatter, OfNoUpdatesAndOfNoDimensions) {
  const Input x = input({3, 4}, f32, 1), none = input({0, 4}, f32, 2),
              all = input({2, 3, 4}, f32, 3);
  const Input no_rows = indices({}, {0, 4}), no_slices = indices({}, {0, 1}, "slices"),
              of_all = indices({}, {2, 0}, "all");
  const auto same = [&](const Dims& p) { return x.at(p); };
  for (const auto how : {ops::ScatterReduction::Replace, ops::ScatterReduction::Add}) {
    expect_elements(ops::scatter_elements(x, no_rows, none, 0, how), {x, no_rows, none}, same);
    expect_elements(ops::scatter_nd(x, no_slices, none, how), {x, no_slices, none}, same);
  }
  expect_elements(ops::scatter_nd(x, of_all, all), {x, of_all, all},
                  [&](const Dims& p) { return all(1, p[0], p[1]); });
}

// The plain loop: updates in order; those out of range write nothing.
template <class F>
std::vector<double> scattered(const Input& x, const std::vector<int64_t>& at, const Input& updates,
                              int64_t columns, F combine) {
  std::vector<double> y;
  for (int64_t i = 0; i < x.array.size(); ++i) y.push_back(x.array.get(i));
  const int64_t rows = x.array.extent(0), width = x.array.extent(1);
  for (size_t u = 0; u < at.size(); ++u) {
    const int64_t row = at[u] < 0 ? at[u] + rows : at[u];
    if (row < 0 || row >= rows) continue;
    double& target = y[static_cast<size_t>(row * width + static_cast<int64_t>(u) % columns)];
    target = combine(target, updates.array.get(static_cast<int64_t>(u)));
  }
  return y;
}

TEST(ScatterElements, TheLastUpdateWinsAndOthersCombine) {
  const Input x = input({5, 4}, f32, 1), u = input({3, 2}, f32, 2);
  const std::vector<int64_t> at = {1, 4, 1, -1, 9, 0};  // row 1 twice; 9 is out of range
  const Input i = indices(at, {3, 2});
  const auto check = [&](ops::ScatterReduction how, auto combine) {
    const std::vector<double> want = scattered(x, at, u, 2, combine);
    expect_elements(ops::scatter_elements(x, i, u, 0, how), {x, i, u},
                    [&](const Dims& p) { return want[static_cast<size_t>(p[0] * 4 + p[1])]; });
  };
  check(ops::ScatterReduction::Replace, [](double, double b) { return b; });
  check(ops::ScatterReduction::Add, [](double a, double b) { return a + b; });
  check(ops::ScatterReduction::Mul, [](double a, double b) { return a * b; });
  check(ops::ScatterReduction::Max, [](double a, double b) { return std::max(a, b); });
  check(ops::ScatterReduction::Min, [](double a, double b) { return std::min(a, b); });
  EXPECT_THROW(ops::scatter_elements(x, i, x), Error);
}

TEST(ScatterNd, WritesSlices) {
  const Input x = input({4, 3}, f32, 1), u = input({2, 3}, f32, 2);
  const Input i = indices({3, 1}, {2, 1});
  expect_elements(ops::scatter_nd(x, i, u), {x, i, u}, [&](const Dims& p) {
    if (p[0] == 3) return u(0, p[1]);
    return p[0] == 1 ? u(1, p[1]) : x(p[0], p[1]);
  });
  const Input both = indices({2, 1, 2, 1}, {2, 2}), two = input({2}, f32, 3);
  expect_elements(ops::scatter_nd(x, both, two, ops::ScatterReduction::Add), {x, both, two},
                  [&](const Dims& p) {
                    return x(p[0], p[1]) + (p[0] == 2 && p[1] == 1 ? two(0) + two(1) : 0.0);
                  });
  EXPECT_THROW(ops::scatter_nd(x, both, u), Error);
}

NDArray interpreted(const Tensor& result, const std::vector<Input>& inputs) {
  return run_interpreted(result, inputs).result;
}

// Indices that are known with the declaration and name a box need no search. Drawn ones, of boxes and
// of none, do what the same indices do as data.
TEST(Scatter, KnownIndicesDoWhatIndicesThatAreDataDo) {
  const ops::ScatterReduction all[] = {ops::ScatterReduction::Replace, ops::ScatterReduction::Add,
                                       ops::ScatterReduction::Mul, ops::ScatterReduction::Max,
                                       ops::ScatterReduction::Min};
  int boxes = 0;
  for (uint64_t seed = 0; seed < 120 && !HasFailure(); ++seed) {
    Rng rng(seed);
    const auto below = [&](int64_t n) { return rng.uniform_int(0, n - 1); };
    const Input x = input({5, 7, 4}, f32, seed);
    // Rows first + step * q of two axes, at times turned, at times with one index changed.
    const int64_t n = 1 + below(2), m = 1 + below(3), step = 1 + below(2);
    const int64_t first = below(5 - n + 1), second = below(7 - step * (m - 1));
    const bool turned = below(2) == 1, changed = below(3) == 0;
    std::vector<int64_t> rows, along;
    const Dims outer = turned ? Dims{m, n} : Dims{n, m};
    for (int64_t a = 0; a < outer[0]; ++a) {
      for (int64_t b = 0; b < outer[1]; ++b) {
        rows.push_back(first + (turned ? b : a) - (below(4) == 0 ? 5 : 0));
        rows.push_back(second + step * (turned ? a : b));
      }
    }
    if (changed) rows[rows.size() - 1] = below(7);
    for (int64_t b = 0; b < m; ++b) {
      for (int64_t c = 0; c < 3; ++c)
        along.push_back(changed && c == 1 ? below(7) : second + step * b);
    }
    const ops::ScatterReduction how = all[below(5)];
    const Input u = input({outer[0], outer[1], 4}, f32, seed + 1000),
                v = input({1, m, 3}, f32, seed + 2000);
    const Input at = indices(rows, {outer[0], outer[1], 2}), places = indices(along, {1, m, 3});
    const Tensor known = ops::scatter_nd(x, constant(at.array), u, how),
                 line = ops::scatter_elements(x, constant(places.array), v, 1, how);
    boxes += ComputeDag({known}).size() == 3;
    for (const auto& [with, want] :
         {std::pair{known, interpreted(ops::scatter_nd(x, at, u, how), {x, at, u})},
          {line, interpreted(ops::scatter_elements(x, places, v, 1, how), {x, places, v})}}) {
      std::vector<Input> inputs{x, with.same_as(known) ? u : v};
      expect_result(with, run_interpreted(with, inputs),
                    [&](const Dims& p) { return want.get((p[0] * 7 + p[1]) * 4 + p[2]); });
      if (HasFailure()) ADD_FAILURE() << "seed " << seed;
    }
  }
  EXPECT_GT(boxes, 40);
}

// Positions are known through casts that keep them, and not through those that wrap or round.
TEST(Scatter, CastsOfPositionsMayChangeThem) {
  struct Case {
    DataType through;
    int64_t first, extent;
  };
  for (const Case& c :
       {Case{i32, 3, 400}, Case{i8, 100, 300}, Case{u8, 200, 300}, Case{f16, 2040, 4000}}) {
    SCOPED_TRACE(to_string(c.through));
    const Tensor at = compute(
        {100}, [&](Axis i) { return cast(i64, cast(c.through, cast(i64, i) + Expr(c.first))); });
    const Input x = input({c.extent}, f32, 1), u = input({100}, f32, 2);
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < 100; ++i) {
      const NDArray one = NDArray::zeros({1}, c.through);
      one.set(0, static_cast<double>(c.first + i));
      int64_t v = static_cast<int64_t>(one.get(0));
      if (c.through == i8) v = static_cast<int8_t>(c.first + i);
      if (c.through == u8) v = static_cast<uint8_t>(c.first + i);
      numbers.push_back(v);
    }
    const Input places = indices(numbers, {100});
    const Tensor known = ops::scatter_elements(x, at, u, 0);
    const NDArray want = interpreted(ops::scatter_elements(x, places, u, 0), {x, places, u});
    expect_result(known, run_interpreted(known, {x, u}),
                  [&](const Dims& p) { return want.get(p[0]); });
  }
}

TEST(TopK, OrdersEqualElementsByPlace) {
  const Input x = input({3, 17}, i32, 5);  // few values: many are equal
  for (const bool largest : {true, false}) {
    const ops::Sorted sorted = ops::top_k(x, 6, 1, largest);
    std::vector<std::vector<int64_t>> order;
    for (int64_t row = 0; row < 3; ++row) {
      std::vector<int64_t> o(17);
      std::iota(o.begin(), o.end(), 0);
      std::stable_sort(o.begin(), o.end(), [&](int64_t a, int64_t b) {
        return largest ? x(row, a) > x(row, b) : x(row, a) < x(row, b);
      });
      order.push_back(o);
    }
    const auto place = [&](const Dims& p) {
      return order[static_cast<size_t>(p[0])][static_cast<size_t>(p[1])];
    };
    expect_elements(sorted.positions, {x},
                    [&](const Dims& p) { return static_cast<double>(place(p)); });
    expect_elements(sorted.values, {x}, [&](const Dims& p) { return x(p[0], place(p)); });
  }
  EXPECT_THROW(ops::top_k(x, 18, 1), Error);
  EXPECT_EQ(ops::sort(x, 0).values.extents(), (Dims{3, 17}));
}

/// The positions of the elements of column `c` of x in their order, equal ones by their places.
std::vector<int64_t> order_of_column(const Input& x, int64_t c, bool largest) {
  std::vector<int64_t> order(static_cast<size_t>(x.array.extent(0)));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return largest ? x(a, c) > x(b, c) : x(a, c) < x(b, c);
  });
  return order;
}

// Of rows of more than 256 elements a few are found one after the other, and more are merged; 300 is no power of two,
// and there are few values.
TEST(TopK, MergesLongRowsInAStableOrder) {
  for (const DataType t : {f32, i32, u8})
    for (const bool largest : {true, false})
      for (const int64_t k : {1, 5, 32, 65, 80, 300}) {
        const Input x = input({300, 2}, t, 5, -40, 40);
        const ops::Sorted s = ops::top_k(x, k, 0, largest);
        const std::vector<int64_t> orders[] = {order_of_column(x, 0, largest),
                                               order_of_column(x, 1, largest)};
        const auto place = [&](const Dims& p) { return orders[p[1]][static_cast<size_t>(p[0])]; };
        const bool whole = t == f32 && largest && k == 5;
        const auto check = [&](const Tensor& result, const auto& expected) {
          if (whole) return expect_elements(result, {x}, expected);
          expect_result(result, run_interpreted(result, {x}), expected);
        };
        check(s.positions, [&](const Dims& p) { return static_cast<double>(place(p)); });
        check(s.values, [&](const Dims& p) { return x(place(p), p[1]); });
      }
  const Input infinite =
      input_of(NDArray::full({257}, f32, -std::numeric_limits<double>::infinity()));
  expect_elements(ops::sort(infinite, 0, true).positions, {infinite},
                  [](const Dims& p) { return static_cast<double>(p[0]); });
}

TEST(TopK, AFewOfALongRowMayBeNanOrInfinite) {
  constexpr int64_t kLong = 300;
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  const NDArray values = NDArray::full({kLong}, f32, -infinity);
  for (const int64_t at : {299, 17, 33}) values.set(at, nan);
  for (const int64_t at : {1, 298}) values.set(at, infinity);
  const Input x = input_of(values, "x");
  const std::vector<double> largest = {17, 33, 299, 1, 298, 0, 2}, least = {0, 2, 3, 4, 5, 6, 7};
  for (const bool is_largest : {true, false})
    expect_elements(ops::top_k(x, 7, 0, is_largest).positions, {x}, [&](const Dims& p) {
      return (is_largest ? largest : least)[static_cast<size_t>(p[0])];
    });
}

TEST(TopK, NansAreTheLargestAndEqual) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Input x = input_of(NDArray::from<float>({2, nan, -1, nan, 5}, {5}), "x");
  for (const bool descending : {false, true}) {
    const std::vector<double> order =
        descending ? std::vector<double>{1, 3, 4, 0, 2} : std::vector<double>{2, 0, 4, 1, 3};
    expect_elements(ops::sort(x, 0, descending).positions, {x},
                    [&](const Dims& p) { return order[static_cast<size_t>(p[0])]; });
  }
  const Input all = input_of(NDArray::full({300}, f32, nan));  // merged
  for (const bool descending : {false, true})
    expect_elements(ops::sort(all, 0, descending).positions, {all},
                    [](const Dims& p) { return static_cast<double>(p[0]); });
  Input some = input_of(NDArray::zeros({300}, f32));
  for (int64_t i = 0; i < 300; ++i) some.array.set(i, i % 3 == 0 ? nan : static_cast<float>(i));
  const ops::Sorted up = ops::sort(some, 0);
  expect_elements(up.positions, {some}, [](const Dims& p) {
    const int64_t r = p[0];
    return static_cast<double>(r < 200 ? r / 2 * 3 + 1 + r % 2 : (r - 200) * 3);
  });
}

// A block takes a row through all stages, in shared memory, where the stages would be twenty kernels and more.
TEST(TopK, RowsAreSortedByOneKernelOfAGpu) {
  const Target gpu = Target::parse("cuda -gpu=h200");
  for (const int64_t k : {10, 40, 700}) {
    const Tensor x = placeholder({5, 700});
    const ops::Sorted s = ops::top_k(x, k);
    const GpuProgram program =
        lower_gpu(create_schedule({s.values, s.positions}, gpu), {x, s.values, s.positions});
    EXPECT_EQ(program.main.size(), 1u) << k;
    EXPECT_LE(program.main[0].shared_bytes, gpu.gpu.smem_per_block) << k;
  }
  // One row of this length needs more shared memory than a block has.
  const Tensor x = placeholder({1, 1 << 16});
  const ops::Sorted s = ops::sort(x);
  EXPECT_GT(lower_gpu(create_schedule({s.values}, gpu), {x, s.values}).main.size(), 10u);
}

// A layer of one hidden unit, step by step. PyTorch's formulas, ONNX's order of gates.
struct Recurrence {
  Input x = input({4, 1, 2}, f32, 1), w, r, b;
  explicit Recurrence(int64_t gates)
      : w(input({gates, 2}, f32, 2)), r(input({gates, 1}, f32, 3)), b(input({2 * gates}, f32, 4)) {}
  ops::RecurrentWeights weights() const { return {w, r, b}; }
  double given(int64_t t, int64_t g) const {
    return x(t, 0, 0) * w(g, 0) + x(t, 0, 1) * w(g, 1) + b(g);
  }
};

double sigmoid(double v) { return 1 / (1 + std::exp(-v)); }

TEST(Lstm, IsWhatItsFormulasSay) {
  const Recurrence n(4);
  for (const bool reverse : {false, true}) {
    double h = 0, c = 0;
    std::vector<double> states(4);
    for (int64_t step = 0; step < 4; ++step) {
      const int64_t t = reverse ? 3 - step : step;
      const auto gate = [&](int64_t g) { return n.given(t, g) + n.r(g, 0) * h + n.b(4 + g); };
      c = sigmoid(gate(2)) * c + sigmoid(gate(0)) * std::tanh(gate(3));
      h = sigmoid(gate(1)) * std::tanh(c);
      states[static_cast<size_t>(t)] = h;
    }
    const ops::RecurrentResult result = ops::lstm(n.x, n.weights(), {.reverse = reverse});
    expect_elements(result.all, {n.x, n.w, n.r, n.b},
                    [&](const Dims& p) { return states[static_cast<size_t>(p[0])]; });
    expect_elements(result.cell, {n.x, n.w, n.r, n.b}, [&](const Dims&) { return c; });
  }
}

TEST(Gru, ResetsBeforeOrAfterTheProduct) {
  const Recurrence n(3);
  for (const bool after : {false, true}) {
    double h = 0;
    for (int64_t t = 0; t < 4; ++t) {
      const auto gate = [&](int64_t g) {
        return sigmoid(n.given(t, g) + n.r(g, 0) * h + n.b(3 + g));
      };
      const double z = gate(0), reset = gate(1);
      const double inner =
          after ? reset * (n.r(2, 0) * h + n.b(5)) : reset * h * n.r(2, 0) + n.b(5);
      h = (1 - z) * std::tanh(n.given(t, 2) + inner) + z * h;
    }
    expect_elements(ops::gru(n.x, n.weights(), {.linear_before_reset = after}).state,
                    {n.x, n.w, n.r, n.b}, [&](const Dims&) { return h; });
  }
}

TEST(Rnn, TakesAnotherActivation) {
  const Recurrence n(1);
  double h = 0;
  for (int64_t t = 0; t < 4; ++t) h = std::max(0.0, n.given(t, 0) + n.r(0, 0) * h + n.b(1));
  const ops::RecurrentAttributes relu{
      .activations = {[](const Expr& v) { return max(v, make_const(v.dtype(), 0)); }}};
  expect_elements(ops::rnn(n.x, n.weights(), relu).state, {n.x, n.w, n.r, n.b},
                  [&](const Dims&) { return h; });
  EXPECT_THROW(ops::lstm(n.x, n.weights()), Error);
}

}  // namespace
}  // namespace heddle
