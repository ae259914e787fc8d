// Nodes of networks for GPUs that share launches. A fake driver replaces NVIDIA's, and the emulator
// runs the kernels; it fails where one part of a launch writes to memory that another part
// accesses.
#include "network/cut/horizontal.h"

#include <functional>
#include <set>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/autodiff/gradient.h"
#include "heddle/codegen/cuda.h"
#include "heddle/codegen/emulator.h"
#include "heddle/support/rng.h"
#include "lower/gpu/memory/join_kernels.h"
#include "network/emulated_network.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Target gpu() { return Target::parse("cuda -gpu=h200"); }

Network on_gpu(const std::vector<Tensor>& outputs, const std::string& passes = "") {
  return Network(outputs, gpu(), {},
                 parse_passes("horizontal" + (passes.empty() ? "" : "," + passes)));
}

/// SqueezeNet's fire module.
std::vector<Tensor> fire() {
  const Tensor x = placeholder({1, 16, 9, 9}, f32, "x");
  const Tensor squeezed = ops::relu(ops::conv2d(x, weights({8, 16, 1, 1})));
  const Tensor small = ops::relu(ops::conv2d(squeezed, weights({24, 8, 1, 1})));
  const Tensor large = ops::relu(ops::conv2d(squeezed, weights({32, 8, 3, 3}), {.padding = {1}}));
  return {ops::concat({small, large}, 1)};
}

/// Rows of three tables, as the embeddings of BERT.
std::vector<Tensor> gathers() {
  std::vector<Tensor> out;
  const Tensor words = placeholder({2, 7}, i32, "words");
  for (const int64_t rows : {50, 7, 2}) {
    const Tensor of = compute({2, 7}, [&](Axis i, Axis j) {
      return floormod(words(i, j), make_const(i32, static_cast<double>(rows)));
    });
    out.push_back(ops::gather(weights({rows, 24}, "table"), of, 0));
  }
  return out;
}

class Horizontal : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  }

  /// "" where the network for a GPU computes what the interpreter does, called three times: as it
  /// is, while its launches are captured, and as a graph.
  std::string wrong(const std::vector<Tensor>& outputs, const Network& network, uint64_t seed = 1,
                    double tolerance = 1e-3) {
    emulate_network(driver_, network, gpu());
    const std::vector<Tensor> args = args_of(outputs);
    const NetworkKernel run = network.build(args);
    std::vector<NDArray> arrays = arrays_for(args, seed);
    for (int time = 0; time < 3; ++time) {
      for (size_t i = 0; i < args.size(); ++i) {
        if (!args[i].op()->is_placeholder()) arrays[i].fill(77);
      }
      run.call(arrays);
      const std::string text = differs_from_interpreter(outputs, args, arrays, tolerance);
      if (!text.empty()) return "call " + std::to_string(time) + ": " + text;
    }
    return "";
  }

  cuda::FakeDriver driver_;
  const cuda::ScopedDriver scope_{&driver_.api()};
};

TEST_F(Horizontal, BothConvolutionsOfAFireModuleAreOneLaunch) {
  const std::vector<Tensor> outputs = fire();
  const Network network = on_gpu(outputs);
  const std::vector<PassApplication> shared = network.shared_launches();
  ASSERT_EQ(shared.size(), 1u) << network.to_text();
  EXPECT_EQ(shared[0].pass, "horizontal");
  EXPECT_THAT(shared[0].text, HasSubstr("f32[1,24,9,9] | pad+conv2d"));
  EXPECT_EQ(wrong(outputs, network), "");
  const int launches = driver_.calls["launch_kernel"] + driver_.calls["launch_kernel_ex"];
  const Network apart = on_gpu(outputs, "-horizontal");
  EXPECT_TRUE(apart.shared_launches().empty());
  EXPECT_EQ(wrong(outputs, apart), "");
  EXPECT_GT(driver_.calls["launch_kernel"] + driver_.calls["launch_kernel_ex"], 2 * launches)
      << "a launch more in each call";
}

