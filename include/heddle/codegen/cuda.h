// CUDA C++ text for lowered GPU programs.
#pragma once

#include <string>

#include "heddle/lower/gpu_program.h"
#include "heddle/support/disk_cache.h"

namespace heddle {

/// The kernels of `program`, those of `prepare` first, as one translation unit of CUDA C++ for
/// NVRTC. It includes no header; the helper functions that it uses come first. Each kernel is an
/// `extern "C"` function whose name is an identifier and unique. The same program gives the same
/// text.
///
/// A launch passes one pointer for each of `GpuKernel::args`, in order, and
/// `GpuKernel::shared_bytes` of dynamic shared memory. The pointers are aligned to 16 bytes and do
/// not overlap.
///
/// Precision: f16 and bf16 are computed in f32 and rounded after every operation. f32 division and
/// square roots have errors of up to 2 ulp, except where the result is rounded to an integer, and
/// products may be fused into sums. All other functions are CUDA's accurate ones (at most 4 ulp).
/// sin, cos and tan use a few bytes of stack for the reduction of very large arguments.
///
/// Throws an internal Error for a program that is not in the thread form (lower/gpu_program.h).
std::string emit_cuda(const GpuProgram& program);

/// The cache of machine code from NVRTC: the folder HEDDLE_CUBIN_CACHE ("off": no cache), or else
/// the folder "cubin" (support/disk_cache.h). It holds at most HEDDLE_CUBIN_CACHE_MB (default 512
/// MiB).
DiskCache disk_cubin_cache();

}  // namespace heddle
