// Choices about parts of a network: what they change, and how tuning tries them.
#include "heddle/dag/generalize.h"
#include "heddle/network/pass_records.h"
#include "heddle/records/tophub.h"
#include "network/cut/choice_costs.h"
#include "network/network_testing.h"
#include "network/race/pass_candidates.h"
#include "network/run/output_difference.h"
#include "network/sizes_testing.h"
#include "records/records_testing.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> names_of(const Network& network) {
  std::vector<std::string> names;
  for (const NetworkChoice& c : network.choices())
    names.push_back((c.on ? "" : "-") + c.name + " " + std::to_string(c.places));
  return names;
}

Tensor conv(const Tensor& x, int64_t channels, int64_t window, int64_t stride = 1) {
  return ops::conv2d(x, weights({channels, x.extent(1), window, window}),
                     {.stride = {stride}, .padding = {window / 2}});
}

TEST(Choices, AlikePlacesAreOneChoice) {
  const Tensor x = placeholder({1, 8, 16}, f32, "x");
  const std::vector<Tensor> two{attention(ops::add(attention(x), x))};
  EXPECT_THAT(names_of(Network(two)), ::testing::Contains("join_products@16x48 2"));
  const Network separate = with_passes(two, "-join_products@16x48");
  EXPECT_THAT(names_of(separate), ::testing::Contains("-join_products@16x48 2"));
  EXPECT_GT(separate.nodes().size(), Network(two).nodes().size()) << separate.to_text();
  EXPECT_EQ(separate.nodes().size(), with_passes(two, "-join_products").nodes().size());
  EXPECT_EQ(wrong_network(two, 1e-4, "-join_products@16x48"), "");
}

TEST(Choices, OneOfTwoJoinsIsOff) {
  const Tensor x = placeholder({1, 8, 16}, f32, "x");
  const std::vector<Tensor> outputs{attention(linear(attention(x), 32))};
  EXPECT_THAT(names_of(Network(outputs)),
              ::testing::IsSupersetOf({"join_products@16x48 1", "join_products@32x96 1"}));
  const size_t both = Network(outputs).nodes().size();
  EXPECT_EQ(with_passes(outputs, "-join_products@32x96").nodes().size(), both + 2);
  // The pass is off, but for one place.
  EXPECT_EQ(with_passes(outputs, "-join_products,join_products@16x48").nodes().size(), both + 2);
  EXPECT_EQ(wrong_network(outputs, 1e-4, "-join_products,join_products@16x48"), "");
}

TEST(Choices, ImagesOfOneSizeKeepTheirLayout) {
  Tensor x = ops::relu(conv(placeholder({1, 3, 8, 10}, f32, "x"), 8, 3));
  x = ops::relu(conv(ops::relu(conv(x, 12, 3, 2)), 12, 3));
  const std::vector<Tensor> outputs{ops::relu(conv(ops::relu(conv(x, 16, 1)), 5, 1))};
  EXPECT_THAT(names_of(Network(outputs)),
              ::testing::IsSupersetOf({"channels_last@8x10 1", "channels_last@4x5 1"}));
  EXPECT_THAT(tasks_of(with_passes(outputs, "-channels_last@4x5")),
              ::testing::ElementsAre(HasSubstr("f32[1,8,10,8]"), HasSubstr("f32[1,12,4,5]"),
                                     HasSubstr("f32[1,12,4,5]"), HasSubstr("f32[1,16,4,5]"),
                                     HasSubstr("f32[1,5,4,5]")));
  for (const char* passes :
       {"-channels_last@4x5", "-channels_last@8x10", "-channels_last,channels_last@4x5"})
    EXPECT_EQ(wrong_network(outputs, 1e-4, passes), "") << passes;
}

/// Channels scaled by what the mean of the image says, before a convolution of one pixel.
std::vector<Tensor> scaled_channels(int64_t images = 1) {
  const Tensor x = ops::relu(conv(placeholder({images, 4, 6, 6}, f32, "x"), 16, 3));
  const Tensor scale = ops::sigmoid(conv(ops::global_avg_pool(x), 16, 1));
  return {ops::relu(conv(ops::mul(x, scale), 8, 1))};
}

