// Target: the properties of a machine that code generation and templates use. A plain value.
//
//   Target here = Target::host();                                // this machine, probed
//   Target two = Target::parse("llvm -mcpu=native -threads=2");  // this machine, two threads
//   Target there = Target::parse("llvm -mcpu=skylake-avx512 -threads=16");
//   Target gpu = Target::cuda();                                 // the GPU of this machine
//   Target other = Target::parse("cuda -gpu=a100");
//
// Text form: `llvm [-mcpu=name] [-mattr=+a,-b] [-mtriple=triple] [-threads=n] [-vector=bytes]
// [-registers=n] [-fma=n] [-l1d=bytes] [-l2=bytes] [-l3=bytes]`; sizes may end in K or M.
//
// Or: `cuda [-gpu=name] [-arch=sm_90a] [-sms=n] [-block_threads=n] [-sm_threads=n] [-sm_blocks=n]
// [-registers=n] [-thread_registers=n] [-block_smem=bytes] [-sm_smem=bytes] [-reserved_smem=bytes]
// [-warp=n] [-f32_lanes=n] [-clock=MHz] [-bandwidth=GB/s] [-l2=bytes]`.
//
// Properties that the text leaves out come from a table of CPUs or GPUs. to_string(t) names all
// properties that differ from that table, so that Target::parse(to_string(t)) == t.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/target/gpu.h"

namespace heddle {

/// The properties of a machine for which code is generated. Sizes are in bytes.
struct Target {
  std::string kind = "llvm";    // or "cuda", where `gpu` has all properties and mcpu is empty
  std::string mcpu = "x86-64";  // as LLVM spells it
  std::string features;         // as LLVM's -mattr, on top of mcpu: "+avx512bf16,-avx512fp16"
  std::string triple;           // empty: that of the machine Heddle runs on

  int vector_bytes = 16;      // widest SIMD register worth using
  int vector_registers = 16;  // number of them
  int fma_units = 1;          // full-width multiply-adds that can start in one cycle, per core
  int cores = 1;              // physical cores, the number of threads that a kernel uses
  std::int64_t l1d_bytes = 32 << 10;  // per core
  std::int64_t l2_bytes = 256 << 10;  // per core
  std::int64_t l3_bytes = 8 << 20;    // shared by several cores; 0: none

  Gpu gpu;  // the GPU of a target of kind "cuda"

  bool operator==(const Target&) const = default;

  /// The machine that this process runs on, probed once. `cores` follows the affinity mask of the
  /// process.
  static const Target& host();

  /// The first GPU of this machine, or an H200 where there is none. A child process asks the driver
  /// and has ended when this returns. CUDA is therefore not initialised in this process, and a fork
  /// of it can still use CUDA.
  static Target cuda();

  /// Reads the text form. Throws a User error that says which part is wrong and what would be
  /// correct.
  static Target parse(std::string_view text);

  /// Whether kernels for this target can run on this machine. For "cuda": whether there are a
  /// driver and a device that can run code for gpu.arch.
  bool runs_here() const;

  bool is_cuda() const { return kind == "cuda"; }
  /// The name of the chip: mcpu, or gpu.name.
  const std::string& chip() const { return is_cuda() ? gpu.name : mcpu; }

  /// The number of elements of `element_bytes` bytes in a full vector.
  int vector_lanes(int element_bytes) const {
    return element_bytes <= vector_bytes ? vector_bytes / element_bytes : 1;
  }
  bool is_x86() const;
  bool is_aarch64() const;
  /// Whether a feature is on, by its LLVM name ("avx512bf16", "dotprod"), from the table and
  /// `features`.
  bool has(std::string_view feature) const;
};

/// The target as text that Target::parse reads.
std::string to_string(const Target& target);

/// Throws a User error where the kind is unknown.
void check_kind(const Target& target);

/// The names that -mcpu= knows, with "native" first.
std::vector<std::string> known_cpus();

}  // namespace heddle
