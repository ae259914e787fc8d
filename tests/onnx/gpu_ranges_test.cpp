// Networks over ranges for GPUs: a fake driver replaces NVIDIA's, and the emulator runs the kernels
// with the sizes that they are launched with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "driver/program_args.h"
#include "emulated_kernels.h"
#include "heddle/dsl/arrays.h"
#include "heddle/support/error.h"
#include "network/cut/sizes/family_tasks.h"
#include "network/cut/task_schedules.h"
#include "onnx/network_at_sizes.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class GpuRanges : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  }

  /// The kernels of the network for this GPU, which the fake driver knows.
  NetworkKernel built(const Network& network, const std::vector<Tensor>& args,
                      const std::vector<Schedule>& schedules) {
    const auto variants = network::task_variants(network, schedules);
    for (size_t t = 0; t < variants.size(); ++t) {
      for (size_t v = 0; v < variants[t].schedules.size(); ++v) {
        const Schedule& s = variants[t].schedules[v];
        const std::string name = "network_task" + std::to_string(t + v);
        emulate_kernels(driver_, driver::lower_for_gpu(s, network::task_args(s), {.name = name}));
      }
    }
    return network.build(args, schedules);
  }
  NetworkKernel built(const Network& network, const std::vector<Tensor>& args) {
    return built(network, args, network.static_schedules());
  }

  Target gpu_ = Target::parse("cuda -gpu=h200");
  cuda::FakeDriver driver_;
  const cuda::ScopedDriver scope_{&driver_.api()};
};

TEST_F(GpuRanges, AttentionIsRightAtEveryLength) {
  const Dim seq = dim("seq", 1, 20);
  const Imported m(attention_model(), {.dims = {{"batch", 2}}, .ranges = {{"seq", seq}}});
  const Network net(m.model.outputs, gpu_);
  for (const PassApplication& a : net.passes())
    EXPECT_THAT(a.text, Not(HasSubstr("left out"))) << a.pass;
  EXPECT_GT(net.tasks().size(), net.nodes().size()) << "several kernels for a node";
  const NetworkKernel kernel = built(net, m.model.args());
  for (const int64_t n : {20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 1})
    EXPECT_EQ(wrong_at(kernel, m.model.outputs, m.model.args(), {{seq, n}}), "") << n;
}

TEST_F(GpuRanges, TwoDimensionsAreRightTogether) {
  const Dim batch = dim("batch", 1, 3), seq = dim("seq", 1, 9);
  const Imported m(attention_model(), {.ranges = {{"batch", batch}, {"seq", seq}}});
  const NetworkKernel kernel = built(Network(m.model.outputs, gpu_), m.model.args());
  for (int64_t b = 1; b <= 3; ++b) {
    for (const int64_t n : {9, 1, 4, 8})
      EXPECT_EQ(wrong_at(kernel, m.model.outputs, m.model.args(), {{batch, b}, {seq, n}}), "")
          << b << " " << n;
  }
}

// Operands of half precision that are computed in a product over a range.
TEST_F(GpuRanges, ProductsOfComputedOperandsAreRight) {
  const Dim rows = dim("rows", 1, 64);
  const auto input = [&](const char* name) { return placeholder({2, rows, 64}, f16, name); };
  const Tensor q = input("q"), k = input("k");
  const auto halved = [&](const Tensor& t) {
    return compute(
        t.shape(), [&](Axis h, Axis i, Axis e) { return t(h, i, e) * make_const(f16, 0.5); },
        "half");
  };
  const Tensor a = halved(q), b = halved(k);
  const Axis e = reduce_axis(64, "e");
  const Tensor scores = compute({2, rows, rows}, [&](Axis h, Axis i, Axis j) {
    return sum(cast(f32, a(h, i, e)) * cast(f32, b(h, j, e)), e);
  });
  const std::vector<Tensor> outputs{scores}, args{q, k, scores};
  const Network net(outputs, gpu_, {}, parse_passes("-factors_after_products"));
  const NetworkKernel kernel = built(net, args);
  for (const int64_t n : {64, 1, 7, 33}) {
    EXPECT_EQ(wrong_at(kernel, outputs, args, {{rows, n}}), "") << n;
  }
}

TEST_F(GpuRanges, ImagesAreRightInEveryBatch) {
  const Dim batch = dim("batch", 1, 6);
  const Imported m(images_model(), {.ranges = {{"batch", batch}}});
  const Network net(m.model.outputs, gpu_);
  for (const bool naive : {false, true}) {
    const NetworkKernel kernel =
        built(net, m.model.args(), naive ? net.naive_schedules() : net.static_schedules());
    for (int64_t b = 1; b <= 6; ++b)
      EXPECT_EQ(wrong_at(kernel, m.model.outputs, m.model.args(), {{batch, b}}), "") << b << naive;
  }
}

/// Two products of half precision on `rows` rows.
struct Layers {
  explicit Layers(const Dim& rows) : rows(rows) {
    hidden = times(x, w);
    out = times(hidden, v);
  }
  Tensor times(const Tensor& a, const Tensor& b) const {
    const Axis k = reduce_axis(b.extent(0), "k");
    return compute({rows, b.extent(1)}, [&](Axis i, Axis j) {
      return cast(f16, sum(cast(f32, a(i, k)) * cast(f32, b(k, j)), k));
    });
  }
  std::vector<Tensor> args() const { return {x, out}; }

  Dim rows;
  Tensor x = placeholder({rows, 32}, f16, "x");
  Tensor w = constant(NDArray::random({32, 64}, f16, 1), "w");
  Tensor v = constant(NDArray::random({64, 24}, f16, 2), "v");
  Tensor hidden, out;
};

