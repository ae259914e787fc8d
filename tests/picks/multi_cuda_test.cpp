// Multi-kernels of a GPU, on a driver that is faked: timed by its events, on its own copies.
#include "heddle/runtime/cuda.h"
#include "picks/picks_testing.h"
#include "runtime/cuda/cuda_program.h"
#include "runtime/cuda/fake_driver.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kN = 8;

class MultiCuda : public ::testing::Test {
 protected:
  // y = 2 x in as many launches as the variant has.
  MultiCuda() {
    driver_.kernels["twice"] = {2, [](std::vector<void*> p) {
                                  for (int i = 0; i < kN; ++i) {
                                    static_cast<float*>(p[1])[i] = 2 * static_cast<float*>(p[0])[i];
                                  }
                                }};
  }

  static KernelVariant variant(const std::string& name, int launches) {
    KernelVariant v;
    v.name = name;
    v.args = {{"x", f32, {kN}, false, false, false, 16}, {"y", f32, {kN}, true, false, false, 16}};
    v.compile = [=, args = v.args] {
      auto program = std::make_shared<cuda::Program>();
      program->arch = "sm_90a";
      program->cubin = "a cubin";
      for (int i = 0; i < launches; ++i) {
        program->launches.push_back({"twice", {1, 1, 1}, {32, 1, 1}, 0, 1, {0, 1}});
      }
      KernelCode code;
      code.name = "double";
      code.args = args;
      code.cuda = program;
      return Kernel(std::move(code));
    };
    return v;
  }

  static MultiKernel make(PickOptions o = {}) {
    o.store = nullptr;
    return MultiKernel({.name = "double", .target = "cuda test", .on_gpu = true},
                       {variant("three", 3), variant("one", 1), variant("two", 2)}, std::move(o));
  }

  cuda::FakeDriver driver_;
  cuda::ScopedDriver scope_{&driver_.api()};
};

TEST_F(MultiCuda, TheEventsOfTheGpuDecide) {
  const MultiKernel k = make();
  const NDArray x = NDArray::full({kN}, f32, 3).to_device(Device::cuda());
  const NDArray y = NDArray::zeros({kN}, f32, Device::cuda());
  k(x, y);
  EXPECT_EQ(y.to_host().get(5), 6);
  const PickRow row = k.picks()[0];
  EXPECT_EQ(row.picked, "one");
  EXPECT_NEAR(row.speedup_over_static(), 3, 0.01);
  const size_t before = driver_.launches.size();
  k(x, y);
  EXPECT_EQ(driver_.launches.size(), before + 1);
}

TEST_F(MultiCuda, ArraysOfTheCpuAreCopiedForMeasuring) {
  const MultiKernel k = make();
  const NDArray x = NDArray::full({kN}, f32, 3), y = NDArray::zeros({kN}, f32);
  k(x, y);
  EXPECT_EQ(y.get(7), 6);
  EXPECT_EQ(k.picks()[0].picked, "one");
  EXPECT_EQ(k.picks()[0].extra_bytes, 3 * kN * 4);
}

TEST_F(MultiCuda, NothingIsMeasuredInACapture) {
  const MultiKernel k = make();
  const NDArray x = NDArray::full({kN}, f32, 3).to_device(Device::cuda());
  const NDArray y = NDArray::zeros({kN}, f32, Device::cuda());
  // The code is loaded before: that cannot be captured.
  k.kernel("three")(x, y);
  const cuda::Graph graph = cuda::capture([&] { k(x, y); });
  EXPECT_EQ(graph.size(), 3U) << "the static choice";
  EXPECT_TRUE(k.picks().empty()) << "and it is not settled";
  k(x, y);
  EXPECT_EQ(k.picks()[0].picked, "one");
  EXPECT_EQ(cuda::capture([&] { k(x, y); }).size(), 1U);
}

}  // namespace
}  // namespace heddle::testing
