// A chain of residual sums x = x + f(x) costs the same in each block: the sums are stored, and no
// window reads a sum that is computed again for each tap.
#include "heddle/lower/lower.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

/// Blocks as ConvNeXt has them: a depthwise filter, a norm over channels, two products, a scale.
Tensor blocks_of_convnext(int blocks, int64_t window) {
  constexpr int64_t kChannels = 16, kSide = 9;
  Tensor x = placeholder({1, kChannels, kSide, kSide}, f32, "x");
  for (int b = 0; b < blocks; ++b) {
    Tensor y = ops::depthwise_conv2d(x, weights({kChannels, 1, window, window}),
                                     {.padding = {window / 2}}, weights({kChannels}, "bias"));
    y = ops::layer_norm(ops::transpose(y, {0, 2, 3, 1}), weights({kChannels}),
                        weights({kChannels}));
    y = ops::mul(linear(ops::gelu(linear(y, 4 * kChannels)), kChannels), weights({kChannels}));
    x = ops::add(x, ops::transpose(y, {0, 3, 1, 2}));
  }
  return x;
}

/// The blocks of a transformer whose norms come first.
Tensor blocks_of_transformer(int blocks) {
  Tensor x = placeholder({1, 10, 32}, f32, "x");
  const auto norm = [](const Tensor& t) {
    return ops::layer_norm(t, weights({32}), weights({32}));
  };
  for (int b = 0; b < blocks; ++b) {
    x = ops::add(x, linear(attention(norm(x)), 32));
    x = ops::add(x, linear(ops::gelu(linear(norm(x), 64)), 32));
  }
  return x;
}

/// A depthwise filter of the sum of all results so far.
Tensor blocks_of_sums(int blocks) {
  Tensor x = placeholder({1, 8, 11, 11}, f32, "x");
  for (int b = 0; b < blocks; ++b)
    x = ops::add(x, ops::tanh(ops::depthwise_conv2d(x, weights({8, 1, 3, 3}), {.padding = {1}})));
  return x;
}

double work_of(const Tensor& y, const Target& target) {
  double flops = 0;
  const Network network({y}, target);
  for (const NetworkNode& node : network.nodes()) {
    const ComputeDag dag(network.tasks()[static_cast<size_t>(node.task)].tmpl.dag());
    for (int s = 0; s < dag.size(); ++s) flops += dag.info(s).flops;
  }
  return flops;
}

TEST(ResidualChains, EachBlockIsTheSameWork) {
  for (const char* name : {"llvm -mcpu=znver5", "llvm -mcpu=haswell", "cuda -gpu=h200"}) {
    const Target target = Target::parse(name);
    const auto check = [&](const std::string& what, const std::function<Tensor(int)>& chain) {
      // The first block reads an input and the last one writes an output.
      const double two = work_of(chain(2), target), three = work_of(chain(3), target),
                   seven = work_of(chain(7), target);
      EXPECT_EQ(seven - two, 5 * (three - two)) << what << " for " << name;
      const Network network({chain(7)}, target);
      EXPECT_LE(network.tasks().size(), Network({chain(3)}, target).tasks().size())
          << what << " for " << name << "\n"
          << network.to_text();
    };
    check("ConvNeXt", [](int n) { return blocks_of_convnext(n, 7); });
    check("ConvNeXt of 3x3", [](int n) { return blocks_of_convnext(n, 3); });
    check("a transformer", blocks_of_transformer);
    check("sums", blocks_of_sums);
  }
}

TEST(ResidualChains, ComputeWhatTheInterpreterDoes) {
  EXPECT_EQ(wrong_network({blocks_of_convnext(3, 7)}, 1e-3), "");
  EXPECT_EQ(wrong_network({blocks_of_transformer(2)}, 1e-3), "");
  EXPECT_EQ(wrong_network({blocks_of_sums(4)}, 1e-3), "");
}

// The sum of two inputs is computed once, and not for each of the 49 taps.
TEST(ResidualChains, ASumThatAWindowReadsIsStored) {
  const Tensor a = placeholder({1, 32, 20, 20}, f32, "a"),
               b = placeholder({1, 32, 20, 20}, f32, "b");
  const Tensor y = ops::depthwise_conv2d(ops::add(a, b), weights({32, 1, 7, 7}), {.padding = {3}});
  const Target target = Target::parse("llvm -mcpu=znver5 -threads=1");
  const Schedule s = create_schedule({y}, target, {.use_records = false});
  EXPECT_EQ(s.to_text().find("pad.compute_inline"), std::string::npos) << s.to_text();
}

}  // namespace
}  // namespace heddle::testing
