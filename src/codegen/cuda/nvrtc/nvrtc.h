// Compiles CUDA C++ text to machine code with NVIDIA's NVRTC, which is loaded at run time. Building
// Heddle needs no part of CUDA, and compiling kernels needs no GPU.
//
//   Cubin cubin = compile_cuda(source, "sm_90a");
//   if (cubin.find("k")->spill_stores > 0) ...        // reject this candidate
//   program->cubin = cubin.bytes;
//
// Searched in this order: HEDDLE_NVRTC (the library, or its folder; no other place is tried then),
// the loader's own path, $CUDA_PATH and $CUDA_HOME, /usr/local/cuda, and NVIDIA's Python wheels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heddle::cuda {

/// A part of the keys of cached machine code. Increase it when equal text must be compiled again.
inline constexpr int kCodegenVersion = 1;

/// The resources of one `__global__` function, from ptxas. Bytes are for each thread, except
/// static_smem.
struct KernelResources {
  std::string kernel;
  int registers = 0;    // registers of a thread
  int static_smem = 0;  // bytes of a block
  int spill_stores = 0;
  int spill_loads = 0;
  int local_bytes = 0;  // the stack frame: spills, and arrays that are not in registers
  int barriers = 0;
};

struct Cubin {
  std::string bytes;
  std::string arch;
  std::string log;                       // messages of NVRTC and ptxas
  std::vector<KernelResources> kernels;  // in the order of their names
  /// The lines of the log in which ptxas reports lost performance (C75xx: serialised wgmma,
  /// setmaxnreg ignored).
  std::vector<std::string> warnings;
  double compile_s = 0;  // seconds of the compiler; for cached code, those of its compilation
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

/// Compiles in this process from now on. Processes that are forked from it afterwards cannot use
/// CUDA. By default another process compiles as long as this one has not used the GPU, so that this
/// process can still fork after it has built a kernel. The default costs a tenth of a second for
/// each kernel that is not in the cache.
void compile_cuda_here();

/// Whether there is an NVRTC. Searches each time, so that a test can change the environment.
bool nvrtc_available();
/// The text of compile_cuda's Runtime error; "" where there is an NVRTC.
std::string nvrtc_missing_reason();
/// The version, 13000 for 13.0. Throws a Runtime error where there is no NVRTC.
int nvrtc_version();

/// The source with numbered lines, `around` of them on each side of `line` (from 1), which is
/// marked.
std::string numbered_lines(const std::string& source, int line, int around = 5);

}  // namespace heddle::cuda