TEST_F(Horizontal, NodesOfOneTaskShareALaunchWithWeightsOfTheirOwn) {
  const Tensor x = placeholder({4, 24}, f32, "x");
  std::vector<Tensor> outputs;
  for (int n = 0; n < 3; ++n) outputs.push_back(ops::softmax(ops::matmul(x, weights({24, 24}))));
  const Network network = on_gpu(outputs, "-join_products");
  EXPECT_FALSE(network.shared_launches().empty());
  EXPECT_EQ(wrong(outputs, network), "");
}

TEST_F(Horizontal, GathersShareALaunch) {
  const std::vector<Tensor> outputs = gathers();
  const Network network = on_gpu(outputs);
  ASSERT_EQ(network.shared_launches().size(), 1u) << network.to_text();
  EXPECT_EQ(wrong(outputs, network), "");
}

TEST_F(Horizontal, StepsOfBothDirectionsShareLaunchesAndReadSlicesInPlace) {
  const Tensor x = placeholder({3, 1, 16}, f32, "x");
  const auto layer = [&](bool reverse) {
    return ops::lstm(x, {.input = weights({64, 16}), .recurrence = weights({64, 16})},
                     {.reverse = reverse})
        .all;
  };
  const std::vector<Tensor> outputs{ops::relu(ops::concat({layer(false), layer(true)}, 2))};
  const Network network = on_gpu(outputs);
  EXPECT_FALSE(network.places().empty());
  EXPECT_FALSE(network.shared_launches().empty());
  EXPECT_EQ(wrong(outputs, network), "");
}

TEST_F(Horizontal, ANodeThatStaysAloneRunsBeforeTheChainThatLeavesRoom) {
  // The products of the inputs fill the GPU, and the second is listed behind all steps of the first.
  constexpr int64_t kSteps = 5;
  const Tensor x = placeholder({kSteps, 4096, 64}, f32, "x");
  const auto layer = [&](bool reverse) {
    return ops::gru(x, {.input = weights({24, 64}), .recurrence = weights({24, 8})},
                    {.reverse = reverse, .linear_before_reset = true})
        .state;
  };
  const Network network = on_gpu({layer(false), layer(true)}, "-join_products");
  int shared_products = 0;
  for (const PassApplication& a : network.shared_launches())
    shared_products += a.text.find("matmul") != std::string::npos ? 1 : 0;
  EXPECT_GE(shared_products, kSteps - 1) << network.to_text();
}

TEST_F(Horizontal, KernelsThatFillTheGpuStayAlone) {
  const Tensor x = placeholder({1 << 20}, f32, "x");
  const std::vector<Tensor> outputs{ops::exp(x),
                                    ops::sum(ops::reshape(x, {1 << 10, 1 << 10}), {1})};
  EXPECT_TRUE(on_gpu(outputs).shared_launches().empty());
  const Tensor y = placeholder({1 << 10}, f32, "y");
  const std::vector<Tensor> small{ops::exp(y), ops::sum(ops::reshape(y, {1 << 5, 1 << 5}), {1})};
  EXPECT_EQ(on_gpu(small).shared_launches().size(), 1u);
}

// The copies of operands of both gradients, the two products, and what adds up the parts of the second.
TEST_F(Horizontal, BothGradientsOfAConvolutionTakeThreeLaunches) {
  const Tensor x = placeholder({8, 16, 8, 8}, f16, "x"), w = placeholder({16, 16, 3, 3}, f16, "w");
  const Tensor y = ops::conv2d(x, w, {.padding = {1}}), dy = placeholder(y.shape(), f16, "dy");
  const std::vector<Tensor> outputs = gradient({y}, {x, w}, {dy});
  const Network network = on_gpu(outputs);
  ASSERT_EQ(network.shared_launches().size(), 1u) << network.to_text();
  EXPECT_EQ(network.nodes().size(), 2u) << network.to_text();
  const int before = driver_.calls["launch_kernel"] + driver_.calls["launch_kernel_ex"];
  EXPECT_EQ(wrong(outputs, network, 1, 2e-2), "");
  EXPECT_LE(driver_.calls["launch_kernel"] + driver_.calls["launch_kernel_ex"] - before, 2 * 3);
}

