// The effect of each pass on a network for which it was written.
#include <map>

#include "driver/program_args.h"
#include "heddle/codegen/emulator.h"
#include "network/cut/task_schedules.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> applied(const Network& network) {
  std::vector<std::string> names;
  for (const PassApplication& a : network.passes()) names.push_back(a.pass);
  return names;
}

TEST(Passes, AProductOfAReshapedMatrixTakesItsResidual) {
  Tensor x = placeholder({1, 8, 16}, f32, "x");
  Tensor y = ops::reshape(linear(ops::reshape(x, {8, 16}), 16), {1, 8, 16});
  const std::vector<Tensor> outputs{ops::relu(ops::add(y, x))};
  EXPECT_EQ(with_passes(outputs, "").nodes().size(), 1u);
  EXPECT_GT(with_passes(outputs, "none").nodes().size(), 1u);
  EXPECT_EQ(wrong_network(outputs), "");
}

TEST(Passes, AlsoWhereTheShapeMergesABatch) {
  Tensor x = placeholder({3, 8, 16}, f32, "x");
  Tensor y = ops::reshape(linear(ops::reshape(x, {24, 16}), 16), {3, 8, 16});
  const std::vector<Tensor> outputs{ops::add(y, x)};
  const Network network(outputs);
  EXPECT_EQ(network.nodes().size(), 1u) << network.to_text();
  EXPECT_EQ(wrong_network(outputs), "");
}

TEST(Passes, AReshapeThatSplitsColumnsStaysBehindItsProduct) {
  Tensor x = placeholder({8, 16}, f32, "x");
  const std::vector<Tensor> outputs{ops::relu(ops::reshape(linear(x, 16), {8, 4, 4}))};
  EXPECT_THAT(applied(Network(outputs)), ::testing::Not(::testing::Contains("fold_views")));
  EXPECT_EQ(wrong_network(outputs), "");
}

TEST(Passes, AFlattenedImageStaysBehindItsConvolution) {
  Tensor x = placeholder({1, 8, 10, 10}, f32, "x");
  const Tensor y =
      ops::relu(ops::conv2d(x, weights({16, 8, 3, 3}), {.stride = {2, 2}, .padding = {1}}));
  const std::vector<Tensor> outputs{ops::mul(
      ops::reshape(y, {1, 16, 25}),
      ops::reshape(ops::conv2d(x, weights({16, 8, 2, 2}), {.stride = {2, 2}}), {1, 16, 25}))};
  EXPECT_THAT(applied(Network(outputs)), ::testing::Not(::testing::Contains("fold_views")));
  EXPECT_EQ(wrong_network(outputs), "");
}

/// Attention whose query, key and value are products of one input.
std::vector<Tensor> attention() {
  Tensor x = placeholder({1, 8, 16}, f32, "x");
  const auto heads = [&](const Tensor& t) {
    return ops::transpose(ops::reshape(t, {1, 8, 4, t.extent(2) / 4}), {0, 2, 1, 3});
  };
  const Tensor q = heads(linear(x, 16)), k = heads(linear(x, 16)), v = heads(linear(x, 32));
  return {ops::matmul(ops::softmax(ops::matmul(q, k, false, true), -1), v)};
}

TEST(Passes, ProductsOfOneInputAreOne) {
  const std::vector<Tensor> outputs = attention();
  const Network joined(outputs), separate = with_passes(outputs, "-join_products");
  EXPECT_EQ(joined.nodes().size() + 2, separate.nodes().size()) << joined.to_text();
  EXPECT_THAT(tasks_of(joined)[0], HasSubstr("f32[1,8,64]"));
  EXPECT_THAT(applied(joined), ::testing::Contains("join_products"));
  EXPECT_EQ(wrong_network(outputs), "");
}

TEST(Passes, ProductsOfWeightsOfFewBitsStaySeparateOnACpu) {
  Tensor x = placeholder({1, 32}, f32, "x");
  const auto product = [&](int64_t columns) {
    const Tensor bits = constant_placeholder({columns, 16}, u8, "bits");
    const Tensor w = compute({columns, 32}, [&](Axis n, Axis k) {
      const Expr byte = cast(i32, bits(n, floordiv(k, 2)));
      return cast(f32, bitwise_and(shift_right(byte, cast(i32, floormod(k, 2)) * 4), 15) - 8);
    });
    return ops::matmul(x, w, false, true);
  };
  const std::vector<Tensor> outputs{ops::concat({product(16), product(8)}, 1)};
  EXPECT_THAT(applied(Network(outputs)), ::testing::Not(::testing::Contains("join_products")));
  EXPECT_THAT(applied(Network(outputs, Target::parse("cuda -arch=sm_90"))),
              ::testing::Contains("join_products"));
  EXPECT_EQ(wrong_network(outputs), "");
}