TEST(Choices, WhatAProductReadsIsStored) {
  const std::vector<Tensor> outputs = scaled_channels();
  const Network usual(outputs);
  ASSERT_THAT(names_of(usual), ::testing::Contains("-store@mul:1x6x6x16 1"));
  const Network stored = with_passes(outputs, "store@mul:1x6x6x16");
  EXPECT_EQ(stored.nodes().size(), usual.nodes().size() + 1) << stored.to_text();
  EXPECT_THAT(tasks_of(stored), ::testing::Contains("mul f32[1,6,6,16]"));
  EXPECT_EQ(wrong_network(outputs, 1e-4, "store@mul:1x6x6x16"), "");
}

TEST(Choices, OverARangeTheyAreNamedAtTheUsualSizesAndHoldAtAll) {
  const Dim n = dim("n", 1, 6);
  const std::vector<Tensor> outputs =
      generalize(n, [](int64_t images) { return scaled_channels(images); }).outputs;
  const Network usual(outputs);
  std::string name;
  for (const NetworkChoice& c : usual.choices())
    if (c.name.starts_with("store@mul:") && !c.on) name = c.name;
  ASSERT_NE(name, "");
  const Network stored = with_passes(outputs, name);
  EXPECT_EQ(stored.nodes().size(), usual.nodes().size() + 1) << stored.to_text();
  const std::vector<Tensor> args = network::call_args(stored);
  const NetworkKernel kernel = stored.build(args);
  for (const int64_t images : {1, 2, 5, 6}) {
    EXPECT_EQ(wrong_at(kernel, outputs, args, {{n, images}}), "") << images;
    const Network here = stored.at({{n, images}});
    EXPECT_THAT(tasks_of(here),
                ::testing::Contains("mul f32[" + std::to_string(images) + ",6,6,16]"));
    EXPECT_EQ(here.pass_options().choices.size(), 1U);
  }
  EXPECT_THAT(message_of([&] { (void)with_passes(outputs, "store@mul:77x6x6x16"); }),
              ::testing::HasSubstr("no choice 'store@mul:77x6x6x16'"));
}

TEST(Choices, ANodeWithoutSumsIsComputedWhereItIsRead) {
  const Tensor x = placeholder({4, 6}, f32, "x");
  const Tensor y = ops::relu(ops::transpose(ops::tanh(x), {1, 0}));
  const std::vector<Tensor> outputs{ops::matmul(linear(x, 6), y), ops::matmul(y, linear(x, 6))};
  const Network stored = with_passes(outputs, "-fuse@relu:6x4");
  ASSERT_THAT(names_of(stored), ::testing::Contains("-fuse@relu:6x4 1")) << stored.to_text();
  const Network fused = with_passes(outputs, "fuse@relu:6x4");
  EXPECT_LT(fused.nodes().size(), stored.nodes().size()) << fused.to_text();
  EXPECT_EQ(wrong_network(outputs, 1e-4, "fuse@relu:6x4"), "");
}

TEST(Choices, EitherOfTwoConvolutionsComputesTheirSum) {
  const Tensor x = ops::relu(conv(placeholder({1, 4, 6, 6}, f32, "x"), 8, 3));
  const Tensor sum = ops::relu(ops::add(conv(conv(x, 12, 3), 16, 1), conv(x, 16, 1)));
  const std::vector<Tensor> outputs{ops::relu(conv(sum, 4, 3))};
  const Network usual(outputs);
  ASSERT_THAT(names_of(usual), ::testing::Contains("-store@conv2d:1x6x6x16 1")) << usual.to_text();
  const Network other = with_passes(outputs, "store@conv2d:1x6x6x16");
  ASSERT_EQ(other.nodes().size(), usual.nodes().size()) << other.to_text();
  // The sum is in the node that reads the image of 12 channels, not in that of 8.
  EXPECT_THAT(usual.to_text(), HasSubstr("f32[1,6,6,16] f32[1,6,6,8] + 1 constant"));
  EXPECT_THAT(other.to_text(), HasSubstr("f32[1,6,6,12] f32[1,6,6,16] + 1 constant"));
  EXPECT_EQ(wrong_network(outputs, 1e-4, "store@conv2d:1x6x6x16"), "");
}

