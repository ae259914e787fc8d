#include "ops/ops_testing.h"

namespace heddle {
namespace {

struct Window {
  int64_t kernel, stride, before, after, dilation = 1;
  bool ceil_mode = false;
};

/// Elements of channel (n, c) under window (p, q), by calling `visit` with each.
template <class F>
void for_window(const Window& w, const Input& x, const Dims& i, F visit) {
  for (int64_t r = 0; r < w.kernel; ++r)
    for (int64_t s = 0; s < w.kernel; ++s) {
      const int64_t y = i[2] * w.stride - w.before + r * w.dilation;
      const int64_t z = i[3] * w.stride - w.before + s * w.dilation;
      if (y >= 0 && z >= 0 && y < x.array.shape()[2] && z < x.array.shape()[3])
        visit(x(i[0], i[1], y, z));
    }
}

const Window kWindows[] = {{2, 2, 0, 0},    {3, 2, 1, 1},          {3, 1, 1, 0},
                           {2, 1, 0, 1, 2}, {3, 2, 0, 0, 1, true}, {2, 3, 1, 1, 1, true}};

ops::Pool pool_of(const Window& w) {
  return {.kernel = {w.kernel},
          .stride = {w.stride},
          .padding = {w.before, w.before, w.after, w.after},
          .dilation = {w.dilation},
          .ceil_mode = w.ceil_mode};
}

TEST(MaxPool, AgreesWithTheReference) {
  for (const Window& w : kWindows) {
    for (DataType t : {f32, f16, i8}) {
      const Input x = input({2, 3, 7, 8}, t, 1, -9, -1);
      expect_elements(ops::max_pool(x, pool_of(w)), {x}, [&](const Dims& i) {
        double best = -1e9;
        for_window(w, x, i, [&](double v) { best = std::max(best, v); });
        return best;
      });
    }
  }
}

TEST(AvgPool, CountsOnlyElements) {
  for (const Window& w : kWindows) {
    for (DataType t : {f32, f16}) {
      const Input x = input({2, 3, 7, 8}, t, 1);
      expect_elements(ops::avg_pool(x, pool_of(w)), {x}, [&](const Dims& i) {
        double s = 0, n = 0;
        for_window(w, x, i, [&](double v) { s += v, ++n; });
        return s / n;
      });
    }
  }
}

TEST(AvgPool, CountsPaddingWhenAsked) {
  const Window w{3, 2, 1, 1};
  ops::Pool pool = pool_of(w);
  pool.count_include_pad = true;
  const Input x = input({1, 2, 7, 7});
  expect_elements(ops::avg_pool(x, pool), {x}, [&](const Dims& i) {
    double s = 0;
    for_window(w, x, i, [&](double v) { s += v; });
    return s / 9;
  });
}

TEST(AvgPool, OfCeilModeDoesNotCountBeyondThePadding) {
  // As PyTorch: the last window covers 4, one padding element, and a position that does not exist.
  const Input x = input_of(NDArray::from<float>({1, 2, 3, 4}, {1, 1, 4}));
  const double want[] = {1, 3, 2};
  const Tensor y = ops::avg_pool(
      x,
      {.kernel = {3}, .stride = {2}, .padding = {1}, .ceil_mode = true, .count_include_pad = true});
  expect_elements(y, {x}, [&](const Dims& i) { return want[i[2]]; });
}

TEST(Pool, OfOneAndThreeDimensionsAndChannelsLast) {
  const Input x = input({1, 3, 9}, f32, 1);
  expect_elements(ops::max_pool(x, {.kernel = {3}}), {x}, [&](const Dims& i) {
    double best = -1e9;
    for (int r = 0; r < 3; ++r) best = std::max(best, x(i[0], i[1], i[2] * 3 + r));
    return best;
  });
  const Input v = input({1, 4, 4, 6, 2}, f32, 2);
  expect_elements(ops::avg_pool(v, {.kernel = {2, 2, 3}, .layout = ops::NHWC}), {v},
                  [&](const Dims& i) {
                    double s = 0;
                    for (int r = 0; r < 2; ++r)
                      for (int q = 0; q < 2; ++q)
                        for (int p = 0; p < 3; ++p)
                          s += v(i[0], i[1] * 2 + r, i[2] * 2 + q, i[3] * 3 + p, i[4]);
                    return s / 12;
                  });
}

TEST(GlobalPool, ReducesAllPositions) {
  const Input x = input({2, 3, 5, 4});
  const Tensor mean = ops::global_avg_pool(x);
  EXPECT_EQ(mean.extents(), (Dims{2, 3, 1, 1}));
  expect_elements(mean, {x}, [&](const Dims& i) {
    double s = 0;
    for (int y = 0; y < 5; ++y)
      for (int z = 0; z < 4; ++z) s += x(i[0], i[1], y, z);
    return s / 20;
  });
  expect_elements(ops::global_max_pool(x, ops::NHWC), {x}, [&](const Dims& i) {
    double best = -1e9;
    for (int y = 0; y < 3; ++y)
      for (int z = 0; z < 5; ++z) best = std::max(best, x(i[0], y, z, i[3]));
    return best;
  });
}

TEST(AdaptivePool, TakesUnevenWindows) {
  const Input x = input({1, 2, 7, 10});
  for (const Dims& size : {Dims{3, 4}, Dims{7, 5}, Dims{1, 1}, Dims{9, 3}}) {
    const auto window = [&](const Dims& i, int d) {
      const int64_t in = x.array.shape()[static_cast<size_t>(2 + d)];
      const int64_t out = size[static_cast<size_t>(d)], o = i[static_cast<size_t>(2 + d)];
      return std::pair{o * in / out, ((o + 1) * in + out - 1) / out};
    };
    expect_elements(ops::adaptive_avg_pool(x, size), {x}, [&](const Dims& i) {
      double s = 0, n = 0;
      for (int64_t y = window(i, 0).first; y < window(i, 0).second; ++y)
        for (int64_t z = window(i, 1).first; z < window(i, 1).second; ++z)
          s += x(i[0], i[1], y, z), ++n;
      return s / n;
    });
    expect_elements(ops::adaptive_max_pool(x, size), {x}, [&](const Dims& i) {
      double best = -1e9;
      for (int64_t y = window(i, 0).first; y < window(i, 0).second; ++y)
        for (int64_t z = window(i, 1).first; z < window(i, 1).second; ++z)
          best = std::max(best, x(i[0], i[1], y, z));
      return best;
    });
  }
}

TEST(Dilation, AddsWeightsBeforeTheMaximum) {
  for (const ops::Layout layout : {ops::Layout::ChannelsFirst, ops::Layout::ChannelsLast}) {
    const bool first = layout == ops::Layout::ChannelsFirst;
    const Input x = input(first ? Dims{2, 3, 8, 9} : Dims{2, 8, 9, 3}, f32, 1);
    const Input w = input(first ? Dims{3, 3, 2} : Dims{3, 2, 3}, f32, 2);
    const Tensor y = ops::dilation2d(
        x, w, {.stride = {2, 1}, .padding = {1}, .dilation = {1, 2}, .layout = layout});
    expect_elements(y, {x, w}, [&](const Dims& i) {
      const int64_t c = first ? i[1] : i[3], row = first ? i[2] : i[1],
                    column = first ? i[3] : i[2];
      double most = -std::numeric_limits<double>::infinity();
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t s = 0; s < 2; ++s) {
          const int64_t h = row * 2 + r - 1, v = column + 2 * s - 1;
          const Dims at = first ? Dims{i[0], c, h, v} : Dims{i[0], h, v, c};
          most = std::max(most, x.or_else(-std::numeric_limits<double>::infinity(), at) +
                                    (first ? w(c, r, s) : w(r, s, c)));
        }
      return most;
    });
  }
  EXPECT_THROW(ops::dilation2d(input({1, 3, 4, 4}), input({2, 3, 3})), Error);
}

TEST(PoolErrors, NameOperatorArgumentAndShapes) {
  const Input x = input({1, 2, 5, 5}), n = input({1, 2, 5, 5}, i32), flat = input({5, 5});
  EXPECT_EQ(error_of([&] { ops::max_pool(x, {}); }), "max_pool: 'kernel' is not given | ");
  EXPECT_EQ(error_of([&] { ops::max_pool(x, {.kernel = {0}}); }),
            "max_pool: 'kernel' (0, 0) has a value below 1 | ");
  EXPECT_EQ(error_of([&] { ops::max_pool(x, {.kernel = {2}, .padding = {2}}); }),
            "max_pool: padding 2 leaves windows of 2 without elements | ");
  EXPECT_EQ(error_of([&] { ops::avg_pool(n, {.kernel = {2}}); }),
            "avg_pool: argument 'x' is i32 (1, 2, 5, 5), and needs a float type | convert it with "
            "ops::cast(x, f32)");
  EXPECT_EQ(error_of([&] { ops::global_avg_pool(flat); }),
            "global_avg_pool: argument 'x' has shape (5, 5), and needs 3 to 5 dimensions | ");
  EXPECT_EQ(error_of([&] { ops::adaptive_avg_pool(x, {0}); }),
            "adaptive_avg_pool: 'size' (0, 0) has a value below 1 | ");
}

TEST(Pool, PositionsAreThoseOfTheFirstMaximum) {
  const Input x = input({2, 2, 5, 6}, i8);  // few values, of which many are equal
  const ops::Pool pool{
      .kernel = {3, 2}, .stride = {2, 2}, .padding = {1, 0, 1, 0}, .dilation = {1, 2}};
  expect_elements(ops::max_pool_positions(x, pool), {x}, [&](const Dims& i) {
    double most = -1000, place = -1;
    for (int64_t a = 0; a < 3; ++a)
      for (int64_t b = 0; b < 2; ++b) {
        const int64_t r = i[2] * 2 - 1 + a, c = i[3] * 2 + b * 2;
        if (r < 0 || r >= 5 || c >= 6 || x(i[0], i[1], r, c) <= most) continue;
        most = x(i[0], i[1], r, c);
        place = static_cast<double>(r * 6 + c);
      }
    return place;
  });
}

}  // namespace
}  // namespace heddle