TEST(Passes, ProductsWithEpiloguesOfTheirOwnStaySeparate) {
  Tensor x = placeholder({8, 16}, f32, "x");
  const std::vector<Tensor> outputs{ops::add(ops::relu(linear(x, 16)), ops::tanh(linear(x, 16)))};
  EXPECT_THAT(applied(Network(outputs)), ::testing::Not(::testing::Contains("join_products")));
  EXPECT_EQ(wrong_network(outputs), "");
}

TEST(Passes, ABatchNormGoesIntoTheWeights) {
  const std::vector<Tensor> outputs{ops::relu(conv_norm(placeholder({1, 3, 6, 6}, f32, "x"), 4))};
  const Network network(outputs);
  EXPECT_THAT(applied(network), ::testing::Contains("fold_scales"));
  const ComputeDag& dag = network.tasks()[0].tmpl.dag();
  // Of what runs at every call, nothing multiplies but the convolution.
  for (int s = 0; s < dag.size(); ++s) {
    if (dag.info(s).precomputable || dag.stage(s).is_reduction()) continue;
    EXPECT_LE(dag.info(s).flops_per_point, 2) << dag.to_text();
  }
  EXPECT_EQ(wrong_network(outputs), "");
}

// Attention as PyTorch's exporters write it: both operands scaled, and zeros for masked rows.
std::vector<Tensor> exported_attention(DataType type, int64_t keys, int64_t batch = 2,
                                       bool same_guard = true) {
  const auto input = [&](const char* name) { return placeholder({batch, keys, 16}, type, name); };
  Tensor q = ops::mul(input("q"), make_const(type, 0.5));
  Tensor k = ops::mul(ops::transpose(input("k"), {0, 2, 1}), make_const(type, 0.5));
  Tensor mask = placeholder({batch, keys, keys}, boolean, "mask");
  const Tensor scores = ops::matmul(q, k);
  const Tensor masked = compute(
      scores.shape(),
      [&](Axis b, Axis i, Axis j) {
        const Expr kept = mask(b, i, j) && Expr(i) != Expr(int64_t{0});
        return scores(b, i, j) + select(kept, make_const(type, 0), lowest_value(type));
      },
      "masked");
  const Tensor p = ops::softmax(masked, -1);
  const Tensor guard = ops::isnan(same_guard ? p : ops::tanh(p));
  return {ops::matmul(ops::where(guard, ops::full(p.shape(), 0, type), p), input("v"))};
}

TEST(Passes, FactorsOfOperandsAndGuardsOfRowsComeAfterTheirProducts) {
  for (const DataType type : {f32, f16}) {
    const std::vector<Tensor> outputs = exported_attention(type, 8);
    const std::vector<std::string> names =
        applied(Network(outputs, Target::parse("cuda -arch=sm_90")));
    EXPECT_THAT(names, ::testing::Contains("factors_after_products"));
    EXPECT_THAT(names, ::testing::Contains("guards_after_products"));
    EXPECT_THAT(applied(Network(outputs)), ::testing::Contains("factors_after_products"));
    EXPECT_EQ(wrong_network(outputs, type == f16 ? 2e-3 : 1e-4), "");
  }
}

TEST(Passes, AGuardOfOtherValuesStays) {
  const std::vector<std::string> names =
      applied(Network(exported_attention(f32, 8, 2, false), Target::parse("cuda -arch=sm_90")));
  EXPECT_THAT(names, ::testing::Not(::testing::Contains("guards_after_products")));
}

TEST(Passes, AScaleOfTheCallersIsNoWeight) {
  Tensor x = placeholder({8, 16}, f32, "x"), scale = placeholder({16}, f32, "scale");
  const std::vector<Tensor> outputs{ops::mul(linear(x, 16), scale)};
  EXPECT_THAT(applied(Network(outputs)), ::testing::Not(::testing::Contains("fold_scales")));
}

TEST(Passes, TransposesThereAndBackAreNothing) {
  Tensor x = placeholder({4, 8}, f32, "x");
  const Tensor back = ops::transpose(ops::transpose(ops::tanh(x), {1, 0}), {1, 0});
  const std::vector<Tensor> outputs{ops::relu(back)};
  const Network network(outputs);
  ASSERT_EQ(network.tasks().size(), 1u);
  EXPECT_EQ(network.tasks()[0].tmpl.dag().size(), 3) << network.tasks()[0].tmpl.dag().to_text();
  EXPECT_EQ(wrong_network(outputs), "");
}

