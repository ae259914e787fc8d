// The two parts of the text of a program.
#pragma once

#include <string>

#include "codegen/cuda/text/prelude.h"
#include "heddle/lower/gpu_program.h"

namespace heddle::cuda {

/// The kernels alone; `prelude` learns which helper functions they use.
std::string emit_kernels(const GpuProgram& program, Prelude& prelude);

}  // namespace heddle::cuda
