// Dropout, and steps of training in 16-bit floats with a scale for the loss.
#include "autodiff/gradient_testing.h"
#include "heddle/driver/build.h"
#include "heddle/dsl/arrays.h"
#include "heddle/network/network.h"
#include "heddle/ops/random.h"
#include "heddle/ops/training.h"

namespace heddle {
namespace {

using testing::HasSubstr;

Input seed_of(int32_t seed) { return input_of(NDArray::from(std::vector<int32_t>{seed}), "seed"); }

NDArray dropped(const Input& x, double rate, int32_t seed, uint64_t layer = 0) {
  const Input s = seed_of(seed);
  return run_interpreted(ops::dropout(x, rate, s, layer), {x, s}).result;
}

TEST(Dropout, LeavesOutAShareAndScalesTheRest) {
  const Input x = input_of(NDArray::full({64, 65}, f32, 3), "x");
  for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
    const NDArray y = dropped(x, rate, 5);
    int64_t kept = 0;
    for (int64_t i = 0; i < y.size(); ++i) {
      if (y.get(i) == 0) continue;
      ++kept;
      EXPECT_FLOAT_EQ(static_cast<float>(y.get(i)), static_cast<float>(3 / (1 - rate)));
    }
    EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(y.size()), 1 - rate, 0.03);
  }
}

/// The share of elements that both have, or neither.
double alike(const NDArray& a, const NDArray& b) {
  int64_t same = 0;
  for (int64_t i = 0; i < a.size(); ++i) same += (a.get(i) == 0) == (b.get(i) == 0) ? 1 : 0;
  return static_cast<double>(same) / static_cast<double>(a.size());
}

TEST(Dropout, DependsOnSeedAndLayerAlone) {
  const Input x = input_of(NDArray::full({64, 64}, f32, 3), "x");
  const NDArray y = dropped(x, 0.5, 5);
  EXPECT_EQ(alike(y, dropped(x, 0.5, 5)), 1);
  for (const NDArray& other : {dropped(x, 0.5, 6), dropped(x, 0.5, 5, 1), dropped(x, 0.5, 4, 1)})
    EXPECT_NEAR(alike(y, other), 0.5, 0.05);
}

TEST(Dropout, TheGradientDrawsTheSameElements) {
  for (const int32_t seed : {1, 2, 3}) {
    const Input s = seed_of(seed);
    expect_gradient(
        [&](const std::vector<Tensor>& t) { return ops::tanh(ops::dropout(t[0], 0.4, t[1], 3)); },
        {real({5, 7}), s});
  }
}

TEST(Dropout, MistakesAreErrors) {
  const Tensor x = placeholder({4}, f32, "x"), one = placeholder({1}, i32, "seed");
  EXPECT_THAT(error_of([&] { ops::dropout(x, 1, one); }), HasSubstr("it is in [0, 1)"));
  EXPECT_THAT(error_of([&] { ops::dropout(x, 0.5, x); }), HasSubstr("give one integer"));
  EXPECT_THAT(error_of([&] { ops::dropout(one, 0.5, one); }), HasSubstr("dropout"));
}

/// A classifier whose weights are f32 and whose products are f16, with a loss scale.
struct Mixed {
  static constexpr int64_t kRows = 64;
  Tensor x = placeholder({kRows, 2}, f32, "x"), labels = placeholder({kRows}, i32, "labels");
  Tensor seed = placeholder({1}, i32, "seed");
  Tensor scale = placeholder({1}, f32, "scale"), good = placeholder({1}, f32, "good");
  std::vector<Tensor> w{placeholder({32, 2}, f32, "w1"), placeholder({32}, f32, "b1"),
                        placeholder({2, 32}, f32, "w2"), placeholder({2}, f32, "b2")};
  Tensor loss;
  std::vector<StateUpdate> updates;
  NetworkKernel run;
  std::vector<NDArray> arrays;  ///< x, labels, seed, the states, loss