TEST(Passes, AnIndexWithoutInputsIsANumber) {
  Tensor x = placeholder({3, 8}, f32, "x");
  const Tensor index = compute(Shape{}, [](const std::vector<Axis>&) { return Expr(int64_t{1}); });
  const std::vector<Tensor> outputs{ops::relu(compute(
      {8}, [&](Axis j) { return x(max(Expr(int64_t{0}), min(Expr(int64_t{2}), index.at({}))), j); },
      "row"))};
  const Network network(outputs);
  EXPECT_EQ(network.nodes().size(), 1u) << network.to_text();
  EXPECT_EQ(network.nodes()[0].inputs.size(), 1u);
  EXPECT_EQ(wrong_network(outputs), "");
}

/// Layers that each read all before them.
std::vector<Tensor> dense_block(int64_t batch) {
  Tensor x = placeholder({batch, 4, 4, 4}, f32, "x");
  const auto layer = [](const Tensor& t, int64_t channels) {
    return ops::conv2d(t, weights({channels, t.extent(1), 3, 3}), {.padding = {1}});
  };
  std::vector<Tensor> layers{layer(x, 4)};
  for (int n = 0; n < 3; ++n) {
    layers.push_back(layer(layers.size() == 1 ? layers[0] : ops::concat(layers, 1), 2));
  }
  return {ops::global_avg_pool(ops::concat(layers, 1))};
}

// A number of a file that is reshaped, read by two nodes.
TEST(Passes, ANumberThatIsReshapedIsNoNode) {
  const Tensor x = placeholder({8, 16}, f32, "x"), y = placeholder({16, 8}, f32, "y");
  const Tensor number = ops::reshape(ops::reshape(ops::full({1}, 3.0, f32), {}), {1, 1});
  const std::vector<Tensor> outputs{ops::mul(x, number), ops::mul(y, number)};
  EXPECT_EQ(with_passes(outputs, "").nodes().size(), 2u);
  EXPECT_EQ(wrong_network(outputs), "");
}

TEST(Passes, ConcatsOfOneBlockShareTheLongest) {
  const std::vector<Tensor> outputs = dense_block(1);
  const Network network(outputs);
  // Two shorter concats and four layers lie in the last one.
  ASSERT_EQ(network.places().size(), 6u);
  for (const TensorPlace& p : network.places())
    EXPECT_EQ(p.whole.extents(), (std::vector<int64_t>{1, 10, 4, 4}));
  for (const std::string& name : tasks_of(network))
    EXPECT_THAT(name, ::testing::Not(HasSubstr("concat")));
  EXPECT_EQ(wrong_network(outputs), "");
  const std::vector<Tensor> args = args_of(outputs);
  EXPECT_LE(network.build(args).workspace_bytes(),
            with_passes(outputs, "-concat_in_place").build(args).workspace_bytes());
}

TEST(Passes, PartsThatAreNotConsecutiveAreCopied) {
  const std::vector<Tensor> outputs = dense_block(2);
  EXPECT_TRUE(Network(outputs).places().empty());
  EXPECT_EQ(wrong_network(outputs), "");
}

TEST(Passes, ACallersConcatIsCopied) {
  Tensor x = placeholder({1, 4, 4, 4}, f32, "x");
  const Tensor a = ops::conv2d(x, weights({4, 4, 1, 1})), b = ops::conv2d(x, weights({4, 4, 1, 1}));
  EXPECT_TRUE(Network({ops::concat({a, b}, 1)}).places().empty());
  EXPECT_TRUE(Network({ops::relu(ops::concat({a, b}, 1)), a}).places().empty());
  EXPECT_TRUE(Network({ops::relu(ops::concat({a, a}, 1))}).places().empty());
  EXPECT_TRUE(Network({ops::relu(ops::concat({a, x}, 1))}).places().empty());
  EXPECT_EQ(wrong_network({ops::relu(ops::concat({a, a, b, x}, 1)), a}), "");
}

TEST(Passes, ListsAreReadAndWritten) {
  EXPECT_EQ(parse_passes(""), PassOptions());
  EXPECT_EQ(parse_passes("-join_products"), (PassOptions{.join_products = false}));
  EXPECT_EQ(to_string(parse_passes("-join_products,-fold_views")), "-fold_views,-join_products");
  EXPECT_EQ(parse_passes(to_string(parse_passes("none"))), parse_passes("none"));
  EXPECT_EQ(parse_passes("all", parse_passes("none")), PassOptions());
  EXPECT_THAT(message_of([] { parse_passes("-join_product"); }), HasSubstr("join_products"));
}

