// Gpu: the properties of an NVIDIA GPU that code generation and templates use; part of a Target of
// kind "cuda". A plain value. Limits come from the tables of compute capabilities of the CUDA C++
// Programming Guide, rates from data sheets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

/// The properties of a GPU. Sizes are in bytes.
struct Gpu {
  std::string name;  // "h200", "rtx4090"; for a GPU that is not in the table, the name that the
                     // driver gives
  std::string arch;  // as NVRTC spells it: "sm_80", "sm_90a"

  int sms = 0;  // streaming multiprocessors
  int warp_size = 32;
  int threads_per_block = 1024;  // the most threads of a block
  int threads_per_sm = 2048;
  int blocks_per_sm = 32;
  int registers_per_sm = 65536;  // registers of 32 bits
  int registers_per_thread = 255;
  int smem_per_block = 48 << 10;  // bytes a block may ask for; beyond 48 KiB dynamic, with opt-in
  int smem_per_sm = 64 << 10;     // bytes; each resident block takes smem_reserved more
  int smem_reserved = 1 << 10;    // bytes of a block that the driver keeps for itself
  int f32_lanes = 128;            // multiply-adds of f32 that an SM starts in one cycle
  int clock_mhz = 1500;           // boost clock in MHz
  int bandwidth_gbs = 500;        // memory bandwidth, 10^9 bytes per second
  std::int64_t l2_bytes = 4 << 20;

  bool operator==(const Gpu&) const = default;

  /// The compute capability as a number: 90 for "sm_90a", 100 for "sm_100a".
  int sm() const;
  /// Whether the architecture has instructions of its own (the "a" of sm_90a), which no later GPU
  /// runs.
  bool arch_specific() const { return !arch.empty() && arch.back() == 'a'; }
  /// The same architecture without its own instructions: "sm_90" for "sm_90a".
  std::string portable_arch() const { return "sm_" + std::to_string(sm()); }

  bool has_cp_async() const { return sm() >= 80; }
  bool has_clusters() const { return sm() >= 90; }
  /// Whether a kernel may begin before the one before it has ended (griddepcontrol).
  bool has_dependent_launch() const { return sm() >= 90; }
  /// Whether mma.sync multiplies 8-bit floats.
  bool has_float8_products() const { return sm() >= 89; }
  /// Whether the GPU has wgmma and setmaxnreg, which only Hopper has.
  bool has_wgmma() const { return arch == "sm_90a"; }
};

/// The names that -gpu= knows, with "native" first.
std::vector<std::string> known_gpus();

}  // namespace heddle
