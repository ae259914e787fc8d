// Target: what code generation and the templates know of a machine. A plain value.
//
//   Target here = Target::host();                                      // measured on this machine
//   Target there = Target::parse("llvm -mcpu=skylake-avx512 -threads=16");
//   Target two_cores = Target::parse("llvm -mcpu=native -threads=2");  // host, with one thing
//   changed
//
// Text form: `<kind> [-mcpu=name] [-mattr=+a,-b] [-mtriple=triple] [-threads=n] [-vector=bytes]
// [-registers=n] [-fma=n] [-l1d=bytes] [-l2=bytes] [-l3=bytes]`; sizes may end in K or M.
// What the text leaves out comes from a table of CPUs. to_string(t) names everything that differs
// from that table, so that Target::parse(to_string(t)) == t.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

struct Target {
  std::string kind = "llvm";
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

  bool operator==(const Target&) const = default;

  /// The machine this runs on; probed once. cores follows the process's affinity mask.
  static const Target& host();

  /// Throws a User error that says which part is wrong and what would be right.
  static Target parse(std::string_view text);

  /// Can kernels for this target run on this machine?
  bool runs_here() const;

  /// Lanes of a full vector of elements of this many bytes.
  int vector_lanes(int element_bytes) const {
    return element_bytes <= vector_bytes ? vector_bytes / element_bytes : 1;
  }
  bool is_x86() const;
  bool is_aarch64() const;
  /// Is a feature on, by its LLVM name ("avx512bf16", "dotprod")? From the table and `features`.
  bool has(std::string_view feature) const;
};

std::string to_string(const Target& target);

/// The names that -mcpu= knows, with "native" first.
std::vector<std::string> known_cpus();

}  // namespace heddle
