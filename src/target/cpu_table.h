// The properties of a CPU that follow from its name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/target/target.h"

namespace heddle::internal {

enum class Arch : std::uint8_t { X86, Aarch64, Other };

struct CpuRow {
  std::string_view name;  // LLVM's name
  Arch arch = Arch::Other;
  std::string_view
      features;  // comma-separated, in LLVM's words; those that code generation asks for
  int fma_units = 1;
  int cores = 1;  // cores of a common machine with this CPU
  std::int64_t l1d_bytes = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t l3_bytes = 0;
};

std::span<const CpuRow> cpu_table();
const CpuRow* find_cpu(std::string_view name);

constexpr Arch host_arch() {
#if defined(__x86_64__)
  return Arch::X86;
#elif defined(__aarch64__)
  return Arch::Aarch64;
#else
  return Arch::Other;
#endif
}

struct Vector {
  int bytes = 16;
  int registers = 16;
};

/// The SIMD registers of a set of features.
Vector vector_of(Arch arch, const std::vector<std::string>& features);

std::vector<std::string> split(std::string_view text, char separator);  // no empty pieces

/// The row's features with changes like "+avx512bf16,-fma" applied.
std::vector<std::string> apply_features(std::string_view base, std::string_view changes);

/// The features of a CPU target: those of its `mcpu` with the target's own changes.
std::vector<std::string> features_of(const Target& target);

}  // namespace heddle::internal
