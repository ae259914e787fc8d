// Kernels that a GPU refuses to launch are found before they are compiled.
#include "driver/launch_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle::driver {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// What is wrong with a program of one kernel; "" where it can be launched.
std::string wrong(const GpuKernel& kernel, const char* target = "cuda -gpu=h200") {
  GpuProgram p;
  p.main = {kernel};
  p.main[0].name = "k";
  const auto found = beyond_limit(p, Target::parse(target).gpu);
  EXPECT_EQ(found.has_value() && found->help.empty(), false);
  return found ? found->what : "";
}

GpuKernel of_grid(std::array<int64_t, 3> grid) {
  GpuKernel k;
  k.grid = grid;
  return k;
}

TEST(LaunchLimits, ThreadsAndSharedMemoryOfABlock) {
  GpuKernel k;
  EXPECT_EQ(wrong(k), "");
  k.shared_bytes = 1 << 20;
  EXPECT_THAT(wrong(k), StartsWith("too much shared memory: 1048576 bytes a block in kernel 'k'"));
  k.shared_bytes = 0;
  k.block = {1024, 2, 1};
  EXPECT_THAT(wrong(k), StartsWith("too many threads: 2048 a block in kernel 'k', at most 1024"));
}

TEST(LaunchLimits, BlocksOfAGrid) {
  constexpr int64_t kAlongX = (int64_t{1} << 31) - 1, kAlongOthers = 65535;
  EXPECT_EQ(wrong(of_grid({kAlongX, kAlongOthers, kAlongOthers})), "");
  EXPECT_THAT(wrong(of_grid({kAlongX + 1, 1, 1})), HasSubstr("2147483648 x 1 x 1 blocks"));
  EXPECT_THAT(wrong(of_grid({1, kAlongOthers + 1, 1})), HasSubstr("1 x 65536 x 1 blocks"));
  EXPECT_THAT(wrong(of_grid({1, 1, kAlongOthers + 1})), HasSubstr("1 x 1 x 65536 blocks"));
}

TEST(LaunchLimits, ClustersNeedHopper) {
  GpuKernel k = of_grid({8, 1, 1});
  k.cluster = 4;
  EXPECT_EQ(wrong(k), "");
  EXPECT_THAT(wrong(k, "cuda -gpu=a100"), StartsWith("clusters of blocks in kernel 'k'"));
}

TEST(LaunchLimits, KernelsThatPrepareCountToo) {
  GpuProgram p;
  p.prepare = {of_grid({1, 70000, 1})};
  EXPECT_TRUE(beyond_limit(p, Target::parse("cuda -gpu=h200").gpu).has_value());
}

}  // namespace
}  // namespace heddle::driver