  explicit Mixed(double first_scale) {
    const auto half = [](const Tensor& t) { return ops::cast(t, f16); };
    const Tensor h = ops::tanh(ops::dense(half(x), half(w[0]), half(w[1])));
    const Tensor logits = ops::dense(ops::dropout(h, 0.1, seed), half(w[2]), half(w[3]));
    loss = ops::softmax_cross_entropy(ops::cast(logits, f32), labels);
    const std::vector<Tensor> d = gradient({ops::scaled_loss(loss, scale)}, w);
    const ops::LossScale next = ops::loss_scale(d, scale, good, {.interval = 20});
    for (size_t i = 0; i < w.size(); ++i) {
      const Tensor v = placeholder(w[i].shape(), f32, "v");
      const ops::Momentum m =
          ops::sgd(w[i], ops::unscaled(d[i], scale), v, {.rate = 0.3, .momentum = 0.9});
      updates.insert(updates.end(), {{w[i], m.parameter}, {v, m.velocity}});
    }
    updates = ops::updates_if(next.finite, updates);
    updates.insert(updates.end(), {{scale, next.scale}, {good, next.good}});
    std::vector<Tensor> args{x, labels, seed};
    for (const StateUpdate& u : updates) args.push_back(u.state);
    args.push_back(loss);
    run = Network({loss}, Target::host(), {}, {}, updates).build(args);
    for (size_t a = 0; a < args.size(); ++a) {
      const bool weight = a >= 3 && a + 3 < args.size() && a % 2 == 1;
      arrays.push_back(weight ? NDArray::random(args[a].extents(), f32, a, -0.5, 0.5)
                              : NDArray::zeros(args[a].extents(), args[a].dtype()));
    }
    arrays[0] = NDArray::random({kRows, 2}, f32, 7, -1, 1);
    for (int64_t i = 0; i < kRows; ++i)
      arrays[1].set(i, std::hypot(arrays[0].get(2 * i), arrays[0].get(2 * i + 1)) < 0.7 ? 1 : 0);
    state(scale).set(0, first_scale);
  }

  NDArray& state(const Tensor& t) {
    for (size_t u = 0; u < updates.size(); ++u) {
      if (updates[u].state.same_as(t)) return arrays[3 + u];
    }
    throw std::logic_error("no state");
  }
  double step() {
    arrays[2].set(0, arrays[2].get(0) + 1);
    run.call(arrays);
    return arrays.back().get(0);
  }
};

TEST(LossScale, ATrainingStepInHalfFloatsLearns) {
  Mixed m(1024);
  const double first = m.step();
  double last = 0;
  for (int n = 0; n < 300; ++n) last = m.step();
  EXPECT_LT(last, first / 3);
  EXPECT_GT(m.state(m.scale).get(0), 1024) << "it grows while all is finite";
}

TEST(LossScale, AStepThatOverflowsChangesNothingButTheScale) {
  Mixed m(0x1p60);
  const NDArray before = m.state(m.w[0]).copy();
  m.state(m.good).set(0, 5);
  m.step();
  EXPECT_TRUE(allclose(m.state(m.w[0]), before, 0, 0));
  EXPECT_EQ(m.state(m.scale).get(0), 0x1p59);
  EXPECT_EQ(m.state(m.good).get(0), 0);
  for (int n = 0; n < 100; ++n) m.step();
  EXPECT_LT(m.state(m.scale).get(0), 0x1p40) << "it falls until nothing overflows";
  EXPECT_FALSE(allclose(m.state(m.w[0]), before, 0, 0)) << "then steps count again";
  for (int64_t i = 0; i < before.size(); ++i) EXPECT_TRUE(std::isfinite(m.state(m.w[0]).get(i)));
}

TEST(LossScale, GrowsAfterTheIntervalAndStaysFinite) {
  const Input g = input({3}, f32, 1);
  const auto next = [&](double scale, double good) {
    const Input s = input_of(NDArray::full({1}, f32, scale), "scale"),
                n = input_of(NDArray::full({1}, f32, good), "good");
    const ops::LossScale to = ops::loss_scale({g}, s, n, {.interval = 3});
    return std::pair(run_interpreted(to.scale, {g, s, n}).result.get(0),
                     run_interpreted(to.good, {g, s, n}).result.get(0));
  };
  EXPECT_EQ(next(8, 0), std::pair(8.0, 1.0));
  EXPECT_EQ(next(8, 2), std::pair(16.0, 0.0));
  EXPECT_EQ(next(0x1p127, 2), std::pair(0x1p127, 0.0));
  const Tensor x = placeholder({3}, f32, "x"), one = placeholder({1}, f32, "one");
  EXPECT_THAT(error_of([&] { ops::loss_scale({}, one, one); }), HasSubstr("no gradients"));
  EXPECT_THAT(error_of([&] { ops::loss_scale({x}, x, one); }), HasSubstr("give one f32"));
  EXPECT_THAT(error_of([&] { ops::loss_scale({x}, one, one, {.growth = 0.5}); }),
              HasSubstr("growth is at least 1"));
}

// The gradient of the image is a sum that is rounded to f16, read in another order.
TEST(HalfGradient, OfAProductBehindATranspositionIsMoved) {
  const Input x = input({2, 3, 4, 5}, f16, 1), w = input({6, 60}, f16, 2);
  expect_same_every_way(
      [](const std::vector<Tensor>& t) {
        return ops::dense(ops::flatten(ops::transpose(t[0], {0, 3, 1, 2})), t[1]);
      },
      {x, w}, 2e-2);
}

Tensor attention(const std::vector<Tensor>& t) {
  return ops::scaled_dot_product_attention(t[0], t[1], t[2]);
}

