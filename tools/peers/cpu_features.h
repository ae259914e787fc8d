// The CPU features that the peers and the ceilings depend on, from CPUID.
#pragma once

#include <string>

namespace heddle::peers {

struct CpuFeatures {
  bool amd = false;
  bool intel = false;
  int family = 0;         // display family: 23 is Zen 1 and 2, 25 is Zen 3 and 4, 26 is Zen 5
  bool avx2_fma = false;  // usable: the operating system saves the registers too
  bool avx512f = false;   // F, BW, DQ and VL, what OpenBLAS's SKYLAKEX kernels ask for
  bool avx512_bf16 = false;
  bool amx_bf16 = false;
  std::string brand;  // "AMD EPYC ..." as the CPU gives it
};

const CpuFeatures& cpu_features();

}  // namespace heddle::peers
