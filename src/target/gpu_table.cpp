#include "target/gpu_table.h"

#include <charconv>
#include <cstdlib>

namespace heddle {
namespace internal {
namespace {

// L2 is the size that the driver reports for the whole chip. Clocks are boost clocks.
constexpr GpuRow kTable[] = {
    // name, word, arch, SMs, MHz, GB/s, MiB of L2
    {"h200", "H200", "sm_90a", 132, 1980, 4800, 60},
    {"h100", "H100", "sm_90a", 132, 1980, 3350, 50},
    {"a100", "A100", "sm_80", 108, 1410, 2039, 40},
    {"a10", "A10", "sm_86", 72, 1695, 600, 6},
    {"rtx3090", "3090", "sm_86", 82, 1695, 936, 6},
    {"l4", "L4", "sm_89", 58, 2040, 300, 48},
    {"rtx4090", "4090", "sm_89", 128, 2520, 1008, 72},
    {"b200", "B200", "sm_100a", 148, 1965, 8000, 126},
};

// Limits by compute capability (CUDA C++ Programming Guide, "Technical Specifications"). The
// largest shared memory of a block is that of an SM less what the driver reserves.
struct Limits {
  int sm = 0;
  int threads_per_sm = 0;
  int blocks_per_sm = 0;
  int smem_per_sm_kib = 0;
  int f32_lanes = 0;
};
constexpr Limits kLimits[] = {
    {80, 2048, 32, 164, 64},   {86, 1536, 16, 100, 128},  {87, 1536, 16, 164, 128},
    {89, 1536, 24, 100, 128},  {90, 2048, 32, 228, 128},  {100, 2048, 32, 228, 128},
    {103, 2048, 32, 228, 128}, {120, 1536, 24, 100, 128}, {121, 1536, 24, 100, 128},
};

int sm_of(std::string_view arch) {
  int sm = 0;
  if (arch.starts_with("sm_")) {
    std::from_chars(arch.data() + 3, arch.data() + arch.size(), sm);
  }
  return sm;
}

// The limits of the newest architecture that is not newer than `sm`. Code for it runs on `sm`.
const Limits& limits_of(int sm) {
  const Limits* best = &kLimits[0];
  for (const Limits& l : kLimits) {
    if (l.sm <= sm) best = &l;
  }
  return *best;
}

bool is_word_at(std::string_view text, std::size_t at, std::size_t length) {
  auto letter = [&](std::size_t i) {
    const char c = text[i];
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  return (at == 0 || !letter(at - 1)) && (at + length == text.size() || !letter(at + length));
}

}  // namespace

std::span<const GpuRow> gpu_table() { return kTable; }

const GpuRow* find_gpu(std::string_view name) {
  for (const GpuRow& row : kTable) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

const GpuRow* find_gpu_of_device(std::string_view device_name) {
  for (const GpuRow& row : kTable) {
    const std::size_t at = device_name.find(row.word);
    if (at != std::string_view::npos && is_word_at(device_name, at, row.word.size())) return &row;
  }
  return nullptr;
}

Gpu gpu_of(const GpuRow& row) {
  Gpu gpu;
  gpu.name = row.name;
  gpu.arch = row.arch;
  gpu.sms = row.sms;
  gpu.clock_mhz = row.clock_mhz;
  gpu.bandwidth_gbs = row.bandwidth_gbs;
  gpu.l2_bytes = std::int64_t{row.l2_mib} << 20;
  const Limits& limits = limits_of(gpu.sm());
  gpu.threads_per_sm = limits.threads_per_sm;
  gpu.blocks_per_sm = limits.blocks_per_sm;
  gpu.smem_per_sm = limits.smem_per_sm_kib << 10;
  gpu.smem_per_block = gpu.smem_per_sm - gpu.smem_reserved;
  gpu.f32_lanes = limits.f32_lanes;
  return gpu;
}

Gpu gpu_of_arch(std::string_view name, std::string_view arch) {
  const int sm = sm_of(arch);
  const GpuRow* nearest = &kTable[0];
  for (const GpuRow& row : kTable) {
    if (std::abs(sm_of(row.arch) - sm) < std::abs(sm_of(nearest->arch) - sm)) nearest = &row;
  }
  GpuRow row = *nearest;
  row.name = name;
  row.arch = arch;
  return gpu_of(row);
}

std::string arch_of_capability(int major, int minor) {
  const int sm = 10 * major + minor;
  return "sm_" + std::to_string(sm) + (sm >= 90 ? "a" : "");
}

bool is_arch(std::string_view arch) {
  const int sm = sm_of(arch);
  const std::string plain = "sm_" + std::to_string(sm);
  return sm >= 80 && sm < 1000 && (arch == plain || (sm >= 90 && arch == plain + "a"));
}

}  // namespace internal

int Gpu::sm() const { return internal::sm_of(arch); }

std::vector<std::string> known_gpus() {
  std::vector<std::string> names = {"native"};
  for (const internal::GpuRow& row : internal::gpu_table()) names.emplace_back(row.name);
  return names;
}

}  // namespace heddle
