// What is known of a GPU by its name or its architecture alone.
#pragma once

#include <span>
#include <string_view>

#include "heddle/target/gpu.h"

namespace heddle::detail {

struct GpuRow {
  std::string_view name;  // of -gpu=
  std::string_view word;  // in the driver's name of the device: "A100" of "NVIDIA A100-SXM4-80GB"
  std::string_view arch;
  int sms = 0;
  int clock_mhz = 0;
  int bandwidth_gbs = 0;
  int l2_mib = 0;
};

/// The first row of an architecture stands for it.
std::span<const GpuRow> gpu_table();
const GpuRow* find_gpu(std::string_view name);
/// By what the driver calls it.
const GpuRow* find_gpu_of_device(std::string_view device_name);

/// A row with the limits of its architecture.
Gpu gpu_of(const GpuRow& row);
/// An unknown GPU of an architecture: the limits are certain, sizes and rates those of the row that
/// is nearest.
Gpu gpu_of_arch(std::string_view name, std::string_view arch);

/// "sm_90a" of (9, 0): with the architecture's own instructions where it has any.
std::string arch_of_capability(int major, int minor);
/// Is it sm_<number>, with an "a" behind it or not, of a GPU that we generate code for?
bool is_arch(std::string_view arch);

}  // namespace heddle::detail
