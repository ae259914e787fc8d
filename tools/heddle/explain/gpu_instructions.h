// The instructions of matrix units and of TMA in the kernels of a GPU program.
#pragma once

#include <string>
#include <vector>

#include "heddle/lower/gpu_program.h"

namespace heddle::cli {

/// An instruction in the text of a kernel.
struct UsedInstruction {
  std::string kernel;
  std::string instruction;  ///< its kind and shape: "wgmma 64x128x16 f32 += f16 * f16"
  int count = 0;            ///< statements; loops are counted once
};

/// In the order in which they occur.
std::vector<UsedInstruction> used_instructions(const GpuProgram& program);

}  // namespace heddle::cli
