#include "runtime/machine/cpu_features.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "heddle/support/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace heddle::internal {
namespace {

constexpr unsigned kExtended = 0x80000001;  // a leaf of CPUID

#if defined(__x86_64__)
struct CpuidLeaf {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

// The leaves of CPUID that are looked at, each read once: in a virtual machine the instruction takes
// microseconds, because the host answers it.
struct CpuidLeaves {
  CpuidLeaf first, seven, seven_one, extended;

  CpuidLeaves() {
    const unsigned most = __get_cpuid_max(0, nullptr);
    if (most >= 1) read(1, 0, first);
    if (most >= 7) read(7, 0, seven);
    if (most >= 7 && seven.a >= 1) read(7, 1, seven_one);
    if (__get_cpuid_max(0x80000000, nullptr) >= kExtended) read(kExtended, 0, extended);
  }

 private:
  static void read(unsigned leaf, unsigned part, CpuidLeaf& to) {
    __cpuid_count(leaf, part, to.a, to.b, to.c, to.d);
  }
};

const CpuidLeaves& cpuid_leaves() {
  static const CpuidLeaves leaves;
  return leaves;
}

// Linux lets a process use the tile registers only after it has asked for them. One request holds
// for all threads and for forked children (Documentation/arch/x86/xstate.rst).
bool may_use_tiles() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILE_DATA
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// Adds the AMX features that the CPU has and the operating system grants.
void probe_tiles(std::vector<std::string>* found) {
  constexpr unsigned kBf16 = 1U << 22, kTiles = 1U << 24, kInt8 = 1U << 25;  // leaf 7, edx
  constexpr unsigned kFp16 = 1U << 21;                                       // leaf 7.1, eax
  const CpuidLeaves& leaves = cpuid_leaves();
  if ((leaves.seven.d & kTiles) == 0 || !may_use_tiles()) return;
  found->push_back("amx-tile");
  if ((leaves.seven.d & kBf16) != 0) found->push_back("amx-bf16");
  if ((leaves.seven.d & kInt8) != 0) found->push_back("amx-int8");
  if ((leaves.seven_one.a & kFp16) != 0) found->push_back("amx-fp16");
}
#endif

std::vector<std::string> probe_features() {
  std::vector<std::string> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  // The builtin also asks whether the operating system saves the registers.
#define HEDDLE_PROBE(name) \
  if (__builtin_cpu_supports(name)) found.push_back(name)
  HEDDLE_PROBE("sse4.2");
  HEDDLE_PROBE("avx");
  HEDDLE_PROBE("avx2");
  HEDDLE_PROBE("fma");
  HEDDLE_PROBE("f16c");
  HEDDLE_PROBE("avx512f");
  HEDDLE_PROBE("avx512bw");
  HEDDLE_PROBE("avx512dq");
  HEDDLE_PROBE("avx512vl");
  HEDDLE_PROBE("avx512vnni");
  HEDDLE_PROBE("avx512bf16");
#undef HEDDLE_PROBE
  // The builtin of some supported compilers does not know these.
  const CpuidLeaves& leaves = cpuid_leaves();
  if ((leaves.seven.d & (1U << 23)) != 0 && __builtin_cpu_supports("avx512f"))
    found.push_back("avx512fp16");
  if (__builtin_cpu_supports("avx2")) {
    if ((leaves.seven_one.a & (1U << 4)) != 0) found.push_back("avxvnni");
    if ((leaves.seven_one.d & (1U << 4)) != 0) found.push_back("avxvnniint8");
  }
  probe_tiles(&found);
#elif defined(__aarch64__)
  found.push_back("neon");
#ifdef __linux__
  const unsigned long first = ::getauxval(AT_HWCAP), second = ::getauxval(AT_HWCAP2);
  // Bit numbers of the kernel's interface; older headers lack the names of some.
  if ((first >> 20 & 1) != 0) found.push_back("dotprod");
  if ((first >> 10 & 1) != 0) found.push_back("fullfp16");
  if ((second >> 14 & 1) != 0) found.push_back("bf16");
  if ((second >> 13 & 1) != 0) found.push_back("i8mm");
  if ((first >> 22 & 1) != 0) found.push_back("sve");
#elif defined(__APPLE__)
  found.push_back("dotprod");
  found.push_back("fullfp16");
#endif
#endif
  return found;
}

// A feature, and the register and bit by which CPUID tells it.
struct ImpliedFeature {
  std::string_view name;
  unsigned leaf = 0;
  char reg = 'a';
  int bit = 0;
};

constexpr ImpliedFeature kImplied[] = {
    {"popcnt", 1, 'c', 23},
    {"movbe", 1, 'c', 22},
    {"lzcnt", kExtended, 'c', 5},
    {"bmi", 7, 'b', 3},
    {"bmi2", 7, 'b', 8},
    {"avx512cd", 7, 'b', 28},
    {"avx512ifma", 7, 'b', 21},
    {"avx512vbmi", 7, 'c', 1},
    {"avx512vbmi2", 7, 'c', 6},
    {"avx512bitalg", 7, 'c', 12},
    {"avx512vpopcntdq", 7, 'c', 14},
    {"gfni", 7, 'c', 8},
};

constexpr auto kImpliedNames = [] {
  std::array<std::string_view, std::size(kImplied)> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kImplied[i].name;
  return names;
}();

// Whether the operating system saves the registers follows from host_features(), which a kernel for
// AVX-512 needs as well.
bool has_implied([[maybe_unused]] std::string_view name) {
#if defined(__x86_64__)
  for (const ImpliedFeature& feature : kImplied) {
    if (feature.name != name) continue;
    const CpuidLeaves& leaves = cpuid_leaves();
    const CpuidLeaf& leaf = feature.leaf == 1   ? leaves.first
                            : feature.leaf == 7 ? leaves.seven
                                                : leaves.extended;
    return ((feature.reg == 'b' ? leaf.b : leaf.c) >> feature.bit & 1) != 0;
  }
#endif
  return false;
}

}  // namespace

std::span<const std::string_view> implied_features() { return kImpliedNames; }

const std::vector<std::string>& host_features() {
  static const std::vector<std::string> features = probe_features();
  return features;
}

std::vector<std::string> missing_features(const std::vector<std::string>& needed) {
  const std::vector<std::string>& have = host_features();
  std::vector<std::string> missing;
  for (const std::string& feature : needed) {
    if (std::find(have.begin(), have.end(), feature) == have.end() && !has_implied(feature))
      missing.push_back(feature);
  }
  return missing;
}

void require_features(const std::string& what, const std::string& target,
                      const std::vector<std::string>& needed) {
  std::string list;
  for (const std::string& feature : missing_features(needed))
    list += (list.empty() ? "" : ", ") + feature;
  if (list.empty()) return;
  throw_runtime_error(what + " was compiled for '" + target + "', and this CPU lacks " + list, {},
                      "export it for this CPU, or for an older one such as -mcpu=x86-64-v3");
}

}  // namespace heddle::internal
