// The distribution of the loop nests of a program over kernels.
#pragma once

#include <string>
#include <vector>

#include "heddle/lower/gpu_program.h"
#include "heddle/lower/lower.h"

namespace heddle::gpu {

/// The kernels of `nests`, in the order in which they run: their bodies (and tails) in the
/// sequential form, with the buffers that those read or write as arguments. Launch shapes and
/// shared memory are not known yet. Temporaries between kernels become workspace.
GpuProgram split_into_kernels(const LoweredProgram& nests, const std::string& name);

/// The buffers among `candidates` that a kernel with this body and tail (may be null) reads or
/// writes.
std::vector<Buffer> used_buffers(const Stmt& body, const Stmt& tail,
                                 const std::vector<Buffer>& candidates);

}  // namespace heddle::gpu