Tensor conv(const Tensor& x, int64_t channels, int64_t window = 3) {
  return ops::conv2d(x, weights({channels, x.extent(1), window, window}), {.padding = {window / 2}},
                     weights({channels}, "bias"));
}

TEST(Passes, ImagesBetweenConvolutionsHaveTheirChannelsInnermost) {
  const Tensor x = placeholder({1, 3, 6, 7}, f32, "x");
  Tensor y = ops::relu(conv(x, 8));
  y = ops::relu(ops::depthwise_conv2d(y, weights({8, 1, 3, 3}), {.padding = {1}}));
  const std::vector<Tensor> outputs{ops::relu(conv(y, 5, 1))};
  const Network network = with_passes(outputs, "-fuse@conv2d:*"),
                other = with_passes(outputs, "-channels_last");
  // Equal nodes: the last one writes the result as it was declared.
  EXPECT_THAT(tasks_of(network),
              ::testing::ElementsAre(HasSubstr("f32[1,6,7,8]"), HasSubstr("f32[1,6,7,8]"),
                                     HasSubstr("f32[1,5,6,7]")));
  EXPECT_THAT(tasks_of(other), ::testing::Each(::testing::Not(HasSubstr("f32[1,6,7,"))));
  EXPECT_EQ(wrong_network(outputs), "");
}

TEST(Passes, WindowsLeaveOutTapsThatReadNothingButPadding) {
  const auto dilated = [](int64_t by, int64_t stride) {
    const Tensor x = placeholder({2, 3, 8, 9}, f32, "x");
    return std::vector<Tensor>{ops::relu(ops::conv2d(
        x, weights({4, 3, 3, 3}), {.stride = {stride}, .padding = {by}, .dilation = {by}}))};
  };
  for (const int64_t by : {8, 9, 12}) {
    EXPECT_THAT(applied(Network(dilated(by, 1))), ::testing::Contains("drop_taps")) << by;
    EXPECT_EQ(wrong_network(dilated(by, 1)), "") << by;
  }
  EXPECT_THAT(applied(Network(dilated(7, 1))), ::testing::Not(::testing::Contains("drop_taps")));
  EXPECT_EQ(wrong_network(dilated(8, 3)), "");
  // Of 3x3 taps one is left, which reads no padding.
  EXPECT_THAT(tasks_of(Network(dilated(9, 1))),
              ::testing::ElementsAre(::testing::Not(HasSubstr("pad"))));
}

TEST(Passes, SumsOfAFlattenedImageRunOverItsAxes) {
  // Groups of channels as exporters write them: by a shape in which the last axis is flat.
  for (const int64_t groups : {1, 4}) {
    const Tensor y = conv(placeholder({2, 3, 6, 7}, f32, "x"), 8);
    const Tensor flat = ops::reshape(y, {2, groups, 8 / groups * 6 * 7});
    const Tensor normal = ops::instance_norm(flat);
    const std::vector<Tensor> outputs{ops::relu(conv(ops::reshape(normal, {2, 8, 6, 7}), 4))};
    EXPECT_THAT(applied(Network(outputs)), ::testing::Contains("unflatten_sums")) << groups;
    EXPECT_EQ(wrong_network(outputs), "") << groups;
  }
}

TEST(Passes, FiltersOfGroupsLieSideBySide) {
  const Tensor x = ops::relu(conv(placeholder({1, 3, 6, 7}, f32, "x"), 16));
  const Tensor y = ops::conv2d(x, weights({32, 4, 3, 3}), {.padding = {1}, .groups = 4});
  const std::vector<Tensor> outputs{ops::relu(conv(ops::relu(y), 5, 1))};
  const Network network(outputs);
  const NetworkNode& grouped = network.nodes()[1];
  const ComputeDag& dag = network.tasks()[static_cast<size_t>(grouped.task)].tmpl.dag();
  int laid = 0;  // weights [c, r, s, k] in place of [k, c, r, s]
  for (int s = 0; s < dag.size(); ++s)
    laid += dag.stage(s).output(0).extents() == std::vector<int64_t>{4, 3, 3, 32};
  EXPECT_EQ(laid, 1) << network.to_text();
  EXPECT_EQ(wrong_network(outputs), "");
  // Also where no other image is beside them.
  const Tensor alone = ops::conv2d(ops::relu(placeholder({1, 16, 6, 7}, f32, "x")),
                                   weights({32, 4, 3, 3}), {.padding = {1}, .groups = 4});
  const std::vector<Tensor> flat{ops::relu(ops::reshape(alone, {2, 16, 42}))};
  EXPECT_THAT(applied(Network(flat)), ::testing::Contains("channels_last"));
  EXPECT_EQ(wrong_network(flat), "");
}

