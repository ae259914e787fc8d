#include <gtest/gtest.h>

#include "heddle/runtime/cuda.h"
#include "heddle/support/error.h"
#include "heddle/target/target.h"
#include "runtime/cuda/fake_driver.h"
#include "target/gpu_table.h"

namespace heddle {
namespace {

using cuda::FakeDriver;
using cuda::ScopedDriver;

std::string error_of(const std::string& text) {
  try {
    Target::parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::User);
    return error.what();
  }
  return "no error";
}

TEST(CudaTarget, NamedGpusComeFromTheTable) {
  const Target h200 = Target::parse("cuda -gpu=h200");
  EXPECT_TRUE(h200.is_cuda());
  EXPECT_EQ(h200.chip(), "h200");
  EXPECT_EQ(h200.gpu.arch, "sm_90a");
  EXPECT_EQ(h200.gpu.sm(), 90);
  EXPECT_EQ(h200.gpu.sms, 132);
  EXPECT_EQ(h200.gpu.smem_per_sm, 228 << 10);
  EXPECT_EQ(h200.gpu.smem_per_block, 227 << 10);
  EXPECT_EQ(h200.gpu.l2_bytes, 60 << 20);
  EXPECT_EQ(h200.gpu.bandwidth_gbs, 4800);
  EXPECT_EQ(h200.vector_lanes(4), 4);
  EXPECT_TRUE(h200.gpu.has_wgmma());
  EXPECT_FALSE(h200.is_x86());
  EXPECT_FALSE(Target::parse("llvm").is_cuda());

  const Gpu a100 = Target::parse("cuda -gpu=a100").gpu;
  EXPECT_EQ(a100.smem_per_block, 163 << 10);
  EXPECT_EQ(a100.f32_lanes, 64);
  EXPECT_TRUE(a100.has_cp_async());
  EXPECT_FALSE(a100.has_clusters());
  const Gpu b200 = Target::parse("cuda -gpu=b200").gpu;
  EXPECT_EQ(b200.sm(), 100);
  EXPECT_TRUE(b200.arch_specific());
  EXPECT_FALSE(b200.has_wgmma());
}

TEST(CudaTarget, EveryKnownGpuRoundTrips) {
  const ScopedDriver none(nullptr);
  for (const std::string& gpu : known_gpus()) {
    const Target plain = Target::parse("cuda -gpu=" + gpu);
    EXPECT_EQ(Target::parse(to_string(plain)), plain) << gpu;
    const Target changed = Target::parse(
        "cuda -gpu=" + gpu +
        " -arch=sm_80 -sms=17 -block_threads=512 -sm_threads=1024 -sm_blocks=8 -registers=32768"
        " -thread_registers=128 -block_smem=90K -sm_smem=99K -reserved_smem=0 -f32_lanes=32"
        " -clock=1000 -bandwidth=123 -l2=7M -warp=32");
    EXPECT_EQ(Target::parse(to_string(changed)), changed) << to_string(changed);
    EXPECT_EQ(changed.gpu.sms, 17);
    EXPECT_EQ(changed.gpu.l2_bytes, 7 << 20);
    EXPECT_EQ(changed.gpu.smem_reserved, 0);
  }
  EXPECT_EQ(to_string(Target::parse("cuda -gpu=a10 -sms=72")), "cuda -gpu=a10");
}

TEST(CudaTarget, AnArchAloneStandsForItsFirstGpu) {
  EXPECT_EQ(Target::parse("cuda -arch=sm_90a"), Target::parse("cuda -gpu=h200"));
  EXPECT_EQ(Target::parse("cuda -arch=sm_89").gpu.name, "l4");
  // One that the table has not got: its limits, and a name of its own.
  const Target orin = Target::parse("cuda -arch=sm_87");
  EXPECT_EQ(orin.gpu.name, "sm_87");
  EXPECT_EQ(orin.gpu.threads_per_sm, 1536);
  EXPECT_EQ(orin.gpu.smem_per_sm, 164 << 10);
  EXPECT_EQ(Target::parse(to_string(orin)), orin) << to_string(orin);
  const Target named = Target::parse("cuda -gpu=geforce-rtx-5080 -arch=sm_120a -sms=84");
  EXPECT_EQ(named.gpu.smem_per_block, 99 << 10);
  EXPECT_EQ(Target::parse(to_string(named)), named) << to_string(named);
}

TEST(CudaTarget, WithoutADriverItIsAnH200) {
  const ScopedDriver none(nullptr);
  EXPECT_EQ(Target::cuda(), Target::parse("cuda -gpu=h200"));
  EXPECT_EQ(Target::parse("cuda"), Target::cuda());
  EXPECT_FALSE(Target::cuda().runs_here());
}

TEST(CudaTarget, TheDeviceIsDetected) {
  FakeDriver fake;
  fake.device.name = "NVIDIA H200";
  fake.device.sms = 114;  // a board with fewer
  const ScopedDriver scope(&fake.api());
  const Target here = Target::cuda();
  EXPECT_EQ(to_string(here), "cuda -gpu=h200 -sms=114");
  EXPECT_EQ(Target::parse("cuda -gpu=native"), here);
  EXPECT_TRUE(here.runs_here());
  EXPECT_EQ(fake.inits, 0) << "CUDA was initialised in this process";
  // Code with an architecture's own instructions runs there alone, other code on later ones, too.
  EXPECT_FALSE(Target::parse("cuda -gpu=b200").runs_here());
  EXPECT_TRUE(Target::parse("cuda -arch=sm_90").runs_here());
  EXPECT_FALSE(Target::parse("cuda -gpu=a100").runs_here());
}

TEST(CudaTarget, AnUnknownDeviceKeepsItsName) {
  FakeDriver fake;
  fake.device.name = "NVIDIA GeForce RTX 5080";
  fake.device.major = 12;
  fake.device.minor = 0;
  fake.device.clock_khz = 2617000;
  fake.device.memory_clock_khz = 15001000;
  fake.device.memory_bus_bits = 256;
  const ScopedDriver scope(&fake.api());
  const Target here = Target::cuda();
  EXPECT_EQ(here.gpu.name, "geforce-rtx-5080");
  EXPECT_EQ(here.gpu.arch, "sm_120a");
  EXPECT_EQ(here.gpu.clock_mhz, 2617);
  EXPECT_EQ(here.gpu.bandwidth_gbs, 960);
  EXPECT_EQ(Target::parse(to_string(here)), here) << to_string(here);
}

TEST(CudaTarget, DevicesAreFoundByWholeWords) {
  EXPECT_EQ(internal::find_gpu_of_device("NVIDIA A100-SXM4-80GB")->name, "a100");
  EXPECT_EQ(internal::find_gpu_of_device("NVIDIA A10")->name, "a10");
  EXPECT_EQ(internal::find_gpu_of_device("NVIDIA GeForce RTX 4090")->name, "rtx4090");
  EXPECT_EQ(internal::find_gpu_of_device("NVIDIA L40S"), nullptr);
  EXPECT_EQ(internal::find_gpu_of_device("NVIDIA H100 80GB HBM3")->name, "h100");
}

TEST(CudaTarget, MistakesAreExplained) {
  EXPECT_EQ(error_of("cuda -gpu=h20"),
            "error: target 'cuda -gpu=h20': unknown GPU 'h20'\n  help: did you mean 'h200'?");
  EXPECT_EQ(error_of("cuda -arch=compute_90"),
            "error: target 'cuda -arch=compute_90': unknown arch 'compute_90'\n"
            "  help: write it as NVRTC does, sm_80 at least: sm_80, sm_86, sm_89, sm_90a, sm_100a");
  for (const char* text :
       {"cuda h200", "cuda -gpu=zzz", "cuda -arch=sm_75", "cuda -arch=sm_80a", "cuda -sms=0",
        "cuda -mcpu=haswell", "cuda -warp=16", "cuda -l2=1T", "cuda -gpu=h200 -gpu=h200", "cudo"}) {
    EXPECT_NE(error_of(text), "no error") << text;
  }
}

}  // namespace
}  // namespace heddle