// Each convolution copied its filter before its product began.
TEST_F(Horizontal, FiltersThatChangeArePackedByStagesOfTheirOwn) {
  const auto filter = [](const char* name, int64_t out, int64_t in) {
    return placeholder({out, in, 3, 3}, f32, name);
  };
  const Tensor x = placeholder({8, 16, 8, 8}, f16, "x"), w = filter("w", 32, 16),
               v = filter("v", 16, 32);
  const auto conv = [](const Tensor& image, const Tensor& f) {
    return ops::conv2d(image, ops::cast(f, f16), {.padding = {1}});
  };
  const Tensor y = conv(ops::relu(conv(x, w)), v), dy = placeholder(y.shape(), f16, "dy");
  std::vector<Tensor> outputs = gradient({y}, {x, w, v}, {dy});
  outputs.push_back(y);
  const auto packs = [](const Network& n) {
    return std::ranges::count_if(n.nodes(), [&](const NetworkNode& node) {
      return n.tasks()[static_cast<size_t>(node.task)].tmpl.dag().outputs()[0].op()->tag() ==
             "pack";
    });
  };
  const Network network = on_gpu(outputs);
  EXPECT_EQ(packs(network), 4)
      << network.to_text();  // for a convolution and for the gradient of its image
  EXPECT_EQ(packs(on_gpu(outputs, "-horizontal")), 0);
  EXPECT_FALSE(network.shared_launches().empty());
  EXPECT_EQ(wrong(outputs, network, 1, 3e-2), "");
}

TEST_F(Horizontal, NodesMoveForwardOnlyWithinTheMemoryOfACall) {
  std::vector<Tensor> outputs;
  for (int n = 0; n < 6; ++n) {
    const Tensor x = placeholder({64, 64}, f32, "x");
    outputs.push_back(
        ops::matmul(ops::softmax(ops::matmul(x, weights({64, 64}))), weights({64, 8})));
  }
  const int64_t most = 80 << 10;  // of what lies between the nodes of a chain, two chains have that
  const Network free = on_gpu(outputs), limited = on_gpu(outputs, "memory=" + std::to_string(most));
  EXPECT_GT(free.build(args_of(outputs)).workspace_bytes(), most);
  EXPECT_LE(limited.build(args_of(outputs)).workspace_bytes(), most);
  EXPECT_FALSE(limited.shared_launches().empty());
  EXPECT_EQ(wrong(outputs, limited), "");
}

TEST_F(Horizontal, PhasesLieAlongTheChannelsOfTheirReader) {
  const Tensor g = placeholder({2, 12, 16}, f16, "g"), w = placeholder({24, 16}, f16, "w");
  const Axis k = reduce_axis(16);
  const Tensor phases = compute({2, 24, 12}, [&](Axis a, Axis c, Axis y) {
    return sum(cast(f32, g(a, y, k)) * cast(f32, w(c, k)), {k});
  });
  const std::vector<Tensor> outputs{compute({24, 24}, [&](Axis y, Axis c) {
    return max(phases(floormod(y, Expr(2)), c, floordiv(y, Expr(2))), Expr(0.0f));
  })};
  const Network network = on_gpu(outputs);
  EXPECT_TRUE(std::ranges::any_of(network.passes(), [](const PassApplication& p) {
    return p.text.find("stored along") != std::string::npos;
  })) << network.to_text();
  EXPECT_EQ(wrong(outputs, network, 1, 2e-2), "");
}

TEST_F(Horizontal, PartsOfSumsLieInTheArena) {
  const Tensor x = placeholder({2, 1 << 19}, f32, "x");
  const std::vector<Tensor> outputs{ops::sum(x, {1})};
  const Network network = on_gpu(outputs);
  const Schedule schedule = network.static_schedules()[0];
  const GpuProgram alone = driver::lower_for_gpu(schedule, network::task_args(schedule), {});
  ASSERT_FALSE(alone.workspace.empty());
  EXPECT_GT(network.build(args_of(outputs)).workspace_bytes(), 0);
  EXPECT_EQ(wrong(outputs, network), "");
}

