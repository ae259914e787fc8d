// The first step of lowering by itself: what features are extracted from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/lower/lower.h"

namespace heddle {

/// What a nest is for.
enum class NestPurpose : uint8_t {
  Lower,  ///< to be lowered further
  Look,   ///< only to be looked at: what is computed once, from constants, is left out, and what is
          ///< read and written is not simplified
};

/// `lower` up to its first pass: the program as loop nests, indices still multi-dimensional, loops
/// annotated.
LoweredProgram lower_to_nest(const Schedule& schedule, const std::vector<Tensor>& args,
                             const std::string& name, NestPurpose purpose);

}  // namespace heddle
