// What the passes make of the gradients of products.
#include "heddle/autodiff/gradient.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

std::vector<std::string> applied(const Network& network) {
  std::vector<std::string> names;
  for (const PassApplication& a : network.passes()) names.push_back(a.pass);
  return names;
}

std::vector<Tensor> gradient_of_filters(const ops::Conv& conv) {
  const Tensor x = placeholder({8, 16, 8, 8}, f32, "x");
  const Tensor w = placeholder({16, 16 / conv.groups, 3, 3}, f32, "w");
  const Tensor y = ops::conv2d(x, w, conv);
  return gradient({y}, {w}, {placeholder(y.shape(), f32, "dy")});
}

TEST(Passes, OnAGpuTheGradientOfAFilterIsSummedInTheOrderOfItsDimensions) {
  for (const int64_t groups : {1, 4, 16}) {
    const std::vector<Tensor> outputs = gradient_of_filters({.padding = {1}, .groups = groups});
    const Network network(outputs, Target::parse("cuda -gpu=h200"));
    EXPECT_EQ(network.nodes().size(), 1u) << network.to_text();
    EXPECT_THAT(applied(network), ::testing::Contains("fold_views"));
    EXPECT_THAT(applied(network), ::testing::Not(::testing::Contains("channels_last")));
    EXPECT_EQ(Network(outputs).nodes().size(), 2u) << "taps come first, for vectors of filters";
    EXPECT_EQ(wrong_network(outputs), "");
  }
}

TEST(Passes, AProductWhoseReshapedResultIsAskedForIsComputedInThatShape) {
  const std::vector<Tensor> outputs{ops::reshape(
      linear(ops::reshape(placeholder({1, 8, 16}, f32, "x"), {8, 16}), 16), {1, 8, 16})};
  EXPECT_EQ(Network(outputs).nodes().size(), 1u);
  EXPECT_EQ(wrong_network(outputs), "");
}

}  // namespace
}  // namespace heddle::testing