/// A depthwise convolution between two of one pixel, with a residual, after a convolution.
std::vector<Tensor> inverted_residual(int64_t stride) {
  const Tensor x = ops::relu(conv(placeholder({1, 4, 10, 14}, f32, "x"), 8, 3));
  Tensor y = ops::clip(ops::add(conv(x, 24, 1), weights({24, 1, 1}, "bias")), 0, 6);
  y = ops::depthwise_conv2d(y, weights({24, 1, 3, 3}), {.stride = {stride}, .padding = {1}});
  y = conv(ops::silu(y), 8, 1);
  return {ops::relu(conv(stride == 1 ? ops::add(x, y) : y, 4, 3))};
}

TEST(Choices, AConvolutionIsComputedInBlocksOfTheOneThatReadsIt) {
  for (const int64_t stride : {1, 2}) {
    const std::vector<Tensor> outputs = inverted_residual(stride);
    const std::string inner = stride == 1 ? "1x10x14x24" : "1x5x7x24";
    const std::string first = "fuse@conv2d:1x10x14x24", second = "fuse@depthwise_conv2d:" + inner;
    const Network apart = with_passes(outputs, "-" + first + ",-" + second);
    ASSERT_THAT(names_of(apart), ::testing::IsSupersetOf({"-" + first + " 1", "-" + second + " 1"}))
        << apart.to_text();
    for (const std::string& passes :
         {first + ",-" + second, "-" + first + "," + second, first + "," + second}) {
      const Network fused = with_passes(outputs, passes);
      const size_t less = passes == first + "," + second ? 2 : 1;
      EXPECT_EQ(fused.nodes().size(), apart.nodes().size() - less) << passes << fused.to_text();
      EXPECT_EQ(wrong_network(outputs, 1e-4, passes), "") << passes;
    }
  }
}

TEST(Choices, AProductIsComputedInBlocksOfTheOneThatReadsIt) {
  for (const int64_t rows : {160, 131}) {
    const Tensor x = ops::relu(linear(placeholder({1, rows, 12}, f32, "x"), 24));
    const Tensor y = ops::add(linear(ops::gelu(linear(x, 72)), 24), x);
    const std::vector<Tensor> outputs{ops::softmax(linear(y, 5), -1)};
    const std::string first = "fuse@matmul:1x" + std::to_string(rows) + "x72";
    const Network apart(outputs);
    ASSERT_THAT(names_of(apart), ::testing::Contains("-" + first + " 1")) << apart.to_text();
    const Network fused = with_passes(outputs, first);
    EXPECT_EQ(fused.nodes().size(), apart.nodes().size() - 1) << fused.to_text();
    EXPECT_EQ(wrong_network(outputs, 1e-4, first), "");
    EXPECT_EQ(wrong_network(outputs, 1e-4, "fuse@matmul:*"), "");
  }
}

TEST(Choices, APointwiseConvolutionIsComputedInBlocksOfAnother) {
  const Tensor x = ops::relu(conv(placeholder({1, 4, 10, 14}, f32, "x"), 8, 3));
  const Tensor y = ops::relu(conv(ops::relu(conv(x, 40, 1)), 12, 1));
  const std::vector<Tensor> outputs{ops::relu(conv(y, 4, 3))};
  const Network apart(outputs);
  ASSERT_THAT(names_of(apart), ::testing::Contains("-fuse@conv2d:1x10x14x40 1")) << apart.to_text();
  const Network fused = with_passes(outputs, "fuse@conv2d:1x10x14x40");
  EXPECT_EQ(fused.nodes().size(), apart.nodes().size() - 1) << fused.to_text();
  EXPECT_EQ(wrong_network(outputs, 1e-4, "fuse@conv2d:1x10x14x40"), "");
}

