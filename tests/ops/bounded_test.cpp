#include "ops/ops_testing.h"

#include <algorithm>
#include <limits>

namespace heddle {
namespace {

TEST(Bounded, NonzeroGivesPositionsInOrderAndTheirNumber) {
  const Input x =
      input_of(NDArray::from<float>({0, 2, 0, -1, 0, 0, 3, 4, 0, 0, 0, 5}, {3, 4}), "x");
  const ops::Bounded b = ops::nonzero(x);
  const std::vector<int64_t> places{1, 3, 6, 7, 11};
  expect_elements(b.values, {x}, [&](const Dims& i) -> double {
    if (i[1] >= 5) return -1;
    const int64_t at = places[static_cast<size_t>(i[1])];
    return static_cast<double>(i[0] == 0 ? at / 4 : at % 4);
  });
  expect_elements(b.count, {x}, [](const Dims&) { return 5; });
  const Input none = input_of(NDArray::zeros({4}, i32), "none");
  expect_elements(ops::nonzero(none).count, {none}, [](const Dims&) { return 0; });
  expect_elements(ops::nonzero(none).values, {none}, [](const Dims&) { return -1; });
}

TEST(Bounded, CompressKeepsSlices) {
  const Input x = input({2, 5, 3}), flags = input_of(NDArray::full({4}, boolean, 0), "flags");
  flags.array.set(1, 1);
  flags.array.set(3, 1);
  const ops::Bounded b = ops::compress(x, flags, 1);
  expect_elements(b.values, {x, flags},
                  [&](const Dims& i) { return i[1] < 2 ? x(i[0], i[1] == 0 ? 1 : 3, i[2]) : 0; });
  expect_elements(b.count, {x, flags}, [](const Dims&) { return 2; });
}

TEST(Bounded, UniqueElementsAreCountedAndFoundAgain) {
  const std::vector<float> given{3, 1, 3, 2, 1, 1, 7};
  const Input x = input_of(NDArray::from(given, {7}), "x");
  for (const bool sorted : {true, false}) {
    const ops::Unique u = ops::unique(x, sorted);
    const std::vector<float> order =
        sorted ? std::vector<float>{1, 2, 3, 7} : std::vector<float>{3, 1, 2, 7};
    const auto times = [&](float v) { return std::count(given.begin(), given.end(), v); };
    const auto first = [&](float v) {
      return std::find(given.begin(), given.end(), v) - given.begin();
    };
    const auto of = [&](const Dims& i, double other, auto f) {
      const auto r = static_cast<size_t>(i[0]);
      return r < order.size() ? static_cast<double>(f(order[r])) : other;
    };
    expect_elements(u.values, {x},
                    [&](const Dims& i) { return of(i, 0, [](float v) { return v; }); });
    expect_elements(u.first, {x}, [&](const Dims& i) { return of(i, -1, first); });
    expect_elements(u.counts, {x}, [&](const Dims& i) { return of(i, 0, times); });
    expect_elements(u.inverse, {x}, [&](const Dims& i) {
      const float v = given[static_cast<size_t>(i[0])];
      return static_cast<double>(std::find(order.begin(), order.end(), v) - order.begin());
    });
    expect_elements(u.count, {x}, [](const Dims&) { return 4; });
  }
}

TEST(Bounded, NansAreOneElement) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Input x = input_of(NDArray::from<float>({2, nan, 1, nan, 2, nan}, {6}), "x");
  const auto list = [](std::vector<double> values) {
    return [values](const Dims& i) { return values[static_cast<size_t>(i[0])]; };
  };
  const ops::Unique u = ops::unique(x), by_place = ops::unique(x, false);
  expect_elements(u.first, {x}, list({2, 0, 1, -1, -1, -1}));
  expect_elements(u.inverse, {x}, list({1, 2, 0, 2, 1, 2}));
  expect_elements(u.counts, {x}, list({1, 2, 3, 0, 0, 0}));
  expect_elements(u.count, {x}, [](const Dims&) { return 3; });
  expect_elements(by_place.inverse, {x}, list({0, 1, 2, 1, 0, 1}));
}

TEST(Bounded, LongListsOfElementsAreFoundAgain) {
  const Input x = input_of(NDArray::random({300}, f32, 3, -20, 20).cast(i32).cast(f32), "x");
  std::vector<float> known;
  for (int64_t i = 0; i < 300; ++i) {
    if (std::find(known.begin(), known.end(), x(i)) == known.end())
      known.push_back(static_cast<float>(x(i)));
  }
  const auto place_in = [](const std::vector<float>& list, double v) {
    return static_cast<double>(std::find(list.begin(), list.end(), v) - list.begin());
  };
  const ops::Unique by_place = ops::unique(x, false), u = ops::unique(x);
  expect_elements(by_place.inverse, {x}, [&](const Dims& i) { return place_in(known, x(i[0])); });
  std::sort(known.begin(), known.end());
  expect_elements(u.inverse, {x}, [&](const Dims& i) { return place_in(known, x(i[0])); });
}

struct Box {
  double low[2], high[2];
};
double overlap(const Box& a, const Box& b) {
  double common = 1, area[2] = {1, 1};
  for (int d : {0, 1}) {
    common *= std::max(0.0, std::min(a.high[d], b.high[d]) - std::max(a.low[d], b.low[d]));
    area[0] *= a.high[d] - a.low[d];
    area[1] *= b.high[d] - b.low[d];
  }
  return common / (area[0] + area[1] - common);
}

/// The rows that suppression keeps, by a loop over the boxes.
std::vector<Dims> kept(const std::vector<std::vector<Box>>& boxes, const Input& scores,
                       int64_t most, double bound, double least) {
  std::vector<Dims> rows;
  for (int64_t b = 0; b < scores.array.extent(0); ++b)
    for (int64_t c = 0; c < scores.array.extent(1); ++c) {
      std::vector<int64_t> order, taken;
      for (int64_t i = 0; i < scores.array.extent(2); ++i)
        if (scores(b, c, i) > least) order.push_back(i);
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t i, int64_t j) { return scores(b, c, i) > scores(b, c, j); });
      const auto& own = boxes[static_cast<size_t>(b)];
      for (const int64_t i : order) {
        const bool far = std::none_of(taken.begin(), taken.end(), [&](int64_t j) {
          return overlap(own[static_cast<size_t>(i)], own[static_cast<size_t>(j)]) > bound;
        });
        if (!far || static_cast<int64_t>(taken.size()) >= most) continue;
        taken.push_back(i);
        rows.push_back({b, c, i});
      }
    }
  return rows;
}