// A block of ConvNeXt: only its depthwise convolution knows images, and the rest goes over pixels.
TEST(Passes, ADepthwiseConvolutionBetweenProductsHasItsChannelsInnermost) {
  const Tensor x = placeholder({1, 16, 6, 7}, f32, "x");
  const Tensor first = ops::relu(x);
  const Tensor y = ops::depthwise_conv2d(first, weights({16, 1, 3, 3}), {.padding = {1}});
  const Tensor rows = ops::layer_norm(ops::transpose(y, {0, 2, 3, 1}));
  const Tensor product = ops::matmul(rows, weights({16, 16}));
  const Tensor sum = ops::add(first, ops::transpose(product, {0, 3, 1, 2}));
  const Tensor mean =
      ops::mean(ops::depthwise_conv2d(sum, weights({16, 1, 3, 3}), {.padding = {1}}), {2, 3});
  const std::vector<Tensor> outputs{ops::relu(mean)};
  const Network network(outputs), other = with_passes(outputs, "-channels_last");
  EXPECT_THAT(applied(network), ::testing::Contains("channels_last"));
  EXPECT_THAT(tasks_of(network), ::testing::Contains(HasSubstr("depthwise_conv2d f32[1,6,7,16]")));
  EXPECT_THAT(tasks_of(other),
              ::testing::Not(::testing::Contains(HasSubstr("depthwise_conv2d f32[1,6,7,16]"))));
  EXPECT_EQ(wrong_network(outputs), "");
}

TEST(Passes, TheMeanOfAnImageHasItsChannelsInnermostToo) {
  const Tensor x = placeholder({1, 3, 6, 7}, f32, "x");
  const Tensor y = ops::relu(conv(x, 16)), mean = ops::global_avg_pool(y);
  const std::vector<Tensor> outputs{ops::relu(conv(mean, 4, 1))};
  EXPECT_THAT(tasks_of(Network(outputs)), ::testing::Contains(HasSubstr("f32[1,1,1,16]")));
  EXPECT_EQ(wrong_network(outputs), "");
}

TEST(Passes, ChannelsThatManyLayersConcatenateStayOutermost) {
  std::vector<Tensor> layers{conv(placeholder({1, 3, 6, 7}, f32, "x"), 4)};
  for (int n = 0; n < 4; ++n)
    layers.push_back(conv(layers.size() == 1 ? layers[0] : ops::concat(layers, 1), 4));
  EXPECT_THAT(applied(Network({ops::relu(layers.back())})),
              ::testing::Not(::testing::Contains("channels_last")));
}

/// "" when the emulated kernels of a network for a GPU compute what the interpreter does.
std::string wrong_on_gpu(const std::vector<Tensor>& outputs, const Network& network,
                         const std::vector<Schedule>& schedules, double tolerance) {
  const std::vector<Tensor> args = args_of(outputs);
  std::vector<NDArray> arrays = arrays_for(args);
  std::map<const BufferNode*, NDArray> values;
  for (size_t i = 0; i < args.size(); ++i) values[args[i].buffer().get()] = arrays[i];
  for (const NetworkNode& node : network.nodes()) {
    const Schedule& schedule = schedules[static_cast<size_t>(node.task)];
    const std::vector<Tensor> kernel_args = network::task_args(schedule);
    std::vector<NDArray> of_node;
    // A rewritten graph takes the same arrays with other dimensions.
    const auto add = [&](const Tensor& t) {
      const Tensor& own = schedule.dag().counterpart(kernel_args[of_node.size()]);
      of_node.push_back(values.at(t.buffer().get()).view(own.extents()));
    };
    for (const Tensor& t : node.inputs) add(t);
    for (const Tensor& t : node.outputs) {
      values.try_emplace(t.buffer().get(), NDArray::zeros(t.extents(), t.dtype()));
      add(t);
    }
    emulate(driver::lower_for_gpu(schedule, kernel_args, {.name = "node"}), of_node);
  }
  return differs_from_interpreter(outputs, args, arrays, tolerance);
}

std::string wrong_on_gpu(const std::vector<Tensor>& outputs, const Network& network,
                         double tolerance) {
  return wrong_on_gpu(outputs, network, network.static_schedules(), tolerance);
}