TEST(Choices, TheEstimateCountsRowsThatTwoBlocksCompute) {
  const std::vector<Tensor> outputs = inverted_residual(1);
  const auto cost = [&](const std::string& passes, int64_t l2_bytes) {
    Target target = Target::parse("llvm -mcpu=haswell -threads=1");
    target.l2_bytes = l2_bytes;
    const network::CutNetwork cut =
        network::cut_network(ComputeDag(outputs), target, parse_passes(passes));
    return network::cost_of(cut.plan, target);
  };
  const std::string first = "fuse@conv2d:1x10x14x24", second = "fuse@depthwise_conv2d:1x10x14x24";
  const std::string apart = "-" + first + ",-" + second, one = first + ",-" + second,
                    both = first + "," + second;
  // No image between two nodes.
  EXPECT_LT(cost(one, 1 << 20).seconds, cost(apart, 1 << 20).seconds);
  EXPECT_LT(cost(both, 1 << 20).seconds, cost(one, 1 << 20).seconds);
  // Blocks of few rows.
  EXPECT_EQ(cost(one, 16 << 10).flops, cost(one, 1 << 20).flops);
  EXPECT_GT(cost(both, 16 << 10).flops, cost(both, 1 << 20).flops);
}

TEST(Choices, BytesTakeTheTimeOfTheCacheThatHoldsThem) {
  const Tensor x = placeholder({64, 1024});
  const Tensor y = ops::relu(x), sums = ops::sum(y, {0});  // y, of 256 KiB, is read after x
  const auto last_node = [&](int64_t l2_bytes, int64_t l3_bytes) {
    Target target = Target::parse("llvm -mcpu=haswell -threads=1");
    target.l2_bytes = l2_bytes;
    target.l3_bytes = l3_bytes;
    const network::CutNetwork cut = network::cut_network(ComputeDag({y, sums}), target, {});
    return network::cost_of(cut.plan, target).of_nodes.back();
  };
  const double l2 = last_node(1 << 20, 8 << 20), l3 = last_node(128 << 10, 8 << 20),
               memory = last_node(128 << 10, 256 << 10);
  EXPECT_LT(l2, l3);
  EXPECT_LT(l3, memory);
}

TEST(Choices, EachHasACostTheOtherWay) {
  const std::vector<Tensor> outputs = scaled_channels();
  const ComputeDag declared(outputs);
  const auto flipped = [&](const char* name) {
    const Target target = Target::parse(name);
    const network::CutNetwork cut = network::cut_network(declared, target, {});
    const network::PlanCost now = network::cost_of(cut.plan, target);
    const std::vector<network::ChoiceCost> all = network::choice_costs(cut, declared, target, {});
    EXPECT_EQ(all.size(), cut.choices.list().size());
    network::PlanCost more;
    for (const network::ChoiceCost& c : all) {
      if (c.choice.name == "store@mul:1x6x6x16")
        more = {c.flipped->flops - now.flops, c.flipped->bytes - now.bytes,
                c.flipped->nodes - now.nodes, c.flipped->seconds - now.seconds};
    }
    return more;
  };
  const network::PlanCost stored = flipped("llvm -mcpu=haswell -threads=1");
  EXPECT_EQ(stored.nodes, 1);
  EXPECT_EQ(stored.bytes, 2. * 6 * 6 * 16 * 4) << "it is written and read";
  EXPECT_EQ(stored.flops, 0);
  EXPECT_GT(stored.seconds, 0);
}

TEST(Choices, AnImageWithTwoReadersEndsANode) {
  const Tensor x = ops::relu(conv(placeholder({1, 4, 10, 14}, f32, "x"), 8, 3));
  const Tensor y = ops::relu(conv(x, 24, 1));
  const Tensor z = ops::depthwise_conv2d(y, weights({24, 1, 3, 3}), {.padding = {1}});
  const std::vector<Tensor> outputs{ops::relu(conv(ops::add(y, z), 4, 3))};
  EXPECT_THAT(names_of(Network(outputs)),
              ::testing::Not(::testing::Contains(HasSubstr("fuse@conv2d:1x10x14x24"))));
}

