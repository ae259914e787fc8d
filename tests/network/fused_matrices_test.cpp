// Matrices of products that nodes compute where they reduce them: the backward pass of attention has
// no scores in memory.
#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/autodiff/gradient.h"
#include "network/emulated_network.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 2, kRows = 48, kKeys = 64, kDepth = 16;

struct Backward {
  Tensor q, k, v, head;
  ops::AttentionResult forward;
  std::vector<Tensor> gradients;
};

/// Of `heads` heads of keys and values, each of which `group` heads of queries read.
Backward backward(DataType type, const ops::AttentionAttributes& a = {}, int64_t heads = 1,
                  int64_t group = 1) {
  const auto input = [&](int64_t of, int64_t rows, const char* name) {
    return placeholder({kBatch, of, rows, kDepth}, type, name);
  };
  const int64_t queries = heads * group;
  Backward b{input(queries, kRows, "q"),
             input(heads, kKeys, "k"),
             input(heads, kKeys, "v"),
             input(queries, kRows, "head"),
             {},
             {}};
  b.forward = ops::attention(b.q, b.k, b.v, a);
  b.gradients = gradient({b.forward.result}, {b.q, b.k, b.v}, {b.head});
  return b;
}

/// An H200 of few multiprocessors, which few blocks fill.
Target gpu() { return Target::parse("cuda -gpu=h200 -sms=8 -bandwidth=290"); }

/// The elements of the largest result of a node.
int64_t largest_between(const Network& network) {
  int64_t most = 0;
  for (const NetworkNode& n : network.nodes()) {
    for (const Tensor& t : n.outputs) most = std::max(most, t.size());
  }
  return most;
}

/// Runs the network of `outputs` in the emulator, and compares it with the interpreter.
void expect_right(const std::vector<Tensor>& outputs, const Network& network) {
  cuda::FakeDriver driver;
  const cuda::ScopedDriver scope(&driver.api());
  emulate_network(driver, network, gpu());
  const std::vector<Tensor> args = args_of(outputs);
  const std::vector<NDArray> arrays = arrays_for(args);
  network.build(args).call(arrays);
  // Two units in the last place: a factor of a product that is rounded is not rounded before.
  const double tolerance = outputs[0].dtype() == f16 ? 2e-3 : 1.6e-2;
  EXPECT_EQ(differs_from_interpreter(outputs, args, arrays, tolerance), "") << network.to_text();
}

void check(const std::vector<Tensor>& outputs, int64_t heads = 1) {
  const Network network(outputs, gpu());
  EXPECT_LT(largest_between(network), kBatch * heads * kRows * kKeys) << network.to_text();
  expect_right(outputs, network);
}

Tensor mask_of(DataType type) { return placeholder({kRows, kKeys}, type, "mask"); }

TEST(FusedMatrices, TheBackwardPassOfAttentionHasNoScoresInMemory) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  check(backward(f16).gradients);
  check(backward(bf16).gradients);
  check(backward(f16, {.causal = true}).gradients);
  check(backward(f16, {.mask = mask_of(f16), .scale = 0.3}).gradients);
}

TEST(FusedMatrices, WhatRowsDivideByIsComputedOnce) {
  const Backward b = backward(f16);
  const Network network(b.gradients, gpu());
  int64_t nodes = 0;
  for (const NetworkNode& n : network.nodes()) {
    const ComputeDag& dag = network.tasks()[static_cast<size_t>(n.task)].tmpl.dag();
    for (int s = 0; s < dag.size(); ++s) {
      nodes += dag.stage(s).name() == "softmax_scale" && !dag.stage(s).is_placeholder() ? 1 : 0;
    }
  }
  EXPECT_EQ(nodes, 1) << network.to_text();
}

TEST(FusedMatrices, NeitherHasItWhereHeadsOfAGroupReadTheSameKeys) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  check(backward(f16, {}, 2, 2).gradients, 4);
  const Backward b = backward(bf16, {.causal = true}, 2, 3);
  std::vector<Tensor> outputs = b.gradients;
  outputs.push_back(b.forward.result);
  check(outputs, 6);
}

TEST(FusedMatrices, NeitherHasItWithTheForwardPass) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const Backward b = backward(f16, {.causal = true});
  std::vector<Tensor> outputs = b.gradients;
  outputs.push_back(b.forward.result);
  check(outputs);
}

TEST(FusedMatrices, WhatOthersReadIsStored) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const Backward b = backward(f16);
  std::vector<Tensor> outputs = b.gradients;
  outputs.push_back(b.forward.scores);
  const Network network(outputs, gpu());
  expect_right(outputs, network);
}