TEST(Passes, ProductsOfOneInputAreOneOnAGpuThatTheyDoNotFill) {
  const std::vector<Tensor> outputs = attention();
  const Network joined(outputs, Target::parse("cuda -arch=sm_90"));
  EXPECT_THAT(applied(joined), ::testing::Contains("join_products"));
  EXPECT_EQ(wrong_on_gpu(outputs, joined, 1e-4), "");
  const Network full(outputs, Target::parse("cuda -arch=sm_90 -sms=1"));
  EXPECT_THAT(applied(full), ::testing::Not(::testing::Contains("join_products")));
}

/// A product with weights of f16, 64 by 96.
std::vector<Tensor> half_product(const Expr& rows) {
  const Tensor x = placeholder({rows, 64}, f16, "x");
  const Tensor w = constant_placeholder({64, 96}, f16, "w");
  const Axis k = reduce_axis(64, "k");
  const Tensor y = compute(
      {rows, 96}, [&](Axis i, Axis j) { return sum(cast(f32, x(i, k)) * cast(f32, w(k, j)), k); },
      "product");
  return {ops::relu(y)};
}

TEST(Passes, WeightsOfAProductOfOneRowAreTransposedOnAGpu) {
  const Target gpu = Target::parse("cuda -gpu=h200");
  const std::vector<Tensor> outputs = half_product(1);
  const Network network(outputs, gpu);
  EXPECT_THAT(applied(network), ::testing::Contains("transpose_weights"));
  EXPECT_EQ(wrong_on_gpu(outputs, network, 2e-3), "");
  const Schedule schedule = network.static_schedules()[0];
  const GpuProgram program =
      driver::lower_for_gpu(schedule, network::task_args(schedule), {.name = "node"});
  EXPECT_EQ(program.main.size(), 1u) << "the sum is cut over blocks";
  EXPECT_EQ(program.prepare.size(), 1u) << "the weights are not transposed once";
  const auto untouched = [&](const std::vector<Tensor>& declared, const Target& target) {
    return ::testing::Value(applied(Network(declared, target)),
                            ::testing::Not(::testing::Contains("transpose_weights")));
  };
  EXPECT_TRUE(untouched(half_product(8), gpu));
  EXPECT_TRUE(untouched(outputs, Target::host()));
  const std::vector<Tensor> wide{linear(placeholder({1, 64}, f32, "x"), 96)};
  EXPECT_TRUE(untouched(wide, gpu)) << "weights of f32";
}

TEST(Passes, OfARangeWeightsAreTransposedWhereItBeginsAtOneRow) {
  const Target gpu = Target::parse("cuda -gpu=h200");
  const auto is_applied = [&](int64_t least) {
    const std::vector<std::string> names =
        applied(Network(half_product(Expr(dim("rows", least, 16))), gpu));
    return std::ranges::find(names, "transpose_weights") != names.end();
  };
  EXPECT_TRUE(is_applied(1));
  EXPECT_FALSE(is_applied(2));
}

// As one at the largest size would gain nothing, which must not leave the pass out at all sizes.
TEST(Passes, OfARangeProductsAreJoinedWhereTheyGainAtTheLeastSizes) {
  const Dim rows = dim("rows", 1, 65536);
  const Tensor x = placeholder({rows, 64}, f32, "x");
  std::vector<Tensor> sums;
  for (int n = 0; n < 3; ++n) {
    const Tensor w = weights({64, 96});
    const Axis k = reduce_axis(64, "k");
    const Tensor y = compute({rows, 96}, [&](Axis i, Axis j) { return sum(x(i, k) * w(k, j), k); });
    const Axis l = reduce_axis(96, "l");
    sums.push_back(compute({rows}, [&](Axis i) { return sum(y(i, l), l); }));
  }
  const Network network(sums, Target::parse("cuda -gpu=h200"));
  const std::vector<std::string> names = applied(network);
  EXPECT_NE(std::ranges::find(names, "join_products"), names.end());
  for (const PassApplication& p : network.passes())
    EXPECT_THAT(p.text, Not(HasSubstr("left out"))) << p.pass;
}

TEST(Cuts, ALayerNormBeforeAProductIsOneNodeOnAGpu) {
  const Tensor x = placeholder({1, 16, 32}, f32, "x");
  const Tensor norm = ops::layer_norm(x, weights({32}), weights({32}));
  const std::vector<Tensor> outputs{ops::add(linear(norm, 32), x)};
  const Target gpu = Target::parse("cuda -arch=sm_90");
  const Network network(outputs, gpu);
  EXPECT_EQ(network.nodes().size(), 2u) << network.to_text();
  EXPECT_EQ(wrong_on_gpu(outputs, network, 1e-4), "");
  const Network inside(outputs, gpu, {}, parse_passes("-store@layer_norm:*"));
  EXPECT_NE(inside.nodes().size(), 2u) << inside.to_text();
  EXPECT_EQ(wrong_on_gpu(outputs, inside, 1e-4), "");
}

