// Networks with loops for GPUs. A fake driver replaces NVIDIA's, and the emulator runs the kernels.
#include "codegen/cuda/nvrtc/nvrtc.h"
#include "network/emulated_network.h"
#include "network/loops_testing.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

class LoopsOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  }
  Target gpu_ = Target::parse("cuda -gpu=h200");
  cuda::FakeDriver driver_;
  const cuda::ScopedDriver scope_{&driver_.api()};
};

TEST_F(LoopsOnGpu, DrawnLayersComputeWhatUnrolledOnesDo) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Rng rng(seed);
    const DrawnLayer layer = draw_layer(rng, 5);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + layer.text);
    const Network network(layer.looped, gpu_, {}, {}, layer.updates);
    emulate_network(driver_, network, gpu_);
    const NetworkKernel kernel = network.build(args_of_loops(layer));
    // As it is, while its launches are captured, and as a graph.
    for (const int calls : {1, 2, 3})
      ASSERT_EQ(wrong_layer(layer, network, kernel, 1, 1e-3, calls), "") << calls;
  }
}

// The two directions of a layer do not depend on each other.
TEST_F(LoopsOnGpu, DirectionsShareLaunches) {
  const Tensor x = placeholder({30, 2, 16}, f32, "x");
  Recurrence loop("both", Expr(30));
  std::vector<Tensor> outputs;
  for (const bool reverse : {false, true})
    outputs.push_back(ops::relu(
        ops::lstm(
            x, {constant_placeholder({64, 16}, f32, "w"), constant_placeholder({64, 16}, f32, "r")},
            {.reverse = reverse, .loop = &loop})
            .all));
  const Network network(outputs, gpu_, {}, parse_passes("horizontal"),
                        Updates({}, {loop.repeat()}));
  const network::NetworkSteps steps(network, gpu_,
                                    network::task_variants(network, network.static_schedules()));
  ASSERT_EQ(steps.nodes().loops.size(), 1U);
  const NetworkLoop& over = steps.nodes().loops[0];
  const size_t nodes = network.loops()[0].end - network.loops()[0].begin;
  EXPECT_EQ(2 * (over.end - over.begin), nodes) << network.to_text();
}

}  // namespace
}  // namespace heddle::testing
