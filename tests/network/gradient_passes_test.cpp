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

int sums(const Network& network) {
  int count = 0;
  for (const NetworkNode& node : network.nodes()) {
    const ComputeDag& dag = network.tasks()[static_cast<size_t>(node.task)].tmpl.dag();
    for (int s = 0; s < dag.size(); ++s) count += dag.stage(s).is_reduction() ? 1 : 0;
  }
  return count;
}

// The gradients of a norm over images: five sums of them, of which two are left.
TEST(GradientPasses, SumsThatAreEqualButForFactorsAreComputedOnce) {
  const Tensor x = placeholder({3, 5, 4, 6}, f32, "x"),
               head = placeholder({3, 5, 4, 6}, f32, "head"),
               scale = placeholder({5}, f32, "scale"), shift = placeholder({5}, f32, "shift");
  const std::vector<int> axes{0, 2, 3};
  const Tensor mean = ops::mean(x, axes, true), variance = ops::var(x, axes, true, false);
  const auto place = [](const Tensor& t) { return ops::reshape(t, {1, 5, 1, 1}); };
  const Tensor normal =
      ops::mul(ops::sub(x, mean), ops::rsqrt(ops::add(variance, ops::full(Shape{}, 1e-5))));
  const Tensor y = ops::add(ops::mul(normal, place(scale)), place(shift));
  const std::vector<Tensor> outputs = gradient({y}, {x, scale, shift}, {head});
  for (const Target& target : {Target::host(), Target::parse("cuda -arch=sm_90")}) {
    const int before = sums(Network(outputs, target, {}, parse_passes("-factors_after_products")));
    EXPECT_EQ(sums(Network(outputs, target)), before - 3);
  }
  EXPECT_EQ(wrong_network(outputs, 1e-4), "");
}

// A masked column of the largest numbers: its sum would be infinite, and 0 times that is no number.
TEST(GradientPasses, SumsWhoseFactorsKeepThemFiniteStayAsTheyAre) {
  const Tensor x = placeholder({4, 3}, f32, "x"), mask = placeholder({3}, f32, "mask");
  const auto masked = [&](const Expr& factor) {
    const Axis n = reduce_axis(4, "n");
    return compute({3}, [&](Axis c) { return sum(x(n, c) * (mask(c) * factor), n); }, "masked");
  };
  const std::vector<Tensor> outputs{masked(1.0f), masked(2.0f)};
  EXPECT_EQ(sums(Network(outputs)), 2);
}

// What a forward pass kept comes with its channels innermost, and no convolution is beside it.
std::vector<Tensor> gradient_of_images() {
  const auto image = [](int64_t channels, const char* name) {
    return ops::transpose(placeholder({2, 6, 7, channels}, f32, name), {0, 3, 1, 2});
  };
  const auto filter = [](int64_t out, int64_t in, const char* name) {
    return placeholder({out, in, 3, 3}, f32, name);
  };
  const Tensor x = image(8, "x"), y = ops::relu(image(12, "y"));
  const Tensor first = ops::conv2d(x, filter(12, 8, "w"), {.padding = {1}});
  const Tensor second = ops::conv2d(y, filter(16, 12, "v"), {.padding = {1}});
  const Tensor head = gradient({second}, {y}, {image(16, "head")})[0];
  return {gradient({first}, {x}, {ops::mul(head, y)})[0]};
}

TEST(GradientPasses, GradientsOfImagesHaveTheirChannelsInnermost) {
  std::vector<Tensor> outputs = gradient_of_images();
  outputs[0] = ops::mean(ops::relu(outputs[0]), {2, 3});
  const Network network(outputs);
  EXPECT_THAT(applied(network), ::testing::Contains("channels_last"));
  EXPECT_EQ(wrong_network(outputs, 1e-4), "");
}

// As a training step keeps its images: what the next layer reads is the result itself.
TEST(Passes, AResultThatIsACopyOfWhatOthersReadIsThatItself) {
  const Tensor x = placeholder({2, 3, 6, 7}, f32, "x");
  const auto filter = [](int64_t out, int64_t in) {
    return placeholder({out, in, 3, 3}, f32, "w");
  };
  const Tensor y = ops::conv2d(x, filter(8, 3), {.padding = {1}}), z = ops::relu(y);
  const Tensor kept = ops::transpose(y, {0, 2, 3, 1});
  const std::vector<Tensor> outputs{
      kept, ops::mean(ops::conv2d(z, filter(4, 8), {.padding = {1}}), {2, 3}), ops::identity(x)};
  const Network network(outputs);
  EXPECT_EQ(network.nodes().size(), 4u) << network.to_text();
  EXPECT_EQ(wrong_network(outputs, 1e-4), "");
}

}  // namespace
}  // namespace heddle::testing
