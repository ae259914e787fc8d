// Losses and updates against plain loops, and that steps of them learn.
#include "heddle/ops/training.h"
#include "autodiff/gradient_testing.h"
#include "heddle/driver/build.h"
#include "heddle/dsl/arrays.h"
#include "heddle/family/schedule.h"

namespace heddle {
namespace {

Input labels_of(const std::vector<int32_t>& values) {
  return input_of(NDArray::from(values), "labels");
}

TEST(Training, CrossEntropyIsStable) {
  const std::vector<int32_t> at{2, 0, 1};
  const Input labels = labels_of(at), x = input({3, 4}, f32, 1, -1000, 1000);
  for (const double smoothing : {0.0, 0.1}) {
    double want = 0;
    for (int64_t n = 0; n < 3; ++n) {
      double most = x(n, 0), sum = 0, mean = 0;
      for (int64_t c = 1; c < 4; ++c) most = std::max(most, x(n, c));
      for (int64_t c = 0; c < 4; ++c) sum += std::exp(x(n, c) - most), mean += x(n, c) / 4;
      const double log = most + std::log(sum), hit = x(n, at[static_cast<size_t>(n)]);
      want += ((1 - smoothing) * (log - hit) + smoothing * (log - mean)) / 3;
    }
    const Tensor loss = ops::softmax_cross_entropy(x, labels, smoothing);
    expect_elements(loss, {x, labels}, [&](const Dims&) { return want; }, 1e-5);
  }
}

TEST(Training, CrossEntropyHasTheGradientOfASoftmax) {
  const Input labels = labels_of({2, 0, 1}), x = real({3, 4});
  for (const double smoothing : {0.0, 0.1})
    expect_gradient(
        [&](const std::vector<Tensor>& t) {
          return ops::softmax_cross_entropy(t[0], t[1], smoothing);
        },
        {x, labels});
  EXPECT_THAT(error_of([&] { ops::softmax_cross_entropy(x, labels_of({1, 2})); }),
              testing::HasSubstr("give one integer a row"));
}

TEST(Training, ARowWhoseLabelIsOutOfRangeAddsNothing) {
  const Input x = input({3, 4});
  for (const double smoothing : {0.0, 0.1}) {
    const auto loss = [&](const std::vector<int32_t>& at) {
      const Input labels = labels_of(at);
      return run_interpreted(ops::softmax_cross_entropy(x, labels, smoothing), {x, labels})
          .result.get(0);
    };
    const double both = loss({2, 0, 1}), last = loss({-1, 4, 1});
    EXPECT_NEAR(last, both - loss({2, -1, 4}) - loss({-7, 0, 9}), 1e-5);
    EXPECT_EQ(loss({-1, 4, 100}), 0);
  }
}

TEST(Training, Sgd) {
  const Input p = input({3, 4}, f32, 1), g = input({3, 4}, f32, 2), v = input({3, 4}, f32, 3);
  const ops::Momentum next =
      ops::sgd(p, g, v, {.rate = 0.1, .momentum = 0.9, .decay = 0.01, .nesterov = true});
  const auto moved = [&](const Dims& i) { return 0.9 * v.at(i) + g.at(i) + 0.01 * p.at(i); };
  expect_elements(next.velocity, {p, g, v}, moved, 1e-5);
  expect_elements(
      next.parameter, {p, g, v},
      [&](const Dims& i) { return p.at(i) - 0.1 * (g.at(i) + 0.01 * p.at(i) + 0.9 * moved(i)); },
      1e-5);
  EXPECT_THAT(error_of([&] { ops::sgd(p, input({3}), v); }),
              testing::HasSubstr("'gradient' is f32 (3)"));
}

TEST(Training, Adam) {
  const Input p = input({3, 4}, f32, 1), g = input({3, 4}, f32, 2), m = input({3, 4}, f32, 3);
  const Input s = input({3, 4}, f32, 4, 0, 1);
  const Input step = input_of(NDArray::full({1}, f32, 3), "step"),
              rate = input_of(NDArray::full({1}, f32, 0.01), "rate");
  const ops::Moments next = ops::adam(p, g, m, s, step, rate, {.decay = 0.1});
  const auto mean = [&](const Dims& i) { return 0.9 * m.at(i) + 0.1 * g.at(i); };
  const auto square = [&](const Dims& i) { return 0.999 * s.at(i) + 0.001 * g.at(i) * g.at(i); };
  const std::vector<Input> all{p, g, m, s, step, rate};
  expect_elements(next.mean, all, mean, 1e-5);
  expect_elements(next.square, all, square, 1e-5);
  expect_elements(
      next.parameter, all,
      [&](const Dims& i) {
        const double change = mean(i) / (1 - std::pow(0.9, 3)) /
                              (std::sqrt(square(i) / (1 - std::pow(0.999, 3))) + 1e-8);
        return p.at(i) * (1 - 0.01 * 0.1) - 0.01 * change;
      },
      1e-4);
  const Tensor narrow = placeholder({2}, bf16, "p"), one = placeholder({1}, bf16, "one");
  EXPECT_THAT(error_of([&] { ops::adam(narrow, narrow, narrow, narrow, one, one); }),
              testing::HasSubstr("keep the parameter and its states in f32"));
}

TEST(Training, AStepIsOneKernelAndLearns) {
  // Points in a plane, and whether they lie inside of a circle.
  const int64_t rows = 64;
  const Tensor x = placeholder({rows, 2}, f32, "x"), labels = placeholder({rows}, i32, "labels");
  const std::vector<Tensor> w{placeholder({16, 2}, f32, "w1"), placeholder({16}, f32, "b1"),
                              placeholder({2, 16}, f32, "w2"), placeholder({2}, f32, "b2")};
  const Tensor logits = ops::dense(ops::tanh(ops::dense(x, w[0], w[1])), w[2], w[3]);
  const Tensor loss = ops::softmax_cross_entropy(logits, labels);
  const std::vector<Tensor> d = gradient({loss}, w);
  std::vector<Tensor> before = w, after, velocities;
  for (size_t i = 0; i < w.size(); ++i) {
    const Tensor v = placeholder(w[i].shape(), f32, "v");
    const ops::Momentum next = ops::sgd(w[i], d[i], v, {.rate = 0.3, .momentum = 0.9});
    before.push_back(v);
    after.push_back(next.parameter);
    velocities.push_back(next.velocity);
  }
  after.insert(after.end(), velocities.begin(), velocities.end());
  std::vector<Tensor> outputs{loss}, args{x, labels};
  outputs.insert(outputs.end(), after.begin(), after.end());
  args.insert(args.end(), before.begin(), before.end());
  args.insert(args.end(), outputs.begin(), outputs.end());
  const Kernel step = build(create_schedule(outputs), args);
  const NDArray points = NDArray::random({rows, 2}, f32, 7, -1, 1),
                classes = NDArray::zeros({rows}, i32);
  for (int64_t i = 0; i < rows; ++i)
    classes.set(i, std::hypot(points.get(2 * i), points.get(2 * i + 1)) < 0.7 ? 1 : 0);
  std::vector<NDArray> now, next;
  for (size_t i = 0; i < before.size(); ++i) {
    now.push_back(i < w.size() ? NDArray::random(before[i].extents(), f32, 20 + i, -0.5, 0.5)
                               : zeros_like(before[i]));
    next.push_back(zeros_like(before[i]));
  }
  const NDArray is = zeros_like(loss);
  double first = 0;
  for (int n = 0; n < 300; ++n) {
    std::vector<NDArray> arrays{points, classes};
    arrays.insert(arrays.end(), now.begin(), now.end());
    arrays.push_back(is);
    arrays.insert(arrays.end(), next.begin(), next.end());
    step.call(arrays);
    std::swap(now, next);
    if (n == 0) first = is.get(0);
  }
  EXPECT_LT(is.get(0), first / 4);
}

}  // namespace
}  // namespace heddle