// Statistics of channels that are far from 0: of their mean and their variance, one sum waited for the other.
TEST_F(Horizontal, MeanAndVarianceOfColumnsAreSummedInOneLaunch) {
  const Tensor x = placeholder({8, 24, 12, 12}, f32, "x");
  const Tensor far = ops::add(ops::mul(x, ops::full(Shape{}, 0.01)), ops::full(Shape{}, 100));
  const std::vector<int> axes{0, 2, 3};
  const Tensor mean = ops::mean(far, axes, true),
               variance = ops::mul(ops::var(far, axes, true, false), ops::full(Shape{}, 1e4));
  const std::vector<Tensor> outputs{
      ops::mul(ops::sub(far, mean), ops::rsqrt(ops::add(variance, ops::full(Shape{}, 1e-5)))),
      variance};
  const Network network = on_gpu(outputs), before = on_gpu(outputs, "-factors_after_products");
  const auto behind = [](const Network& n) {
    return std::ranges::count_if(n.shared_launches(), [](const PassApplication& p) {
      return p.text.find("mean") != std::string::npos && p.text.find("var") != std::string::npos;
    });
  };
  EXPECT_EQ(behind(network), 1) << network.to_text();
  EXPECT_EQ(behind(before), 0);
  EXPECT_EQ(wrong(outputs, network, 1, 1e-2), "");
}

// A corner that is far from all other elements decides about the variance, but shifts nothing.
TEST_F(Horizontal, AnOutlierInACornerCostsAVarianceNothing) {
  const Tensor x = placeholder({16, 8, 64, 64}, f32, "x");
  const Tensor v = compute({16, 8, 64, 64}, [&](Axis n, Axis c, Axis i, Axis j) {
    return x(n, c, i, j) + select(Expr(n) + i + j == 0, make_const(f32, 1000), make_const(f32, 0));
  });
  const std::vector<int> axes{0, 2, 3};
  const std::vector<Tensor> outputs{ops::mean(v, axes), ops::var(v, axes, false, false)};
  const Network network = on_gpu(outputs);
  EXPECT_TRUE(std::ranges::any_of(network.passes(), [](const PassApplication& p) {
    return p.text.find("in the pass of their means") != std::string::npos;
  }));
  EXPECT_EQ(wrong(outputs, network, 1, 2e-4), "");
}

// p and s could be one stage, and q and t: each would wait for the other.
TEST_F(Horizontal, OutputsThatWaitForEachOtherStayApart) {
  const Tensor x = placeholder({8, 16}, f32, "x"), y = placeholder({8, 16}, f32, "y");
  const Tensor p = ops::relu(x), q = ops::relu(y);
  const auto gate = [](const Tensor& t) { return ops::mean(t, {0}, true); };
  const std::vector<Tensor> outputs{p, q, ops::add(p, gate(q)), ops::mul(q, gate(p))};
  const Network network = on_gpu(outputs);
  EXPECT_EQ(std::ranges::count_if(network.nodes(),
                                  [](const NetworkNode& n) { return n.outputs.size() > 1; }),
            1)
      << network.to_text();
  EXPECT_EQ(wrong(outputs, network), "");
}

TEST_F(Horizontal, NothingIsJoinedOnACpu) {
  EXPECT_TRUE(Network(fire()).shared_launches().empty());
}

