// Targets of kind "cuda": their text, and the GPU of this machine.
#include <algorithm>

#include "heddle/runtime/cuda.h"
#include "heddle/target/target.h"
#include "support/edit_distance.h"
#include "target/cpu_table.h"
#include "target/gpu_table.h"
#include "target/target_text.h"

namespace heddle {
namespace internal {
namespace {

// One number of a GPU, with the option that sets it.
struct Field {
  const char* option;
  int Gpu::* number;
  std::int64_t low;
  std::int64_t high;
  bool is_size = false;
};

constexpr Field kFields[] = {
    {"sms", &Gpu::sms, 1, 4096},
    {"warp", &Gpu::warp_size, 32, 32},
    {"block_threads", &Gpu::threads_per_block, 32, 1024},
    {"sm_threads", &Gpu::threads_per_sm, 32, 4096},
    {"sm_blocks", &Gpu::blocks_per_sm, 1, 256},
    {"registers", &Gpu::registers_per_sm, 1 << 10, 1 << 20},
    {"thread_registers", &Gpu::registers_per_thread, 16, 255},
    {"block_smem", &Gpu::smem_per_block, 1 << 10, 1 << 20, true},
    {"sm_smem", &Gpu::smem_per_sm, 1 << 10, 1 << 20, true},
    {"reserved_smem", &Gpu::smem_reserved, 0, 1 << 16, true},
    {"f32_lanes", &Gpu::f32_lanes, 1, 1024},
    {"clock", &Gpu::clock_mhz, 100, 10000},
    {"bandwidth", &Gpu::bandwidth_gbs, 1, 1000000},
};
constexpr std::int64_t kMostL2 = std::int64_t{1} << 32;

Target target_of(Gpu gpu) {
  Target target;
  target.kind = "cuda";
  target.mcpu.clear();
  target.vector_bytes = 16;  // the widest access of a thread
  target.gpu = std::move(gpu);
  return target;
}

// The part of a device's name that identifies it as one word for an option: "geforce-rtx-5080" of
// "NVIDIA GeForce RTX 5080".
std::string name_of_unknown(std::string_view device_name) {
  constexpr std::string_view kVendor = "NVIDIA ";
  if (device_name.starts_with(kVendor)) device_name.remove_prefix(kVendor.size());
  std::string name;
  for (char c : device_name) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    name += upper ? static_cast<char>(c - 'A' + 'a') : plain ? c : '-';
  }
  return name.empty() ? "unknown" : name;
}

Target target_of(const cuda::DeviceInfo& device) {
  const GpuRow* row = find_gpu_of_device(device.name);
  const std::string arch = arch_of_capability(device.major, device.minor);
  Gpu gpu = row != nullptr && row->arch == arch ? gpu_of(*row)
                                                : gpu_of_arch(name_of_unknown(device.name), arch);
  const bool known = row != nullptr && row->arch == arch;
  gpu.sms = device.sms;
  gpu.threads_per_block = device.threads_per_block;
  gpu.threads_per_sm = device.threads_per_sm;
  gpu.blocks_per_sm = device.blocks_per_sm;
  gpu.registers_per_sm = device.registers_per_sm;
  gpu.smem_per_block = device.smem_per_block_optin;
  gpu.smem_per_sm = device.smem_per_sm;
  gpu.smem_reserved = device.smem_reserved;
  gpu.l2_bytes = device.l2_bytes;
  // The driver reports the clock of the current settings, or 0.
  if (!known && device.clock_khz > 0) gpu.clock_mhz = device.clock_khz / 1000;
  if (!known && device.memory_clock_khz > 0 && device.memory_bus_bits > 0) {
    // Memory transfers data twice per clock cycle.
    gpu.bandwidth_gbs =
        static_cast<int>(2.0 * device.memory_clock_khz * 1e3 * device.memory_bus_bits / 8 / 1e9);
  }
  return target_of(std::move(gpu));
}

}  // namespace

Target parse_cuda(std::string_view text, const std::vector<std::string>& words) {
  std::vector<std::string> names = {"gpu", "arch"};
  for (const Field& field : kFields) names.emplace_back(field.option);
  names.emplace_back("l2");
  const TargetText parsed = parse_options(text, words, names);

  const std::string arch = parsed.value_of("arch", "");
  if (!arch.empty() && !is_arch(arch)) {
    parsed.fail("unknown arch '" + arch + "'",
                "write it as NVRTC does, sm_80 at least: sm_80, sm_86, sm_89, sm_90a, sm_100a");
  }
  // The GPU is read first, whatever the order of the options, because the numbers change what it
  // implies.
  Target target;
  const std::string name = parsed.value_of("gpu", "");
  const GpuRow* row = find_gpu(name);
  if (name == "native" || (name.empty() && arch.empty())) {
    target = Target::cuda();
    if (!arch.empty()) target.gpu.arch = arch;
  } else if (row != nullptr) {
    target = target_of(gpu_of(*row));
    if (!arch.empty()) target.gpu.arch = arch;  // the chip stays the same
  } else if (!arch.empty()) {
    const auto of_arch = std::find_if(gpu_table().begin(), gpu_table().end(),
                                      [&](const GpuRow& r) { return r.arch == arch; });
    const bool known = name.empty() && of_arch != gpu_table().end();
    target = target_of(known ? gpu_of(*of_arch) : gpu_of_arch(name.empty() ? arch : name, arch));
  } else {
    const std::string guess = did_you_mean(name, known_gpus());
    parsed.fail(
        "unknown GPU '" + name + "'",
        guess.empty() ? "known are " + join(known_gpus()) + "; of others, give -arch= too" : guess);
  }
  for (const Field& field : kFields) {
    const std::string value = parsed.value_of(field.option, "");
    if (value.empty()) continue;
    target.gpu.*field.number =
        static_cast<int>(parsed.number(field.option, value, field.is_size, field.low, field.high));
  }
  const std::string l2 = parsed.value_of("l2", "");
  if (!l2.empty()) target.gpu.l2_bytes = parsed.number("l2", l2, true, 0, kMostL2);
  return target;
}

std::string cuda_text(const Target& target) {
  const Gpu& gpu = target.gpu;
  const GpuRow* row = find_gpu(gpu.name);
  const Gpu base = row != nullptr ? gpu_of(*row) : gpu_of_arch(gpu.name, gpu.arch);
  std::string text = "cuda -gpu=" + gpu.name;
  if (row == nullptr || gpu.arch != row->arch) text += " -arch=" + gpu.arch;
  for (const Field& field : kFields) {
    const int value = gpu.*field.number;
    if (value != base.*field.number) text += option_text(field.option, value, field.is_size);
  }
  if (gpu.l2_bytes != base.l2_bytes) text += option_text("l2", gpu.l2_bytes, true);
  return text;
}

bool cuda_runs_here(const Gpu& gpu) {
  for (const cuda::DeviceInfo& device : cuda::devices()) {
    const int here = 10 * device.major + device.minor;
    // Machine code runs on its own compute capability, and on later ones of the same major version
    // unless it may use instructions of one architecture only.
    const bool same_major = gpu.sm() / 10 == device.major && gpu.sm() <= here;
    if (gpu.arch_specific() ? gpu.sm() == here : same_major) return true;
  }
  return false;
}

}  // namespace internal

Target Target::cuda() {
  const std::vector<cuda::DeviceInfo> devices = cuda::devices();
  return devices.empty() ? internal::target_of(internal::gpu_of(*internal::find_gpu("h200")))
                         : internal::target_of(devices[0]);
}

}  // namespace heddle
