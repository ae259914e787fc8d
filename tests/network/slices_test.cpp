// Nodes that read one slice of a tensor, and results that are stacked in place.
#include <algorithm>
#include <set>

#include "network/network_testing.h"

namespace heddle::testing {
namespace {

/// The hidden states of all steps, and the sum of what a layer behind it computes.
std::vector<Tensor> layers(int64_t steps, int64_t batch, int64_t hidden) {
  Tensor x = placeholder({steps, batch, 12}, f32, "x");
  const auto layer = [&](const Tensor& t, bool reverse) {
    return ops::lstm(t,
                     {.input = weights({4 * hidden, t.extent(2)}),
                      .recurrence = weights({4 * hidden, hidden}),
                      .bias = weights({8 * hidden})},
                     {.reverse = reverse})
        .all;
  };
  const Tensor both = ops::concat({layer(x, false), layer(x, true)}, 2);
  return {ops::relu(layer(both, false))};
}

size_t different_tasks(const Network& network) {
  std::set<int> tasks;
  for (const NetworkNode& node : network.nodes()) tasks.insert(node.task);
  return tasks.size();
}

TEST(Slices, StepsThatDifferInTheirSliceAreOneTask) {
  const std::vector<Tensor> shorter = layers(6, 1, 16), longer = layers(9, 1, 16);
  const Network network(longer);
  EXPECT_EQ(different_tasks(network), different_tasks(Network(shorter))) << network.to_text();
  EXPECT_GT(different_tasks(with_passes(longer, "-slices_in_place")), different_tasks(network) + 8);
  EXPECT_EQ(wrong_network(longer), "");
}

TEST(Slices, AStepOfAnLstmIsAProductAndOneNodeWithBothStates) {
  const Tensor x = placeholder({5, 2, 12}, f32, "x");
  const ops::RecurrentResult layer = ops::lstm(
      x, {.input = weights({64, 12}), .recurrence = weights({64, 16}), .bias = weights({128})});
  const std::vector<Tensor> outputs{ops::relu(layer.all), layer.cell};
  const Network network(outputs);
  // The product of the inputs, both nodes of each step (the first state is 0), and the reader.
  EXPECT_EQ(network.nodes().size(), 1U + 2 * 5U - 1 + 1) << network.to_text();
  const auto stacked = [](const TensorPlace& p) {
    return p.whole.extents() == std::vector<int64_t>{5, 2, 16};
  };
  EXPECT_EQ(std::count_if(network.places().begin(), network.places().end(), stacked), 5);
  EXPECT_EQ(wrong_network(outputs), "");
}

TEST(Slices, ASliceLiesWhereTheTensorHasIt) {
  const Network network(layers(5, 2, 16));
  std::set<int64_t> offsets;
  for (const TensorPlace& p : network.places()) {
    if (p.tensor.rank() == 2 && p.whole.extents() == std::vector<int64_t>{5, 2, 64})
      offsets.insert(p.offset);
  }
  EXPECT_EQ(offsets, (std::set<int64_t>{0, 512, 1024, 1536, 2048}));
}

TEST(Slices, BuffersBeginAtWholeCacheLines) {
  const std::vector<Tensor> outputs = layers(6, 1, 3);  // a slice has 48 bytes
  for (const TensorPlace& p : Network(outputs).places()) EXPECT_EQ(p.offset % 64, 0);
  EXPECT_EQ(wrong_network(outputs), "");
}

/// Readers of single rows of a product, and a reader of all rows.
std::vector<Tensor> rows(bool is_output) {
  const Tensor x = placeholder({4, 16}, f32, "x");
  const Tensor y = linear(x, 32);
  std::vector<Tensor> outputs{ops::sum(y, {1})};
  for (int64_t r = 0; r < 4; ++r) {
    const Tensor row = compute({32}, [&](Axis j) { return y(Expr(r), j) * y(Expr(r), 31 - j); });
    outputs.push_back(ops::softmax(row, 0));
  }
  if (is_output) outputs.push_back(y);
  return outputs;
}

TEST(Slices, OthersMayReadTheWhole) {
  const std::vector<Tensor> outputs = rows(false);
  const Network network(outputs);
  EXPECT_EQ(network.places().size(), 4U) << network.to_text();
  EXPECT_LT(different_tasks(network), different_tasks(with_passes(outputs, "-slices_in_place")));
  EXPECT_EQ(wrong_network(outputs), "");
}

TEST(Slices, ANetworkOverDimensionsReadsTheWhole) {
  const Dim n = dim("n", 1, 9);
  const Tensor x = placeholder({n, 16}, f32, "x"), z = placeholder({4, 16}, f32, "z");
  const Tensor y = linear(z, 16);
  std::vector<Tensor> outputs;
  for (int64_t r = 0; r < 2; ++r)
    outputs.push_back(
        compute({n, 16}, [&](Axis i, Axis j) { return x(i, j) * y(Expr(r), j); }, "scaled"));
  EXPECT_TRUE(Network(outputs).places().empty());
}

TEST(Slices, AnOutputIsReadWhole) {
  const std::vector<Tensor> outputs = rows(true);
  EXPECT_TRUE(Network(outputs).places().empty());
  EXPECT_EQ(wrong_network(outputs), "");
}

// What a condition keeps from being read has no place in the tensor.
TEST(Slices, NumbersOutsideOfTheTensorAreNone) {
  const Tensor x = placeholder({4, 16}, f32, "x");
  const Tensor y = linear(x, 16);
  std::vector<Tensor> outputs;
  for (int64_t r = -2; r < 6; ++r) {
    const Tensor row = compute({1, 16}, [&](Axis i, Axis j) {
      return select(i + r >= 0 && i + r < 4, y(i + r, j), Expr(0.0F));
    });
    outputs.push_back(ops::softmax(row, 1));
  }
  const Network network(outputs);
  EXPECT_EQ(network.places().size(), 4U) << network.to_text();
  for (const TensorPlace& p : network.places()) {
    EXPECT_GE(p.offset, 0);
    EXPECT_LT(p.offset, 256);
  }
  EXPECT_EQ(wrong_network(outputs), "");
}

TEST(Slices, TwoSlicesOfOneNodeAreReadFromTheWhole) {
  const Tensor x = placeholder({4, 16}, f32, "x");
  const Tensor y = linear(x, 16);
  std::vector<Tensor> outputs;
  for (int64_t r = 0; r < 3; ++r)
    outputs.push_back(
        ops::softmax(compute({16}, [&](Axis j) { return y(Expr(r), j) + y(Expr(r + 1), j); }), 0));
  EXPECT_TRUE(Network(outputs).places().empty());
  EXPECT_EQ(wrong_network(outputs), "");
}

TEST(Slices, ManyPartsAreStackedInPlace) {
  const Tensor x = placeholder({1, 16}, f32, "x");
  std::vector<Tensor> parts{ops::softmax(x, -1)};
  while (parts.size() < 20) parts.push_back(ops::softmax(linear(parts.back(), 16), -1));
  const std::vector<Tensor> outputs{
      ops::relu(linear(ops::reshape(ops::stack(parts, 0), {20, 16}), 4))};
  const Network network(outputs);
  EXPECT_EQ(network.places().size(), 20U) << network.to_text();
  EXPECT_EQ(wrong_network(outputs), "");
}

TEST(Slices, MemoryIsNotGivenToOthersWhileASliceIsRead) {
  const std::vector<Tensor> outputs = layers(7, 4, 8);
  const Network limited(outputs, Target::host(), {}, parse_passes("memory=1G"));
  const std::vector<Tensor> args = args_of(outputs);
  std::vector<NDArray> arrays = arrays_for(args);
  limited.build(args).call(arrays);
  EXPECT_EQ(differs_from_interpreter(outputs, args, arrays), "");
}

}  // namespace
}  // namespace heddle::testing
