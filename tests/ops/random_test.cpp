#include "ops/ops_testing.h"

namespace heddle {
namespace {

// The same numbers on each target: those of SplitMix64 at the position.
TEST(Random, UniformNumbersFollowFromSeedAndPosition) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{42}, ~uint64_t{0} - 5}) {
    expect_elements(
        ops::random_uniform({7, 30}, seed, -1, 3), {},
        [&](const Dims& i) {
          const auto position = static_cast<uint64_t>(i[0] * 30 + i[1]);
          uint64_t z = position * 0x9e3779b97f4a7c15 + seed;
          z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
          z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
          z ^= z >> 31;
          return static_cast<double>(z >> 40) * 0x1p-24 * 4 - 1;
        },
        1e-6);
  }
}

/// Mean and variance.
std::pair<double, double> moments(const NDArray& a) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < a.size(); ++i) sum += a.get(i), squares += a.get(i) * a.get(i);
  const auto n = static_cast<double>(a.size());
  return {sum / n, squares / n - sum / n * sum / n};
}

TEST(Random, NumbersHaveTheirDistributions) {
  const auto uniform = moments(run_interpreted(ops::random_uniform({200, 100}, 3), {}).result);
  EXPECT_NEAR(uniform.first, 0.5, 0.01);
  EXPECT_NEAR(uniform.second, 1.0 / 12, 0.003);
  const auto normal =
      moments(run_interpreted(ops::random_normal({200, 100}, 3, 2, 0.5), {}).result);
  EXPECT_NEAR(normal.first, 2, 0.02);
  EXPECT_NEAR(normal.second, 0.25, 0.01);
  const NDArray other = run_interpreted(ops::random_uniform({200, 100}, 4), {}).result;
  EXPECT_NE(other.get(0), run_interpreted(ops::random_uniform({200, 100}, 3), {}).result.get(0));
}

TEST(Random, ChoicesHaveTheirProbabilities) {
  const Input logits = input_of(
      NDArray::from<float>({std::log(0.5F), std::log(0.2F), std::log(0.3F)}, {1, 3}), "logits");
  const NDArray drawn = run_interpreted(ops::random_choice(logits, 20000, 5), {logits}).result;
  double counts[3] = {0, 0, 0};
  for (int64_t i = 0; i < drawn.size(); ++i) counts[static_cast<size_t>(drawn.get(i))] += 1;
  EXPECT_NEAR(counts[0] / 20000, 0.5, 0.015);
  EXPECT_NEAR(counts[1] / 20000, 0.2, 0.015);
  EXPECT_NEAR(counts[2] / 20000, 0.3, 0.015);
}

TEST(RandomErrors, NameWhatIsWrong) {
  EXPECT_EQ(error_of([&] { ops::random_uniform({2, -1}, 1); }),
            "random_uniform: the shape (2, -1) has a negative extent | ");
  EXPECT_EQ(error_of([&] { ops::random_normal({2}, 1, 0, 1, i32); }),
            "random_normal: the type is i32, and needs to be a float type | ");
}

}  // namespace
}  // namespace heddle
