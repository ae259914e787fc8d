// The helper functions for products by mma.sync, one for each form of mma_instruction().
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/instruction/instruction.h"

namespace heddle::cuda {

/// PTX's name of the type of an operand of mma and wgmma.
std::string_view ptx_name(DataType t);

/// The definition of the function of this name, such as mma_m16n8k32_i8_u8_i32, with $ for the
/// inline specifiers. nullopt where no such function has this name.
std::optional<std::string> mma_text(std::string_view name);

std::string mma_name(const InstructionForm& form);
std::vector<std::string> mma_names();

}  // namespace heddle::cuda
