// The first step of lowering alone. Features are extracted from its result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/lower/lower.h"

namespace heddle::lowering {

/// The purpose of a nest.
enum class NestPurpose : uint8_t {
  Lower,  ///< to be lowered further
  Look,   ///< only to be analysed: stages that depend on constants alone are left out, and accesses
          ///< are not simplified
};

/// Whether stores of every type can leave out lanes without a loss.
bool masks_lanes(const Target& target);

/// `lower` up to its first pass: the program as loop nests, indices still multi-dimensional, loops
/// annotated.
LoweredProgram lower_to_nest(const Schedule& schedule, const std::vector<Tensor>& args,
                             const std::string& name, NestPurpose purpose);

}  // namespace heddle::lowering