TEST(Choices, AllPlacesOfAnOperatorHaveOneName) {
  const Tensor x = placeholder({1, 8, 16}, f32, "x");
  const std::vector<Tensor> outputs{attention(linear(attention(x), 32))};
  const size_t usual = Network(outputs).nodes().size();
  const Network separate = with_passes(outputs, "-join_products@*");
  EXPECT_EQ(separate.nodes().size(), with_passes(outputs, "-join_products").nodes().size());
  // A name of its own comes before that of all.
  const Network one = with_passes(outputs, "-join_products@*,join_products@16x48");
  EXPECT_GT(one.nodes().size(), usual);
  EXPECT_LT(one.nodes().size(), separate.nodes().size());
  EXPECT_EQ(wrong_network(scaled_channels(), 1e-4, "store@mul:*"), "");
  EXPECT_GT(with_passes(scaled_channels(), "store@mul:*").nodes().size(),
            Network(scaled_channels()).nodes().size());
  EXPECT_THAT(message_of([&] { with_passes(outputs, "store@pad:*"); }), HasSubstr("no choice"));
}

TEST(Choices, AnUnknownOneIsAnErrorWithTheNearest) {
  const std::vector<Tensor> outputs = scaled_channels();
  EXPECT_THAT(message_of([&] { with_passes(outputs, "store@mul:1x6x6x8"); }),
              ::testing::AllOf(HasSubstr("no choice 'store@mul:1x6x6x8'"),
                               HasSubstr("store@mul:1x6x6x16")));
  EXPECT_THAT(message_of([] { parse_passes("-fold_views@8x8"); }), HasSubstr("no pass"));
}

TEST(Choices, AreReadAndWritten) {
  const PassOptions options = parse_passes("-join_products@16x48,store@mul:1x6x6x16,-fold_views");
  EXPECT_EQ(options.choices, (std::map<std::string, bool>{{"join_products@16x48", false},
                                                          {"store@mul:1x6x6x16", true}}));
  EXPECT_FALSE(options.fold_views);
  EXPECT_EQ(parse_passes(to_string(options)), options);
}

TEST(Choices, AreTriedOnTheWholeNetwork) {
  const Tensor x = placeholder({1, 8, 16}, f32, "x");
  const std::vector<Tensor> outputs{attention(linear(attention(x), 32))};
  const TuneClock clock;
  const PassChoice choice = choose_passes(Network(outputs), 6, clock);
  EXPECT_THAT(choice.times.verdict, ::testing::AnyOf(RaceResult::Faster, RaceResult::NotProven));
  EXPECT_TRUE(choice.times.problems.empty());
  std::vector<std::string> tried;
  for (const ChoiceTrial& t : choice.trials) {
    tried.push_back(t.change);
    EXPECT_EQ(t.before > 0, t.after > 0);
    if (t.verdict == TrialResult::Taken) {
      EXPECT_LT(t.after, t.before);
    }
  }
  EXPECT_THAT(tried, ::testing::IsSupersetOf(
                         {"-join_products", "-join_products@16x48", "-join_products@32x96"}));
  // What is returned is a proven gain, or what was given.
  if (choice.times.verdict == RaceResult::Faster) {
    EXPECT_LT(choice.times.best_seconds, choice.times.static_seconds);
    EXPECT_EQ(wrong_network(outputs, 1e-4, to_string(choice.options)), "");
  } else {
    EXPECT_EQ(choice.options, PassOptions());
  }
}

