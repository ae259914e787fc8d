// The properties of a GPU that follow from its name or its architecture.
#pragma once

#include <span>
#include <string_view>

#include "heddle/target/gpu.h"

namespace heddle::internal {

struct GpuRow {
  std::string_view name;  // value of -gpu=
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
/// Finds a row by the name that the driver gives.
const GpuRow* find_gpu_of_device(std::string_view device_name);

/// A row with the limits of its architecture.
Gpu gpu_of(const GpuRow& row);
/// The properties of an unknown GPU of an architecture. The limits are certain. Sizes and rates are
/// those of the nearest row.
Gpu gpu_of_arch(std::string_view name, std::string_view arch);

/// The architecture of a compute capability: "sm_90a" of (9, 0), with the architecture-specific
/// instructions where there are any.
std::string arch_of_capability(int major, int minor);
/// Whether it is sm_<number>, with or without an "a", of a GPU that Heddle generates code for.
bool is_arch(std::string_view arch);

}  // namespace heddle::internal