TEST_F(Horizontal, PartsAreOnesWithoutAPathBetweenThem) {
  // Two chains of two nodes each, which meet.
  const Tensor x = placeholder({6, 32}, f32, "x");
  const auto chain = [&](int64_t width) {
    const Tensor hidden = ops::softmax(ops::matmul(x, weights({32, width})));
    return ops::softmax(ops::matmul(hidden, weights({width, 32})));
  };
  const std::vector<Tensor> outputs{ops::add(chain(24), chain(40))};
  const Network network = on_gpu(outputs, "-join_products");
  const auto variants = network::task_variants(network, network.static_schedules());
  const network::NetworkSteps steps(network, gpu(), variants);
  std::vector<int> seen;
  for (const std::vector<int>& nodes : steps.nodes().nodes) {
    for (const int n : nodes) {
      for (const Tensor& read : network.nodes()[static_cast<size_t>(n)].inputs) {
        for (size_t p = 0; p < network.nodes().size(); ++p) {
          for (const Tensor& made : network.nodes()[p].outputs) {
            if (!made.same_as(read)) continue;
            EXPECT_THAT(seen, ::testing::Contains(static_cast<int>(p))) << "read by node " << n;
          }
        }
      }
    }
    seen.insert(seen.end(), nodes.begin(), nodes.end());
  }
  EXPECT_EQ(seen.size(), network.nodes().size());
  EXPECT_GT(steps.joined_kernels(), 0u);
  EXPECT_EQ(wrong(outputs, network), "");
}

// ---- sizes ----

/// Rows of two tables, of a number of words that calls give, and as many rows turned.
std::vector<Tensor> sized(const Dim& n) {
  const Tensor words = placeholder({n, 4}, i32, "words"), x = placeholder({n, 24}, f32, "x");
  std::vector<Tensor> out;
  for (const int64_t rows : {50, 7}) {
    const Tensor table = weights({rows, 24}, "table");
    out.push_back(compute({n, 4, 24}, [&](Axis i, Axis j, Axis k) {
      return table(floormod(words(i, j), make_const(i32, static_cast<double>(rows))), k);
    }));
  }
  out.push_back(compute({n, 24}, [&](Axis i, Axis j) { return -x(i, 23 - j); }, "turned"));
  return out;
}

TEST_F(Horizontal, NodesOverSizesShareALaunchThatReadsThem) {
  const Dim n = dim("n", 1, 4096);
  const std::vector<Tensor> outputs = sized(n);
  const Network network = on_gpu(outputs);
  ASSERT_EQ(network.shared_launches().size(), 1u) << network.to_text();
  emulate_network(driver_, network, gpu());
  const std::vector<Tensor> args = args_of(outputs);
  const NetworkKernel run = network.build(args);
  for (const int64_t rows : {1, 2, 3, 70, 1000, 4096, 1}) {
    SCOPED_TRACE(rows);
    std::vector<NDArray> arrays;
    std::vector<TensorValue> inputs;
    const Instance here = at_sizes(outputs, {{n, rows}});
    for (const Tensor& t : here.of(args)) {
      arrays.push_back(t.op()->is_placeholder() ? NDArray::random(t.extents(), t.dtype(), 3)
                                                : NDArray::full(t.extents(), t.dtype(), 77));
      if (t.op()->is_placeholder()) inputs.push_back({t, arrays.back()});
    }
    const int before = driver_.calls["launch_kernel"] + driver_.calls["launch_kernel_ex"];
    run.call(arrays);
    EXPECT_LE(driver_.calls["launch_kernel"] + driver_.calls["launch_kernel_ex"], before + 1);
    const std::vector<NDArray> want = interpret(here.outputs, inputs);
    for (size_t o = 0; o < want.size(); ++o)
      EXPECT_TRUE(allclose(arrays[arrays.size() - want.size() + o], want[o], 0, 0));
  }
}

TEST_F(Horizontal, ThreadsThatShareRowsOfVaryingNumberStayAlone) {
  const Dim n = dim("n", 1, 64);
  const Tensor x = placeholder({n, 700}, f32, "x"), y = placeholder({n, 700}, f32, "y");
  std::vector<Tensor> sums;
  for (const Tensor& t : {x, y}) {
    const Axis k = reduce_axis(700, "k");
    sums.push_back(compute({n}, [&](Axis i) { return sum(t(i, k), k); }));
  }
  const Network network = on_gpu(sums);
  EXPECT_TRUE(network.shared_launches().empty());
}

