// The choice of types under a bound of the error, of networks with loops.
#include "heddle/quantize/precision.h"
#include "network/network_testing.h"
#include "quantize/precision/turn_values.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

Tensor values(const Extents& shape, uint64_t seed) {
  return constant(NDArray::random(shape, f32, seed, -0.3, 0.3));
}

/// A recurrent layer between two products.
struct Layer {
  Tensor x = placeholder({32, 4, 64}, f32, "x"), y;
  Updates updates;
  Layer() {
    Recurrence loop("layer", Expr(32));
    const Tensor in =
        ops::reshape(ops::dense(ops::reshape(x, {128, 64}), values({64, 64}, 1)), {32, 4, 64});
    const Tensor row = loop.row(in), before = loop.state(ops::full({4, 64}, 0, f32));
    const Tensor next = ops::tanh(ops::add(ops::dense(before, values({64, 64}, 2)), row));
    loop.next(before, next);
    y = ops::dense(ops::reshape(loop.all(next), {128, 64}), values({16, 64}, 3));
    updates = Updates({}, {loop.repeat()});
  }
  Network network(const Target& target, const PassOptions& passes = {}) const {
    return Network({y}, target, {}, passes, updates);
  }
  PrecisionChoice chosen(double tolerance, const char* target) const {
    return choose_precision(network(Target::parse(target)), {x, y},
                            {.tolerance = tolerance, .time = [](const Network& n) {
                               double seconds = 100;
                               for (const auto& [name, type] : n.pass_options().types)
                                 seconds -= type.type.bits == 8 ? 2 : 1;
                               return seconds;
                             }});
  }
};

TEST(LoopPrecision, TheErrorIsWithinTheToleranceOnOtherInputs) {
  const Layer layer;
  const NetworkKernel exact = layer.network(Target::host()).build({layer.x, layer.y});
  for (const double tolerance : {0.0, 2e-2, 1e-1}) {
    const PrecisionChoice choice = layer.chosen(tolerance, "llvm -mcpu=znver5 -threads=2");
    EXPECT_LE(choice.error, tolerance) << choice.to_string();
    EXPECT_EQ(choice.products, 3);
    const Network typed = layer.network(Target::host(), choice.options);
    EXPECT_EQ(typed.loops().size(), 1U);
    const NetworkKernel kernel = typed.build({layer.x, layer.y});
    double error = 0;
    for (uint64_t seed = 1000; seed < 1004; ++seed) {
      const NDArray x = NDArray::random({32, 4, 64}, f32, seed);
      const NDArray want = NDArray::zeros({128, 16}, f32), got = want.copy();
      exact(x, want);
      kernel(x, got);
      error = std::max(error, output_error(got, want));
    }
    EXPECT_LE(error, 1.25 * tolerance) << choice.to_string();
    EXPECT_EQ(choice.options.types.empty(), tolerance == 0.0) << choice.to_string();
    if (tolerance == 1e-1) {
      EXPECT_EQ(choice.options.types.size(), 3U) << choice.to_string();
    }
  }
}

TEST(LoopPrecision, TypesForAMachineThatIsNotHere) {
  const PrecisionChoice choice = Layer().chosen(1e-1, "cuda -gpu=a100");
  EXPECT_EQ(choice.outcome, PrecisionOutcome::Some) << choice.to_string();
  EXPECT_LE(choice.error, 1e-1);
}

TEST(LoopPrecision, ValuesOfTurnsAreThoseOfCalls) {
  for (const int64_t wide : {4, 3}) {  // rows of 3 are padded
    const Tensor x = placeholder({9, wide}, f32, "x"), start = placeholder({wide}, f32, "start");
    Recurrence loop("sums", Expr(9));
    const Tensor row = loop.row(x, true), before = loop.state(start);
    const Tensor sum = ops::add(before, row);
    loop.next(before, sum);
    const Tensor y = ops::relu(loop.all(sum));
    const Network network({y}, Target::host(), {}, {}, Updates({}, {loop.repeat()}));
    const NDArray xs = NDArray::random({9, wide}, f32, 1), from = NDArray::random({wide}, f32, 2);
    const std::vector<quantize::GivenInput> all =
        quantize::with_turns(network, {{x, {xs}}, {start, {from}}});
    for (const quantize::GivenInput& input : all) {
      ASSERT_EQ(input.values.size(), 8U) << input.tensor.name();
      for (size_t turn = 0; turn < 8; ++turn) {
        // The turns of nine: all but one between.
        const auto t = static_cast<int64_t>(turn) * 8 / 7;
        for (int64_t i = 0; i < wide; ++i) {
          float want = from.data<float>()[i];
          for (int64_t n = 0; n < t; ++n) want += xs.data<float>()[(8 - n) * wide + i];
          if (input.tensor.same_as(before)) {
            EXPECT_NEAR(input.values[turn].data<float>()[i], want, 1e-5);
          }
          if (input.tensor.same_as(row)) {
            EXPECT_EQ(input.values[turn].data<float>()[i], xs.data<float>()[(8 - t) * wide + i]);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace heddle::testing