// Between the sum of a row and what it divides, files write a stage for each operator.
TEST(Cuts, ANormOfOperatorsBeforeAProductIsOneNodeOnAGpu) {
  const Tensor x = placeholder({3, 64}, f32, "x");
  const Tensor mean = ops::mean(ops::mul(x, x), {-1}, true);
  const Tensor root = ops::sqrt(ops::mul(ops::add(mean, 1e-5), 1.0));
  const Tensor norm = ops::mul(ops::div(x, root), weights({64}));
  const std::vector<Tensor> outputs{ops::relu(ops::matmul(norm, weights({64, 48})))};
  const Network network(outputs, Target::parse("cuda -gpu=h200"));
  EXPECT_EQ(network.nodes().size(), 2u) << network.to_text();
  EXPECT_EQ(network.tasks()[0].tmpl.dag().outputs()[0].shape().size(), 2u);
  EXPECT_EQ(wrong_on_gpu(outputs, network, 1e-4), "");
}

/// A decoder's step of a U-Net: an image beside a larger one of the encoder, and a window over both.
TEST(Cuts, WindowsOnAGpuReadAConcatThatIsStored) {
  const auto weight = [](Shape shape) { return constant_placeholder(std::move(shape), f16, "w"); };
  const Tensor x = placeholder({1, 8, 12, 12}, f16, "x");
  const Tensor skip = ops::relu(ops::conv2d(x, weight({16, 8, 3, 3}), {.padding = {1}}));
  const Tensor both = ops::concat({skip, ops::relu(ops::conv2d(skip, weight({16, 16, 1, 1})))}, 1);
  const std::vector<Tensor> outputs{ops::conv2d(both, weight({16, 32, 3, 3}), {.padding = {1}})};
  const Target gpu = Target::parse("cuda -arch=sm_90");
  const auto computes_concat = [](const Network& network) {
    const std::vector<std::string> tasks = tasks_of(network);
    return std::count_if(tasks.begin(), tasks.end(), [](const std::string& task) {
      return task.find("concat") != std::string::npos && task.find("conv2d") != std::string::npos;
    });
  };
  const Network stored(outputs, gpu), inside(outputs, gpu, {}, parse_passes("-store@concat:*"));
  EXPECT_EQ(computes_concat(stored), 0) << stored.to_text();
  EXPECT_EQ(computes_concat(inside), 1) << inside.to_text();
  EXPECT_EQ(wrong_on_gpu(outputs, stored, 1e-2), "");
  EXPECT_EQ(wrong_on_gpu(outputs, inside, 1e-2), "");
}

// A row of the result has too few threads for sums over whole images.
TEST(Cuts, SumsOfANormOverImagesAreNodesOfTheirOwnOnAGpu) {
  const auto weight = [](Shape shape) { return constant_placeholder(std::move(shape), f16, "w"); };
  const Tensor x = placeholder({2, 10, 12, 16}, f16, "x");
  const Tensor flat = ops::instance_norm(ops::reshape(x, {2, 1, 1920}));
  const Tensor norm = ops::gelu(ops::mul(ops::reshape(flat, {2, 10, 12, 16}), weight({16})));
  const std::vector<Tensor> outputs{
      ops::conv2d(norm, weight({3, 3, 16, 24}), {.padding = {1}, .layout = ops::NHWC})};
  const Network network(outputs, Target::parse("cuda -gpu=h200"));
  int sums = 0;
  for (const TuneTask& task : network.tasks()) {
    const ComputeDag& dag = task.tmpl.dag();
    sums += dag.info(dag.index_of(dag.outputs()[0].op())).points == 2;
  }
  EXPECT_EQ(sums, 2) << network.to_text();
  EXPECT_EQ(wrong_on_gpu(outputs, network, 2e-2), "");
}

