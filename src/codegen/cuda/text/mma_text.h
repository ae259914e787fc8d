// The names of the helper functions for products by mma.sync.
#pragma once

#include <string>
#include <string_view>

#include "heddle/instruction/instruction.h"

namespace heddle::cuda {

/// PTX's name of the type of an operand of mma and wgmma.
std::string_view ptx_name(DataType t);

/// The name of the function for a form of mma_instruction(): mma_m16n8k32_i8_u8_i32.
std::string mma_name(const InstructionForm& form);

}  // namespace heddle::cuda
