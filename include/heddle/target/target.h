// Target: what code generation and the templates know of a machine. A plain value.
//
//   Target here = Target::host();                                      // measured on this machine
//   Target there = Target::parse("llvm -mcpu=skylake-avx512 -threads=16");
//   Target two_cores = Target::parse("llvm -mcpu=native -threads=2");  // host, with one thing
//   changed
//   Target gpu = Target::cuda();                                       // the GPU here, or an H200
//   Target other = Target::parse("cuda -gpu=a100");
//
// Text form: `llvm [-mcpu=name] [-mattr=+a,-b] [-mtriple=triple] [-threads=n] [-vector=bytes]
// [-registers=n] [-fma=n] [-l1d=bytes] [-l2=bytes] [-l3=bytes]`; sizes may end in K or M.
// or: `cuda [-gpu=name] [-arch=sm_90a] [-sms=n] [-block_threads=n] [-sm_threads=n] [-sm_blocks=n]
// [-registers=n] [-thread_registers=n] [-block_smem=bytes] [-sm_smem=bytes] [-reserved_smem=bytes]
// [-warp=n] [-f32_lanes=n] [-clock=MHz] [-bandwidth=GB/s] [-l2=bytes]`.
// What the text leaves out comes from a table of CPUs or GPUs. to_string(t) names everything that
// differs from that table, so that Target::parse(to_string(t)) == t.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/target/gpu.h"

namespace heddle {

struct Target {
  std::string kind = "llvm";    // or "cuda": then `gpu` says it all, and mcpu is empty
  std::string mcpu = "x86-64";  // as LLVM spells it
  std::string features;         // as LLVM's -mattr, on top of mcpu: "+avx512bf16,-avx512fp16"
  std::string triple;           // empty: that of the machine Heddle runs on

  int vector_bytes = 16;      // widest SIMD register worth using
  int vector_registers = 16;  // how many of them
  int fma_units = 1;          // full-width multiply-adds that can start in one cycle, per core
  int cores = 1;              // physical, = threads that a kernel uses
  std::int64_t l1d_bytes = 32 << 10;  // per core
  std::int64_t l2_bytes = 256 << 10;  // per core
  std::int64_t l3_bytes = 8 << 20;    // of all cores that share it; 0: none

  Gpu gpu;  // of kind "cuda"

  bool operator==(const Target&) const = default;

  /// The machine this runs on; probed once. cores follows the process's affinity mask.
  static const Target& host();

  /// The first GPU of this machine, or an H200 where there is none. CUDA is not initialised in this
  /// process (a fork must still be able to use it): a child that is gone when this returns asks.
  static Target cuda();

  /// Throws a User error that says which part is wrong and what would be right.
  static Target parse(std::string_view text);

  /// Can kernels for this target run on this machine? For "cuda": is there a driver, and a device
  /// that takes code for gpu.arch?
  bool runs_here() const;

  bool is_cuda() const { return kind == "cuda"; }
  /// The name of the chip: mcpu, or gpu.name.
  const std::string& chip() const { return is_cuda() ? gpu.name : mcpu; }

  /// Lanes of a full vector of elements of this many bytes.
  int vector_lanes(int element_bytes) const {
    return element_bytes <= vector_bytes ? vector_bytes / element_bytes : 1;
  }
  bool is_x86() const;
  bool is_aarch64() const;
  /// Is a feature on, by its LLVM name ("avx512bf16", "dotprod")? From the table and `features`.
  bool has(std::string_view feature) const;
  /// Is there an instruction that adds up products of four pairs of bytes in 32 bits, where those
  /// of the one side and of the other are signed or not? (vpdpbusd, vpdpbssd; sdot, usdot.)
  bool dots_bytes(bool a_signed, bool b_signed) const;
  /// The same for two pairs of bf16 in f32 (vdpbf16ps).
  bool dots_bf16() const;
  /// Is that faster than two multiply-adds of f32?
  bool prefers_bf16_dots() const;
};

std::string to_string(const Target& target);

/// Throws a User error for a kind that there is none of.
void check_kind(const Target& target);

/// The names that -mcpu= knows, with "native" first.
std::vector<std::string> known_cpus();

}  // namespace heddle