TEST(Choices, SeparateProductsReadTheirInputAgain) {
  const Network net({attention(placeholder({1, 8, 16}, f32, "x"))});
  const TuneClock clock;
  // As if each node took twice its estimate.
  const network::CutNetwork cut =
      network::cut_network(ComputeDag(net.outputs()), Target::host(), net.pass_options());
  std::vector<double> seconds = network::cost_of(cut.plan, Target::host()).of_nodes;
  ASSERT_EQ(seconds.size(), cut.nodes.size());
  for (double& s : seconds) s *= 2;
  int found = 0;
  for (const network::Candidate& c : network::pass_candidates(net, seconds, 60, clock)) {
    if (c.trial.change != "-join_products") continue;
    ++found;
    EXPECT_LT(c.trial.estimated_gain, 0);
  }
  EXPECT_EQ(found, 1);
}

TEST(Choices, ThoseWhoseNodesLoseMostTimeAreTriedFirst) {
  const Tensor x = placeholder({1, 8, 16}, f32, "x");
  const Network net({attention(linear(attention(x), 32))});
  const TuneClock clock;
  std::vector<double> seconds(net.nodes().size(), 1e-5);
  const auto first = [&](size_t slow) {
    std::vector<double> with_slow = seconds;
    with_slow[slow] = 1e-2;
    const std::vector<network::Candidate> list =
        network::pass_candidates(net, with_slow, 60, clock);
    EXPECT_THAT(list[0].trial.nodes, ::testing::Contains(static_cast<int>(slow)));
    EXPECT_GT(list[0].trial.estimated_gain, 0);
    return list[0].trial.change;
  };
  const auto joined = [&](const std::string& columns) {
    for (size_t n = 0; n < net.nodes().size(); ++n) {
      if (tasks_of(net)[n].find("," + columns + "]") != std::string::npos) return n;
    }
    return net.nodes().size();
  };
  EXPECT_EQ(first(joined("48")), "-join_products@16x48") << net.to_text();
  EXPECT_EQ(first(joined("96")), "-join_products@32x96") << net.to_text();
}

TEST(Choices, ANetworkWithoutAnyHasNothingToRace) {
  const TuneClock clock;
  const Tensor x = placeholder({4, 6}, f32, "x");
  const PassChoice choice = choose_passes(Network({ops::relu(x)}), 1, clock);
  EXPECT_EQ(choice.times.verdict, RaceResult::NothingToRace);
  EXPECT_TRUE(choice.trials.empty());
}

TEST(Choices, APassThatIsOffIsOffered) {
  const Tensor x = placeholder({1, 8, 16}, f32, "x");
  const TuneClock clock;
  const PassChoice choice =
      choose_passes(with_passes({attention(x)}, "-join_products"), 0.05, clock);
  ASSERT_FALSE(choice.trials.empty());
  EXPECT_THAT(choice.trials,
              ::testing::Contains(::testing::Field(&ChoiceTrial::change, "join_products")));
}

TEST(Choices, ThoseInALogAreFound) {
  const Folder folder;
  const std::string log = folder / "net.jsonl";
  const Tensor x = placeholder({1, 8, 16}, f32, "x");
  const std::vector<Tensor> outputs{attention(x)};
  const AutoSchedulerOptions options{.record_log = log};
  const auto passes = [&](const PassOptions& wanted) {
    reload_tophub();
    return to_string(Network(outputs, Target::host(), options, wanted).pass_options());
  };
  EXPECT_EQ(passes({}), "");
  record_passes(with_passes(outputs, "-join_products@16x48"), "x", 1e-3, log);
  EXPECT_EQ(passes({}), "-join_products@16x48");
  const Network found(outputs, Target::host(), options);
  EXPECT_THAT(found.passes().back().text, HasSubstr("net.jsonl:1"));
  EXPECT_EQ(passes(parse_passes("-fold_views")), "-fold_views") << "what is asked for comes first";
  EXPECT_EQ(
      to_string(Network({attention(placeholder({1, 9, 16}, f32, "x"))}, Target::host(), options)
                    .pass_options()),
      "")
      << "of another shape";
  record_passes(with_passes(outputs, "-join_products"), "x", 1e-3, log);
  EXPECT_EQ(passes({}), "-join_products") << "the latest";
}

}  // namespace
}  // namespace heddle::testing