std::vector<Input> of_attention(DataType t) {
  return {input({1, 2, 20, 8}, t, 1), input({1, 2, 24, 8}, t, 2), input({1, 2, 24, 8}, t, 3)};
}

TEST(HalfGradient, OfAttentionIsTheSameEveryWay) {
  expect_same_every_way(attention, of_attention(f16), 2e-2);
  expect_same_every_way(attention, of_attention(bf16), 8e-2);
}

/// The products of a gradient that read anything but 16-bit floats.
std::string wide_products(const Declare& declare, const std::vector<Input>& inputs) {
  std::vector<Tensor> x;
  for (const Input& in : inputs) x.push_back(in.tensor);
  const Tensor y = declare(x), head = placeholder(y.shape(), y.dtype(), "head");
  const ComputeDag dag(gradient({y}, x, {head}));
  std::string text;
  int products = 0;
  for (int s = 0; s < dag.size(); ++s) {
    if (dag.info(s).stage_class != StageClass::ComplexReduction) continue;
    ++products;
    for (const Access& a : dag.info(s).reads)
      if (!a.tensor.dtype().is_small_float()) text += dag.stage(s).name() + " ";
  }
  EXPECT_GT(products, 1);
  return text;
}

TEST(HalfGradient, ProductsReadHalfFloatsAlone) {
  EXPECT_EQ(wide_products(attention, of_attention(f16)), "");
  const auto wide = [](const std::vector<Tensor>& t) {
    return ops::tanh(ops::matmul(t[0], t[1], false, false, {.accumulate = f32, .output = f32}));
  };
  EXPECT_EQ(wide_products(wide, {input({8, 9}, bf16, 1), input({9, 7}, bf16, 2)}), "");
}

// What a relu chooses is an operand: a product that chooses in its body has three, and no matrix unit takes
// it.
TEST(HalfGradient, ProductsBehindChoicesHaveTwoOperands) {
  const Tensor x = placeholder({2, 4, 10, 10}, bf16, "x"), w = placeholder({6, 4, 3, 3}, bf16, "w"),
               head = placeholder({2, 6, 4, 4}, bf16, "head");
  const Tensor y = ops::max_pool(ops::relu(ops::conv2d(x, w)), {.kernel = {2}});
  const ComputeDag dag(gradient({y}, {x, w}, {head}));
  int products = 0;
  for (int s = 0; s < dag.size(); ++s) {
    if (dag.info(s).stage_class != StageClass::ComplexReduction) continue;
    EXPECT_EQ(dag.info(s).reads.size(), 2) << dag.to_text();
    ++products;
  }
  EXPECT_EQ(products, 3);
}

// The least f8 is 2e-3: gradients rounded to it would be zeros.
TEST(HalfGradient, HeadsOfProductsOfEighthFloatsAreNotRounded) {
  const Input x = input_of(NDArray::full({2, 8}, f8e4m3, 1)),
              w = input_of(NDArray::full({8, 512}, f8e4m3, 1)),
              head = input_of(NDArray::full({2, 512}, f32, 5e-4));
  const Tensor y = ops::matmul(x, w, false, false, {.accumulate = f32, .output = f32});
  const NDArray dx = run_interpreted(gradient({y}, {x}, {head})[0], {x, w, head}).result;
  EXPECT_EQ(dx.get(3), 0.25);
}

// A head of 2e-5 times the weights of a row of 600 keys, which are some 1/600, is about the least f16,
// 6e-8, and would be rounded to a few values.
TEST(HalfGradient, OfAttentionKeepsSmallHeads) {
  const std::vector<Input> half = {input_of(NDArray::zeros({1, 1, 64, 8}, f16)),
                                   input({1, 1, 600, 8}, f16, 2), input({1, 1, 600, 8}, f16, 3)};
  const auto values = [&](DataType t) {
    std::vector<Input> all;
    for (const Input& in : half) {
      NDArray same = NDArray::zeros(in.array.shape(), t);
      for (int64_t i = 0; i < same.size(); ++i) same.set(i, in.array.get(i));
      all.push_back(input_of(same));
    }
    all.push_back(input_of(NDArray::full({1, 1, 64, 8}, t, 2e-5)));
    const Tensor y = attention({all[0], all[1], all[2]});
    return run_interpreted(gradient({y}, {all[2].tensor}, {all[3].tensor})[0], all).result;
  };
  const NDArray is = values(f16), want = values(f64);
  double gap = 0, size = 0;
  for (int64_t i = 0; i < is.size(); ++i) {
    gap += std::abs(is.get(i) - want.get(i));
    size += std::abs(want.get(i));
  }
  EXPECT_LT(gap, 0.03 * size);
}

}  // namespace
}  // namespace heddle