SizeTree random_tree(Rng& rng, int features, int depth) {
  SizeTree tree(1);
  const std::function<void(size_t, int)> grow = [&](size_t at, int left) {
    if (left == 0 || rng.chance(0.3)) {
      tree[at].yes = static_cast<int>(rng.uniform_int(0, 2));
      return;
    }
    tree[at].feature = static_cast<int>(rng.uniform_int(0, features - 1));
    tree[at].at_most = static_cast<double>(rng.uniform_int(1, 9));
    for (const bool yes : {true, false}) {
      const size_t next = tree.size();
      (yes ? tree[at].yes : tree[at].no) = static_cast<int>(next);
      tree.emplace_back();
      grow(next, left - 1);
    }
  };
  grow(0, depth);
  return tree;
}

TEST(JoinedSizes, EachCombinationIsWhatTheTreesSay) {
  Rng rng(5);
  size_t splits = 0;
  for (int time = 0; time < 200; ++time) {
    std::vector<SizeTree> trees{{}};
    for (int t = 0; t < 3; ++t) trees.push_back(random_tree(rng, 2, 3));
    const std::optional<network::JoinedSizes> joined = network::join_sizes(trees, 1000);
    ASSERT_TRUE(joined);
    std::set<int> used;
    for (int64_t a = 0; a <= 10; ++a) {
      for (int64_t b = 0; b <= 10; ++b) {
        const std::vector<int64_t> sizes{a, b};
        const int at = variant_at(joined->tree, sizes);
        used.insert(at);
        std::vector<int> want{0};
        for (size_t t = 1; t < trees.size(); ++t) want.push_back(variant_at(trees[t], sizes));
        EXPECT_EQ(joined->combinations[static_cast<size_t>(at)], want);
      }
    }
    EXPECT_EQ(used.size(), joined->combinations.size()) << "no combination is for no size";
    if (joined->combinations.size() > 2) {
      ++splits;
      EXPECT_FALSE(network::join_sizes(trees, 2));
    }
  }
  EXPECT_GT(splits, 100u);
}

// ---- programs ----

GpuProgram lowered(const std::vector<Tensor>& outputs) {
  return driver::lower_for_gpu(create_schedule(outputs, gpu()), args_of(outputs), {.name = "k"});
}

TEST_F(Horizontal, BarriersOfSmallerBlocksCountTheirOwnThreads) {
  const Tensor rows = placeholder({4, 700}, f32, "rows"), many = placeholder({8192}, f32, "many");
  GpuProgram parts[] = {lowered({ops::softmax(rows)}), lowered({ops::exp(many)})};
  for (GpuProgram& p : parts) ASSERT_EQ(p.main.size(), 1u);
  const auto threads = [](const GpuKernel& k) { return k.block[0] * k.block[1] * k.block[2]; };
  const int64_t of_rows = threads(parts[0].main[0]), of_many = threads(parts[1].main[0]);
  const GpuProgram joined = gpu::join_programs("both", parts);
  const std::string text = emit_cuda(joined);
  if (of_rows < of_many) {
    EXPECT_THAT(text, HasSubstr("part_sync<" + std::to_string(of_rows) + ">();"));
  }
  EXPECT_THAT(text, HasSubstr("__launch_bounds__(" + std::to_string(std::max(of_rows, of_many))));
  EXPECT_FALSE(cuda::compile_cuda(text, "sm_90a").bytes.empty());
}

TEST_F(Horizontal, AProgramMayBeSeveralParts) {
  const Tensor x = placeholder({8, 100}, f32, "x");
  const Tensor y = ops::softmax(x);
  const GpuProgram one = lowered({y}), parts[] = {one, one};
  const GpuProgram joined = gpu::join_programs("twice", parts);
  ASSERT_EQ(joined.args.size(), 4u);
  EXPECT_FALSE(joined.args[0] == joined.args[2]);
  std::vector<NDArray> arrays;
  for (const uint64_t seed : {1, 2}) {
    arrays.push_back(NDArray::random({8, 100}, f32, seed));
    arrays.push_back(NDArray::zeros({8, 100}, f32));
  }
  for (const uint64_t seed : {0, 1, 2, 3}) {
    emulate(joined, arrays, {.seed = seed});
    for (const size_t i : {0, 2})
      EXPECT_TRUE(allclose(arrays[i + 1], interpret({y}, {{x, arrays[i]}})[0], 1e-5, 1e-6));
  }
  EXPECT_FALSE(cuda::compile_cuda(emit_cuda(joined), "sm_90a").bytes.empty());
}