// A convolution would compute the norm and the activation for each tap of its window.
TEST(Cuts, ANormWithItsActivationBeforeAPaddedConvolutionIsOneNodeOnAGpu) {
  const auto weight = [](Shape shape) { return constant_placeholder(std::move(shape), f16, "w"); };
  const Tensor x = placeholder({1, 10, 12, 16}, f16, "x");
  const Tensor norm = ops::gelu(ops::layer_norm(x, weight({16}), weight({16})));
  const std::vector<Tensor> outputs{
      ops::conv2d(norm, weight({3, 3, 16, 24}), {.padding = {1}, .layout = ops::NHWC})};
  const Network network(outputs, Target::parse("cuda -gpu=h200"));
  ASSERT_EQ(network.nodes().size(), 2u) << network.to_text();
  EXPECT_EQ(network.tasks()[0].tmpl.dag().outputs()[0].extents(), x.extents());
  EXPECT_EQ(wrong_on_gpu(outputs, network, 2e-2), "");
  // An activation alone is stored where computing it for each tap takes longer than that.
  const auto nodes = [&](const Tensor& y) {
    const Tensor c =
        ops::conv2d(y, weight({3, 3, y.extent(3), 24}), {.padding = {1}, .layout = ops::NHWC});
    return Network({c}, Target::parse("cuda -gpu=h200")).nodes().size();
  };
  const Tensor large = placeholder({8, 112, 112, 64}, f16, "large");
  EXPECT_EQ(nodes(ops::gelu(large)), 2u);
  EXPECT_EQ(nodes(ops::relu(large)), 1u);
  EXPECT_EQ(nodes(ops::gelu(x)), 1u) << "less than a kernel takes to start";
}

TEST(Passes, ExportedAttentionIsOneNodeOnAGpu) {
  for (const int64_t batch : {1, 2}) {
    const std::vector<Tensor> outputs = exported_attention(f16, 64, batch);
    const Network network(outputs, Target::parse("cuda -arch=sm_90"));
    EXPECT_EQ(network.nodes().size(), 1u) << network.to_text();
    EXPECT_EQ(wrong_on_gpu(outputs, network, 4e-3), "");
  }
}

TEST(Passes, ImagesHaveTheirChannelsInnermostOnGpus) {
  const auto image = [](DataType dtype) {
    const auto weight = [&](Shape shape) {
      return constant_placeholder(std::move(shape), dtype, "w");
    };
    Tensor y = placeholder({1, 8, 6, 7}, dtype, "x");
    y = ops::relu(ops::conv2d(y, weight({16, 8, 3, 3}), {.padding = {1}}));
    y = ops::relu(ops::depthwise_conv2d(y, weight({16, 1, 3, 3}), {.padding = {1}}));
    y = ops::relu(ops::conv2d(y, weight({16, 16, 1, 1})));
    return std::vector<Tensor>{ops::relu(ops::conv2d(y, weight({8, 16, 1, 1})))};
  };
  const Target gpu = Target::parse("cuda -gpu=h200");
  const std::vector<Tensor> halves = image(f16), floats = image(f32);
  const Network network(halves, gpu), other(floats, gpu);
  EXPECT_THAT(tasks_of(network),
              ::testing::ElementsAre(HasSubstr("f16[1,6,7,16]"), HasSubstr("f16[1,6,7,16]"),
                                     HasSubstr("f16[1,6,7,16]"), HasSubstr("f16[1,8,6,7]")));
  EXPECT_THAT(tasks_of(other)[0], HasSubstr("f32[1,6,7,16]"));
  EXPECT_EQ(wrong_on_gpu(halves, network, 2e-2), "");
  EXPECT_EQ(wrong_on_gpu(floats, other, 1e-4), "");
}

TEST(Passes, WeightsLieAlongTheChannelsThatAreSummedUpOnGpus) {
  const auto weight = [](Shape shape) { return constant_placeholder(std::move(shape), f16, "w"); };
  Tensor y = placeholder({1, 8, 12, 14}, f16, "x");
  y = ops::relu(ops::conv2d(y, weight({64, 8, 1, 1})));
  y = ops::relu(ops::conv2d(y, weight({32, 64, 3, 3}), {.padding = {1}}));
  const std::vector<Tensor> outputs{ops::relu(ops::conv2d(y, weight({8, 32, 1, 1})))};
  const Network network(outputs, Target::parse("cuda -gpu=h200"));
  std::vector<Schedule> schedules = network.static_schedules();
  // The convolution of 3x3 can be computed by warp groups, whose tiles TMA loads.
  const Template& t = network.tasks()[1].tmpl;
  EXPECT_EQ(wrong_on_gpu(outputs, network, schedules, 2e-2), "");
  Config config = t.default_config();
  for (const auto& [name, value] : std::map<std::string, int64_t>{
           {"unit", 1}, {"group_tiles", 1}, {"groups", 1}, {"group_cols", 32}}) {
    const int knob = t.knob_index("g1." + name);
    ASSERT_GE(knob, 0) << name << "\n" << network.to_text();
    config.values[static_cast<size_t>(knob)] = value;
  }
  schedules[1] = t.instantiate(config);
  EXPECT_EQ(wrong_on_gpu(outputs, network, schedules, 2e-2), "");
}

}  // namespace
}  // namespace heddle::testing