TEST(Bounded, SuppressionKeepsTheBestBoxesOfEachClass) {
  const int64_t n = 12;
  for (const bool centred : {false, true}) {
    const NDArray given = NDArray::random({2, n, 4}, f32, centred ? 5 : 6, 0.2, 1.0);
    const Input scores = input({2, 3, n}, f32, 7, 0, 1);
    std::vector<std::vector<Box>> boxes(2);
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t i = 0; i < n; ++i) {
        const auto at = [&](int64_t k) { return given.get((b * n + i) * 4 + k); };
        Box box{};
        for (int64_t d : {0, 1}) {  // y, x
          const double a = centred ? at(1 - d) - at(3 - d) / 2 : at(d);
          const double z = centred ? at(1 - d) + at(3 - d) / 2 : at(d + 2);
          box.low[d] = std::min(a, z);
          box.high[d] = std::max(a, z);
        }
        boxes[static_cast<size_t>(b)].push_back(box);
      }
    const Input input_boxes = input_of(given, "boxes");
    const Input least = input_of(NDArray::from<float>({0.2F}, {1}), "least");
    const std::vector<Dims> rows = kept(boxes, scores, 6, 0.1, 0.2F);
    ASSERT_GT(rows.size(), 6U);
    ASSERT_LT(rows.size(), 36U);
    const ops::Bounded b = ops::non_max_suppression(
        input_boxes, scores, {.most = 6, .overlap = 0.1, .centred = centred}, least);
    expect_elements(b.values, {input_boxes, scores, least}, [&](const Dims& i) {
      const auto r = static_cast<size_t>(i[0]);
      return r < rows.size() ? static_cast<double>(rows[r][static_cast<size_t>(i[1])]) : -1.0;
    });
    expect_elements(b.count, {input_boxes, scores, least},
                    [&](const Dims&) { return static_cast<double>(rows.size()); });
  }
}

TEST(BoundedErrors, NameWhatIsWrong) {
  const Input boxes = input({1, 6, 4}), scores = input({1, 2, 5});
  EXPECT_EQ(
      error_of([&] { ops::non_max_suppression(boxes, scores, {.most = 3}); }),
      "non_max_suppression: 'boxes' (1, 6, 4) and 'scores' (1, 2, 5) do not go together | they are "
      "(N, n, 4) and (N, classes, n)");
  const Input x = input({3}), flags = input({4}, boolean);
  EXPECT_EQ(
      error_of([&] { ops::compress(x, flags); }),
      "compress: argument 'condition' is bool (4), and needs bools for dimension 0 of (3) | ");
}

}  // namespace
}  // namespace heddle