// Kernels of single products are faster where nothing is computed twice.
TEST(FusedMatrices, TwoProductsInARowAreTwoNodesUnlessAChoiceJoinsThem) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const auto input = [&](const Shape& shape) { return placeholder(shape, f16); };
  const Tensor x = input({2, 64, 16}), w = input({2, 96, 16}), v = input({2, 96, 16});
  const Tensor y = ops::matmul(ops::relu(ops::matmul(x, w, false, true)), v);
  const Network usual({y}, gpu()), joined({y}, gpu(), {}, parse_passes("fuse@matmul:*"));
  EXPECT_EQ(usual.nodes().size(), 2) << usual.to_text();
  EXPECT_EQ(joined.nodes().size(), 1) << joined.to_text();
  expect_right({y}, usual);
  expect_right({y}, joined);
}

/// A CPU whose second cache holds none of the matrices.
Target cpu() { return Target::parse("llvm -mcpu=native -l2=1K"); }

void check_on_cpu(const std::vector<Tensor>& outputs, int64_t heads = 1) {
  const Network network(outputs, cpu(), {}, parse_passes("fuse@matmul:*,fuse@gradient:*"));
  EXPECT_LT(largest_between(network), kBatch * heads * kRows * kKeys) << network.to_text();
  const std::vector<Tensor> args = args_of(outputs);
  const std::vector<NDArray> arrays = arrays_for(args);
  network.build(args).call(arrays);
  EXPECT_EQ(differs_from_interpreter(outputs, args, arrays, 1e-4), "") << network.to_text();
}

TEST(FusedMatrices, OnACpuAChoiceComputesThemInTheirNodes) {
  check_on_cpu(backward(f32).gradients);
  check_on_cpu(backward(f32, {.scale = 0.3, .causal = true}).gradients);
  check_on_cpu(backward(f32, {.mask = mask_of(f32)}).gradients);
  check_on_cpu(backward(f32, {}, 2, 2).gradients, 4);
  check_on_cpu(backward(f32, {.causal = true}, 1, 3).gradients, 3);
}

TEST(FusedMatrices, OneHeadOfKeysServesAllQueries) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  check(backward(f16, {}, 1, 2).gradients, 2);
  check(backward(bf16, {.causal = true}, 1, 3).gradients, 3);
}

// Tiles that TMA loads for warp groups; the gradients of queries, keys and values share a launch.
TEST(FusedMatrices, WarpGroupsShareALaunch) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const auto input = [&](const char* name) { return placeholder({1, 1, 256, 64}, f16, name); };
  const Tensor q = input("q"), k = input("k"), v = input("v"), head = input("head");
  const std::vector<Tensor> outputs =
      gradient({ops::scaled_dot_product_attention(q, k, v)}, {q, k, v}, {head});
  const Network network(outputs, gpu(), {}, parse_passes("fuse@matmul:*,fuse@gradient:*"));
  EXPECT_FALSE(network.shared_launches().empty()) << network.to_text();
  expect_right(outputs, network);
}

// What a call needs of memory grows with the length of the sequence, and not with its square.
TEST(FusedMatrices, LongSequencesHaveNoScoresInMemoryOnACpu) {
  const auto bytes = [](int64_t tokens, const char* passes = "") {
    const auto input = [&](const char* name) { return placeholder({1, 4, tokens, 32}, f32, name); };
    const Tensor q = input("q"), k = input("k"), v = input("v"), head = input("head");
    const std::vector<Tensor> outputs =
        gradient({ops::scaled_dot_product_attention(q, k, v)}, {q, k, v}, {head});
    const Network network(outputs, Target::parse("llvm -mcpu=native -threads=1"), {},
                          parse_passes(passes));
    std::vector<Tensor> args{q, k, v, head};
    args.insert(args.end(), outputs.begin(), outputs.end());
    return network.build(args).workspace_bytes();
  };
  const int64_t some = bytes(4352), twice = bytes(8704);
  EXPECT_LT(some, 4 * 4352 * 4352);
  EXPECT_LE(twice, 3 * some);
  // A limit of memory takes smaller ones out of it.
  EXPECT_GT(bytes(1024), 4 * 1024 * 1024);
  EXPECT_LE(bytes(1024, "memory=8M"), 8 << 20);
}

TEST(FusedMatrices, AChoiceStoresThem) {
  const Backward b = backward(f16);
  const auto largest = [&](const std::string& passes) {
    return largest_between(Network(b.gradients, gpu(), {}, parse_passes(passes)));
  };
  EXPECT_LT(largest(""), kBatch * kRows * kKeys);
  EXPECT_EQ(largest("-fuse@matmul:*"), kBatch * kRows * kKeys);
  const Network network(b.gradients, gpu());
  bool listed = false;
  for (const NetworkChoice& c : network.choices())
    listed |= c.name.starts_with("fuse@matmul") && c.on;
  EXPECT_TRUE(listed);
}

}  // namespace
}  // namespace heddle::testing