TEST_F(Horizontal, TheEmulatorFindsPartsThatShareMemory) {
  const Tensor x = placeholder({64}, f32, "x");
  const GpuProgram one = lowered({ops::exp(x)}), parts[] = {one, one};
  const GpuProgram joined = gpu::join_programs("twice", parts);
  const NDArray a = NDArray::random({64}, f32, 1), b = NDArray::zeros({64}, f32),
                c = NDArray::zeros({64}, f32);
  EXPECT_EQ(message_of([&] { emulate(joined, {a, b, a, c}); }), "nothing was thrown");
  EXPECT_THAT(message_of([&] { emulate(joined, {a, b, b, c}); }), HasSubstr("another part"));
  EXPECT_THAT(message_of([&] { emulate(joined, {a, b, a, b}); }), HasSubstr("another part"));
}

// ---- random networks ----

/// Blocks of parallel branches of different lengths, as in an Inception network.
class Drawer {
 public:
  explicit Drawer(Rng& rng) : rng_(rng) {}

  std::vector<Tensor> run() {
    const int64_t size = pick(4, 9);
    Tensor x = placeholder({pick(1, 2), pick(2, 8), size, size}, f32, "x");
    std::vector<Tensor> outputs;
    for (int64_t n = pick(1, 3); n > 0; --n) {
      std::vector<Tensor> ends;
      for (int64_t b = pick(2, 4); b > 0; --b) {
        Tensor y = x;
        for (int64_t l = pick(1, 3); l > 0; --l) y = layer(y);
        ends.push_back(y);
      }
      if (rng_.chance(0.2)) outputs.push_back(ends[0]);
      x = ops::concat(ends, 1);
      if (rng_.chance(0.5)) x = ops::relu(ops::conv2d(x, weights({pick(2, 8), x.extent(1), 1, 1})));
    }
    outputs.push_back(rng_.chance(0.3) ? ops::softmax(ops::flatten(x)) : ops::relu(x));
    return outputs;
  }

 private:
  int64_t pick(int64_t lo, int64_t hi) { return rng_.uniform_int(lo, hi); }
  Tensor layer(const Tensor& x) {
    const int64_t c = x.extent(1), k = pick(1, 12);
    switch (pick(0, 5)) {
      case 0: return ops::max_pool(x, {.kernel = {3}, .stride = {1}, .padding = {1}});
      case 1: return ops::relu(ops::conv2d(x, weights({k, c, 3, 3}), {.padding = {1}}));
      case 2: return ops::softmax(x, 3);
      case 3: return ops::depthwise_conv2d(x, weights({c, 1, 3, 3}), {.padding = {1}});
      default: return ops::relu(ops::conv2d(x, weights({k, c, 1, 1}), {}, weights({k}, "bias")));
    }
  }
  Rng& rng_;
};

TEST_F(Horizontal, RandomBranchesComputeWhatTheInterpreterDoes) {
  size_t joined = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const std::vector<Tensor> outputs = Drawer(rng).run();
    const Network network = on_gpu(outputs, seed % 3 == 0   ? "-concat_in_place"
                                            : seed % 3 == 1 ? "none,horizontal"
                                                            : "");
    joined += network.shared_launches().size();
    EXPECT_EQ(wrong(outputs, network, seed), "") << network.to_text();
    driver_.kernels.clear();
    if (HasFailure()) break;  // the first seed is enough
  }
  EXPECT_GE(joined, 6u);
}

}  // namespace
}  // namespace heddle::testing