/// The number of blocks of the launches since `first`.
int64_t blocks_since(const cuda::FakeDriver& driver, size_t first) {
  int64_t blocks = 0;
  for (size_t i = first; i < driver.launches.size(); ++i)
    blocks += std::accumulate(driver.launches[i].grid.begin(), driver.launches[i].grid.end(),
                              int64_t{1}, std::multiplies<>());
  return blocks;
}

TEST_F(GpuRanges, LaunchesHaveTheBlocksOfTheSize) {
  const Dim rows = dim("rows", 1, 700);
  const Layers net(rows);
  const NetworkKernel kernel = built(Network({net.out}, gpu_), net.args());
  int64_t before = 0;
  for (const int64_t n : {1, 65, 700}) {
    const size_t first = driver_.launches.size();
    const NDArray x = NDArray::random({n, 32}, f16, 5), out = NDArray::zeros({n, 24}, f16);
    kernel(x, out);
    const Instance here = at_sizes({net.out}, {{rows, n}});
    const NDArray want = interpret(here.outputs, {{here.of(net.x), x}})[0];
    EXPECT_TRUE(allclose(out, want, 1e-2, 1e-2)) << n;
    EXPECT_GT(blocks_since(driver_, first), before) << n;
    before = blocks_since(driver_, first);
  }
}

TEST_F(GpuRanges, SizesHaveGraphsOfTheirOwn) {
  const Dim rows = dim("rows", 1, 100);
  const Layers net(rows);
  const NetworkKernel kernel = built(Network({net.out}, gpu_), net.args());
  const auto call = [&](int64_t n) {
    EXPECT_EQ(driver_.failing.size(), 0U);
    const NDArray x = NDArray::random({n, 32}, f16, static_cast<uint64_t>(n)),
                  out = NDArray::zeros({n, 24}, f16);
    kernel(x, out);
    const Instance here = at_sizes({net.out}, {{rows, n}});
    return allclose(out, interpret(here.outputs, {{here.of(net.x), x}})[0], 1e-2, 1e-2);
  };
  // The largest first: later ones need no more room.
  for (const int64_t n : {100, 3, 64, 7}) EXPECT_TRUE(call(n)) << n;
  // Of sizes that come once those with the same kernels share a graph.
  const int shared = driver_.calls["graph_launch"], graphs = driver_.calls["graph_instantiate"];
  EXPECT_GT(shared, 0);
  EXPECT_LT(graphs, 4);
  for (int round = 0; round < 2; ++round)
    for (const int64_t n : {3, 64, 7, 100}) EXPECT_TRUE(call(n)) << n;
  EXPECT_EQ(driver_.calls["graph_launch"], shared + 8);
  EXPECT_EQ(driver_.calls["graph_instantiate"], graphs + 4);
  // Many sizes: the graphs of the oldest ones are given up.
  for (int round = 0; round < 2; ++round)
    for (int64_t n = 1; n <= 12; ++n) EXPECT_TRUE(call(n)) << n;
  for (int round = 0; round < 2; ++round)
    for (int64_t n = 21; n <= 32; ++n) EXPECT_TRUE(call(n)) << n;
  // Each is what was recorded and what is launched.
  EXPECT_LE(driver_.graphs, 2 * (16 + 8));
}

TEST_F(GpuRanges, ArraysOnTheGpuAreUsedAsTheyAre) {
  const Dim rows = dim("rows", 1, 50);
  const Layers net(rows);
  const NetworkKernel kernel = built(Network({net.out}, gpu_), net.args());
  // Larger sizes in the same memory: the address alone does not name the graph.
  const NDArray room = NDArray::random({50, 32}, f16, 5).to_device(Device::cuda());
  const NDArray made = NDArray::zeros({50, 24}, f16).to_device(Device::cuda());
  int once = 0;  // launches of calls whose sizes had not come before
  for (int round = 0; round < 3; ++round) {
    for (const int64_t n : {17, 50, 1}) {
      const NDArray x = NDArray::wrap(room.data(), {n, 32}, f16, Device::cuda()),
                    out = NDArray::wrap(made.data(), {n, 24}, f16, Device::cuda());
      kernel(x, out);
      const Instance here = at_sizes({net.out}, {{rows, n}});
      const NDArray want = interpret(here.outputs, {{here.of(net.x), x.to_host()}})[0];
      EXPECT_TRUE(allclose(out.to_host(), want, 1e-2, 1e-2)) << n;
    }
    if (round == 0) once = driver_.calls["graph_launch"];
  }
  EXPECT_EQ(driver_.calls["graph_launch"], once + 6);
}

TEST_F(GpuRanges, WrongSizesAreNamedBeforeAnythingIsCopied) {
  const Imported m(images_model(), {.ranges = {{"batch", dim("batch", 1, 4)}}});
  const NetworkKernel kernel = built(Network(m.model.outputs, gpu_), m.model.args());
  const auto error = [&](int64_t in, int64_t out) -> std::string {
    try {
      kernel(NDArray::zeros({in, 3, 6, 6}, f32), NDArray::zeros({out, 5}, f32));
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing was thrown";
  };
  EXPECT_THAT(error(5, 5), HasSubstr("1 to 4"));
  EXPECT_THAT(error(3, 2), HasSubstr("which is batch"));
  EXPECT_EQ(driver_.calls["memcpy_htod_async"], 0);
  EXPECT_EQ(error(4, 4), "nothing was thrown");
}

}  // namespace
}  // namespace heddle::testing
