// CUDA C++ text to machine code, by NVIDIA's NVRTC, which is looked for at run time: building needs
// nothing of CUDA, compiling no GPU.
//
//   Cubin cubin = compile_cuda(source, "sm_90a");
//   if (cubin.find("k")->spill_stores > 0) ...        // reject this candidate
//   program->cubin = cubin.bytes;
//
// Looked for, first to last: HEDDLE_NVRTC (the library, or its folder; nothing else is tried then),
// the loader's own path, $CUDA_PATH and $CUDA_HOME, /usr/local/cuda, and NVIDIA's Python wheels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heddle::cuda {

/// Counted into the keys of cached machine code: raise it when text of the same meaning is to be
/// compiled anew.
inline constexpr int kCodegenVersion = 1;

/// What ptxas says of one `__global__` function. Bytes are of a thread, but for static_smem.
struct KernelResources {
  std::string kernel;
  int registers = 0;    // of a thread
  int static_smem = 0;  // bytes of a block
  int spill_stores = 0;
  int spill_loads = 0;
  int local_bytes = 0;  // the stack frame: spills, and arrays that are not in registers
  int barriers = 0;
};

struct Cubin {
  std::string bytes;
  std::string arch;
  std::string log;                       // of NVRTC and ptxas
  std::vector<KernelResources> kernels;  // in the order of their names
  /// Of the log, what ptxas says of lost performance (C75xx: serialised wgmma, setmaxnreg ignored).
  std::vector<std::string> warnings;
  double compile_s = 0;  // of the compiler; of a cached one, what it took then
  bool cached = false;   // it came from the disk

  const KernelResources* find(std::string_view kernel) const;
};

/// Compiles for one architecture ("sm_90a"). Further options are NVRTC's ("--maxrregcount=128").
/// Thread-safe; several threads compile at the same time. Looks into the cubin cache first
/// (cubin_cache.h). Throws an Internal error with the lines around the first mistake when NVRTC
/// rejects the text, a User error when it does not know the architecture or an option, and a
/// Runtime error when there is no NVRTC.
Cubin compile_cuda(const std::string& source, const std::string& arch,
                   const std::vector<std::string>& options = {});

/// From now on this process compiles itself, though that spoils CUDA for what is forked from it. By
/// default another process does, as long as this one has not used the GPU: one that builds a kernel
/// can still tune afterwards. It costs a tenth of a second a kernel that is not in the cache.
void compile_cuda_here();

/// Is there an NVRTC? Asks the same places each time, so that a test can change the environment.
bool nvrtc_available();
/// What compile_cuda's Runtime error would say; "" where there is an NVRTC.
std::string nvrtc_missing_reason();
/// 13000 for 13.0; throws where there is none.
int nvrtc_version();
/// The capabilities it compiles for: 80, 86, 90, ...
std::vector<int> nvrtc_archs();

/// The source with numbered lines, `around` of them on each side of `line` (from 1), which is
/// marked.
std::string numbered_lines(const std::string& source, int line, int around = 5);

}  // namespace heddle::cuda
