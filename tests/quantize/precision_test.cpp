// The choice of types under a bound of the error.
#include "heddle/quantize/precision.h"

#include <cmath>
#include <limits>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/dag/generalize.h"
#include "heddle/network/plan.h"
#include "network/emulated_network.h"
#include "network/network_testing.h"
#include "quantize/precision/moves.h"
#include "quantize/precision/operand_types.h"

namespace heddle::testing {
namespace {

using quantize::Offer;
using quantize::Sum;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor values(Shape shape, uint64_t seed) {
  Extents extents;
  for (const Expr& e : shape) extents.push_back(*as_int(e));
  return constant(NDArray::random(extents, f32, seed, -0.3, 0.3));
}

/// Two layers behind each other and one beside them.
struct Layers {
  Tensor x = placeholder({16, 64}, f32, "x");
  std::vector<Tensor> outputs;
  Layers() {
    const Tensor a = ops::relu(ops::dense(x, values({96, 64}, 1)));
    const Tensor b = ops::tanh(ops::dense(a, values({64, 96}, 2)));
    outputs = {ops::add(ops::dense(b, values({32, 64}, 3)), ops::dense(x, values({32, 64}, 4)))};
  }
  std::vector<Tensor> args() const { return {x, outputs[0]}; }
};

/// A machine with instructions for bf16 and bytes, whatever runs here.
Target with_dots() { return Target::parse("llvm -mcpu=znver5 -threads=2"); }

/// Each product of shorter numbers gains a second, one of bytes two.
double counted(const Network& network) {
  double seconds = 100;
  for (const auto& [name, type] : network.pass_options().types)
    seconds -= type.type.bits == 8 ? 2 : 1;
  return seconds;
}

PrecisionChoice chosen(const Layers& layers, double tolerance, const Target& target = with_dots()) {
  return choose_precision(Network(layers.outputs, target), layers.args(),
                          {.tolerance = tolerance, .time = counted});
}

/// The error on inputs that neither chose nor decided.
double error_elsewhere(const Layers& layers, const PassOptions& passes) {
  const NetworkKernel f32_kernel = Network(layers.outputs).build(layers.args());
  const NetworkKernel kernel =
      Network(layers.outputs, Target::host(), {}, passes).build(layers.args());
  double error = 0;
  for (uint64_t seed = 1000; seed < 1008; ++seed) {
    const NDArray x = NDArray::random({16, 64}, f32, seed);
    const NDArray want = NDArray::zeros({16, 32}, f32), got = want.copy();
    f32_kernel(x, want);
    kernel(x, got);
    error = std::max(error, output_error(got, want));
  }
  return error;
}

/// The two layers over 1 to 64 rows, with attention over the rows.
struct RangedLayers {
  Dim n = dim("n", 1, 64);
  std::vector<Tensor> outputs;
  Tensor x;
  RangedLayers() {
    outputs = generalize(n, [](int64_t rows) {
                const Tensor in = placeholder({rows, 64}, f32, "x");
                const Tensor a = ops::relu(ops::dense(in, values({96, 64}, 1)));
                const Tensor b = ops::tanh(ops::dense(a, values({64, 96}, 2)));
                const Tensor mixed = ops::matmul(ops::softmax(ops::matmul(b, in, false, true)), in);
                return std::vector<Tensor>{ops::add(ops::dense(mixed, values({32, 64}, 3)),
                                                    ops::dense(in, values({32, 64}, 4)))};
              }).outputs;
    for (const Tensor& t : ComputeDag(outputs).placeholders()) {
      if (t.op()->data() == nullptr) x = t;
    }
  }
  std::vector<Tensor> args() const { return {x, outputs[0]}; }
  PrecisionChoice chosen(double tolerance, std::vector<std::vector<NDArray>> calls = {}) const {
    return choose_precision(Network(outputs, with_dots()), args(),
                            {.tolerance = tolerance, .calls = std::move(calls), .time = counted});
  }
};

TEST(Precision, OverARangeTheErrorIsWithinTheToleranceAtAllSizes) {
  const RangedLayers layers;
  const NetworkKernel f32_kernel = Network(layers.outputs).build(layers.args());
  for (const double tolerance : {5e-3, 1e-1}) {
    const PrecisionChoice choice = layers.chosen(tolerance);
    EXPECT_EQ(choice.outcome, PrecisionOutcome::Some) << choice.to_string();
    EXPECT_LE(choice.error, tolerance);
    const Network typed(layers.outputs, Target::host(), {}, choice.options);
    const NetworkKernel kernel = typed.build(layers.args());
    for (const int64_t rows : {1, 2, 7, 33, 64}) {
      const NDArray x = NDArray::random({rows, 64}, f32, 100 + static_cast<uint64_t>(rows));
      const NDArray want = NDArray::zeros({rows, 32}, f32), got = want.copy();
      f32_kernel(x, want);
      kernel(x, got);
      const double error = output_error(got, want);
      EXPECT_LE(error, 1.25 * tolerance) << rows << " rows: " << choice.to_string();
      EXPECT_GT(error, 0) << "no product of shorter numbers at " << rows << " rows";
    }
  }
}

TEST(Precision, OverARangeProductsHaveTheirTypesAtEachSize) {
  const RangedLayers layers;
  const PrecisionChoice choice = layers.chosen(5e-2);
  const size_t typed = choice.options.types.size();
  ASSERT_GT(typed, 1U);
  const Network network(layers.outputs, with_dots(), {}, choice.options);
  for (const int64_t rows : {5, 64}) {
    const Network here = network.at({{layers.n, rows}});
    EXPECT_EQ(here.pass_options().types.size(), typed) << rows;
  }
  // A sum over one row is no product of its own, and its name is not one.
  EXPECT_NO_THROW((void)network.at({{layers.n, 1}}));
}

TEST(Precision, OverARangeTheSizesOfTheCallsDecide) {
  const RangedLayers layers;
  std::vector<std::vector<NDArray>> calls;
  for (uint64_t seed = 0; seed < 4; ++seed) calls.push_back({NDArray::random({9, 64}, f32, seed)});
  const PrecisionChoice choice = layers.chosen(5e-2, calls);
  EXPECT_THAT(choice.trials.front().product, HasSubstr(":9x"));
  EXPECT_EQ(choice.outcome, PrecisionOutcome::Some) << choice.to_string();
  EXPECT_NO_THROW(Network(layers.outputs, with_dots(), {}, choice.options));
  calls.back() = {NDArray::random({8, 64}, f32, 9)};
  EXPECT_THAT(message_of([&] { (void)layers.chosen(5e-2, calls); }), HasSubstr("another shape"));
}

TEST(Precision, OverARangeUnknownProductsAndChoicesAreRefused) {
  const RangedLayers layers;
  const auto message = [&](const std::string& passes) {
    return message_of([&] { Network(layers.outputs, with_dots(), {}, parse_passes(passes)); });
  };
  EXPECT_THAT(message("precision@dense:3x3#1=bf16"),
              HasSubstr("no choice 'precision@dense:3x3#1'"));
  EXPECT_THAT(message("store@tanh:3x64"), HasSubstr("no choice 'store@tanh:3x64'"));
  EXPECT_THAT(message("recompute@tanh:3x64"), HasSubstr("is a choice at one size"));
}

TEST(Precision, TheErrorIsWithinTheToleranceOnOtherInputs) {
  const Layers layers;
  for (const double tolerance : {1e-3, 5e-3, 2e-2, 1e-1}) {
    const PrecisionChoice choice = chosen(layers, tolerance);
    EXPECT_LE(choice.error, tolerance);
    // Differences of other inputs are of the same size; the largest of a few calls varies.
    EXPECT_LE(error_elsewhere(layers, choice.options), 1.25 * tolerance) << choice.to_string();
  }
}

TEST(Precision, ALargerToleranceTakesNoFewerProductsAndNoWiderTypes) {
  const Layers layers;
  const auto bits_saved = [](const PrecisionChoice& c) {
    int bits = 0;
    for (const auto& [name, type] : c.options.types) bits += 32 - type.type.bits;
    return bits;
  };
  int before = 0;
  for (const double tolerance : {0.0, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1}) {
    const PrecisionChoice choice = chosen(layers, tolerance);
    EXPECT_GE(bits_saved(choice), before) << choice.to_string();
    before = bits_saved(choice);
    EXPECT_EQ(choice.options.tolerance, tolerance);
  }
  EXPECT_EQ(before, 4 * 24) << "all are of bytes";
}

TEST(Precision, WithoutRoomAllStaysInF32AndSaysSo) {
  const PrecisionChoice choice = chosen(Layers(), 0);
  EXPECT_EQ(choice.outcome, PrecisionOutcome::TooInexact);
  EXPECT_TRUE(choice.options.types.empty());
  EXPECT_THAT(choice.to_string(), HasSubstr("all stays in f32: no shorter type keeps"));
  EXPECT_THAT(choice.to_string(), HasSubstr("random inputs, because no data are given"));
}

TEST(Precision, AMachineWithoutInstructionsHasNoCandidates) {
  const auto types_of = [](const Target& target) {
    std::vector<std::string> names;
    for (const OperandType& t : quantize::operand_types(target))
      names.push_back(t.tf32 ? "tf32" : to_string(t.type));
    return names;
  };
  EXPECT_THAT(types_of(Target::parse("llvm -mcpu=haswell")), ElementsAre());
  EXPECT_THAT(types_of(with_dots()), ElementsAre("bf16", "u8"));
  EXPECT_THAT(types_of(Target::parse("cuda -gpu=a100")), ElementsAre("tf32", "f16", "bf16", "u8"));
  EXPECT_THAT(types_of(Target::parse("cuda -gpu=h100")),
              ElementsAre("tf32", "f16", "bf16", "f8e4m3", "u8"));
  const PrecisionChoice choice = chosen(Layers(), 0.1, Target::parse("llvm -mcpu=haswell"));
  EXPECT_EQ(choice.outcome, PrecisionOutcome::NoTypes);
  EXPECT_THAT(choice.to_string(), HasSubstr("no instructions"));
}

TEST(Precision, NothingThatIsNoFasterIsTaken) {
  const Layers layers;
  const PrecisionChoice choice =
      choose_precision(Network(layers.outputs, with_dots()), layers.args(),
                       {.tolerance = 0.1, .time = [](const Network&) { return 1.0; }});
  EXPECT_EQ(choice.outcome, PrecisionOutcome::NoGain);
  EXPECT_TRUE(choice.options.types.empty());
}

TEST(Precision, MeasuredTimesDecideHere) {
  const Layers layers;
  const PrecisionChoice choice =
      choose_precision(Network(layers.outputs), layers.args(), {.tolerance = 0.1});
  EXPECT_TRUE(choice.measured);
  if (choice.outcome == PrecisionOutcome::Some) {
    EXPECT_LT(choice.seconds, choice.f32_seconds);
    EXPECT_LE(choice.error, 0.1);
  } else {
    EXPECT_TRUE(choice.options.types.empty());
  }
}

TEST(Precision, ProductsThatDoNotGainAlikeAreMeasuredEach) {
  // Both have 1x8x6x6 results and as many products of numbers.
  const Tensor x = placeholder({1, 8, 6, 6}, f32, "x"), wide = placeholder({1, 72, 6, 6}, f32, "w");
  const Tensor y = ops::add(ops::conv2d(x, values({8, 8, 3, 3}, 1), {.padding = {1}}),
                            ops::conv2d(wide, values({8, 72, 1, 1}, 2)));
  const auto seconds = [](const Network& network) {
    double all = 10;
    for (const auto& [name, type] : network.pass_options().types) all -= name.back() == '1' ? 1 : 3;
    return all;
  };
  const PrecisionChoice choice = choose_precision(Network({y}, with_dots()), {x, wide, y},
                                                  {.tolerance = 0.1, .time = seconds});
  ASSERT_EQ(choice.trials.size(), 4U);
  for (const PrecisionTrial& t : choice.trials)
    EXPECT_EQ(t.gain, t.product.back() == '1' ? 1 : 3) << choice.to_string();
}

TEST(Precision, AProductOfInfiniteNumbersMayBeOfShorterFloatsAlone) {
  const Layers layers;
  const Tensor far = ops::log(ops::relu(layers.x));  // -inf here and there
  const Tensor y = ops::concat({layers.outputs[0], ops::dense(far, values({32, 64}, 7))}, 1);
  const PrecisionChoice choice = choose_precision(Network({y}, with_dots()), {layers.x, y},
                                                  {.tolerance = 0.1, .time = counted});
  EXPECT_EQ(choice.products, 5);
  EXPECT_EQ(std::ssize(choice.trials), 9) << choice.to_string();
}

TEST(Precision, AShareOfTheTimeIsKept) {
  const Layers layers;
  const PrecisionChoice choice =
      choose_precision(Network(layers.outputs, with_dots()), layers.args(),
                       {.tolerance = 0.1, .seconds = 0, .time = counted});
  EXPECT_EQ(choice.outcome, PrecisionOutcome::NoTime);
}

TEST(Precision, APlanHasTheTypes) {
  const Layers layers;
  const PrecisionChoice choice = chosen(layers, 0.1);
  ASSERT_FALSE(choice.options.types.empty());
  NetworkPlan plan;
  plan.hash = ComputeDag(layers.outputs).structural_hash();
  plan.target = with_dots();
  plan.passes = to_string(choice.options);
  const NetworkPlan read = parse_plan(to_text(plan), "test");
  const Network replayed = Network::planned(layers.outputs, read, with_dots());
  EXPECT_EQ(replayed.pass_options(), choice.options);
  EXPECT_THAT(replayed.plan_use()->remarks, ElementsAre());
  EXPECT_GE(replayed.choices().size(), choice.options.types.size());
  EXPECT_EQ(error_elsewhere(layers, replayed.pass_options()),
            error_elsewhere(layers, choice.options));
}

TEST(Precision, CallsOfDataChooseAndOthersDecide) {
  const Layers layers;
  const NDArray samples = NDArray::random({80, 64}, f32, 3);
  const auto calls = calls_of_samples({{"x", samples}}, {"x"}, {layers.x});
  ASSERT_EQ(calls.size(), 5U);
  EXPECT_EQ(calls[1][0].get(0), samples.get(16 * 64));
  const PrecisionChoice choice =
      choose_precision(Network(layers.outputs, with_dots()), layers.args(),
                       {.tolerance = 0.1, .calls = calls, .time = counted});
  EXPECT_FALSE(choice.drawn);
  EXPECT_EQ(choice.calls, 5);
  EXPECT_FALSE(choice.options.types.empty());
}

TEST(Precision, WhatDoesNotFitIsAnError) {
  const Layers layers;
  const Network network(layers.outputs);
  const auto with = [&](double tolerance) {
    return message_of(
        [&] { (void)choose_precision(network, layers.args(), {.tolerance = tolerance}); });
  };
  for (const double wrong : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_THAT(with(wrong), HasSubstr("tolerance"));
  const auto samples = [&](const std::map<std::string, NDArray>& given) {
    return message_of([&] {
      (void)choose_precision(
          network, layers.args(),
          {.tolerance = 0.1, .calls = calls_of_samples(given, {"x"}, {layers.x})});
    });
  };
  EXPECT_THAT(samples({}), HasSubstr("no samples of the input 'x'"));
  EXPECT_THAT(samples({{"z", NDArray::zeros({32, 64}, f32)}}), HasSubstr("no input 'z'"));
  EXPECT_THAT(samples({{"x", NDArray::zeros({32, 64}, i32)}}), HasSubstr("are i32"));
  EXPECT_THAT(samples({{"x", NDArray::zeros({32, 63}, f32)}}), HasSubstr("63"));
  EXPECT_THAT(samples({{"x", NDArray::zeros({16, 64}, f32)}}), HasSubstr("1 calls"));
  EXPECT_THAT(samples({{"x", NDArray::zeros({0, 64}, f32)}}), HasSubstr("too few for a call"));
  EXPECT_THAT(samples({{"x", NDArray::full({32, 64}, f32, NAN)}}), HasSubstr("no finite value"));
  const Dim n = dim("n", 1, 8);
  const Tensor x = placeholder({n, 64}, f32, "x");
  const Tensor y = compute({n, 64}, [&](Axis i, Axis j) { return x(i, j) * 2.0F; }, "y");
  EXPECT_EQ(choose_precision(Network({y}), {x, y}).outcome, PrecisionOutcome::NoProducts);
  const Tensor bare = ops::dense(layers.x, weights({8, 64}));
  EXPECT_THAT(message_of([&] { (void)choose_precision(Network({bare}), args_of({bare})); }),
              HasSubstr("has no values"));
}

TEST(Precision, ErrorsOfOutputs) {
  const NDArray want = NDArray::from<float>({1, -4, 2});
  EXPECT_EQ(output_error(want, want), 0);
  EXPECT_EQ(output_error(NDArray::from<float>({2, -4, 2}), want), 0.25);
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  EXPECT_TRUE(std::isinf(output_error(NDArray::from<float>({1, nan, 2}), want)));
  EXPECT_TRUE(std::isinf(output_error(NDArray::from<float>({1, inf, 2}), want)));
  EXPECT_EQ(output_error(NDArray::from<float>({nan, inf}), NDArray::from<float>({nan, inf})), 0);
  EXPECT_TRUE(std::isinf(output_error(NDArray::from<float>({1}), NDArray::from<float>({0}))));
}

TEST(PrecisionMoves, GainForErrorDecidesAndTypesOfAProductFollowEachOther) {
  const std::vector<Offer> offers = {
      {"a", 0.01, 2}, {"a", 0.1, 3}, {"b", 0.001, 1}, {"c", 0.05, -1}, {"a", 0.2, 2.5}};
  const std::vector<size_t> order = quantize::order_of(offers, Sum::Linear);
  EXPECT_THAT(order, ElementsAre(2, 0, 1));
  EXPECT_THAT(quantize::taken_of(offers, order, 2), ElementsAre(2, 0));
  EXPECT_THAT(quantize::taken_of(offers, order, 3), ElementsAre(2, 1));
  const std::vector<double> errors = {3, 4};
  EXPECT_EQ(quantize::summed(errors, Sum::Linear), 7);
  EXPECT_EQ(quantize::summed(errors, Sum::Squares), 5);
}

TEST(PrecisionMoves, AMixtureOfTwoOthersIsBetter) {
  // The middle one lies below the line from nothing to the last.
  const std::vector<Offer> offers = {{"a", 0.1, 1}, {"a", 0.2, 4}};
  EXPECT_THAT(quantize::order_of(offers, Sum::Linear), ElementsAre(1));
}

class PrecisionOfGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  }
};

TEST_F(PrecisionOfGpu, TypesAreChosenHereAndItsKernelsComputeWithThem) {
  const Target h100 = Target::parse("cuda -gpu=h100");
  const Layers layers;
  const PrecisionChoice choice = choose_precision(Network(layers.outputs, h100), layers.args(),
                                                  {.tolerance = 0.1, .time = counted});
  EXPECT_FALSE(choice.measured);
  ASSERT_FALSE(choice.options.types.empty()) << choice.to_string();
  const NDArray x = NDArray::random({16, 64}, f32, 5);
  const NDArray want = NDArray::zeros({16, 32}, f32), got = want.copy();
  Network(layers.outputs).build(layers.args())(x, want);
  cuda::FakeDriver driver;
  const cuda::ScopedDriver scope(&driver.api());
  const Network network(layers.outputs, h100, {}, choice.options);
  emulate_network(driver, network, h100);
  network.build(layers.args())(x, got);
  EXPECT_LE(output_error(got, want), 0.1);
  EXPECT_GT(output_error(got, want), 0) << "the numbers are shorter";
}

}  // namespace
}  // namespace heddle::testing
