#include "peers/cpu_features.h"

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace heddle::peers {
namespace {

#if defined(__x86_64__)
CpuFeatures detect() {
  CpuFeatures out;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d)) {
    char vendor[13] = {};
    std::memcpy(vendor, &b, 4);
    std::memcpy(vendor + 4, &d, 4);
    std::memcpy(vendor + 8, &c, 4);
    out.amd = std::strcmp(vendor, "AuthenticAMD") == 0 || std::strcmp(vendor, "HygonGenuine") == 0;
    out.intel = std::strcmp(vendor, "GenuineIntel") == 0;
  }
  if (__get_cpuid(1, &a, &b, &c, &d)) {
    out.family = static_cast<int>((a >> 8) & 0xf);
    if (out.family == 0xf) out.family += static_cast<int>((a >> 20) & 0xff);
  }
  // The compiler's test also reads XCR0, which says whether the system saves the registers.
  __builtin_cpu_init();
  out.avx2_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  out.avx512f = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    out.amx_bf16 = (d >> 22) & 1;
    const unsigned subleaves = a;
    if (subleaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
      out.avx512_bf16 = out.avx512f && ((a >> 5) & 1);
    }
  }
  char brand[49] = {};
  if (__get_cpuid(0x80000000u, &a, &b, &c, &d) && a >= 0x80000004u) {
    for (unsigned leaf = 0; leaf < 3; ++leaf) {
      unsigned words[4] = {};
      __get_cpuid(0x80000002u + leaf, &words[0], &words[1], &words[2], &words[3]);
      std::memcpy(brand + 16 * leaf, words, 16);
    }
    out.brand = brand;
    while (!out.brand.empty() && out.brand.back() == ' ') out.brand.pop_back();
  }
  return out;
}
#else
CpuFeatures detect() { return {}; }
#endif

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

}  // namespace heddle::peers
