// The first step of lowering by itself: what features are extracted from.
#pragma once

#include <string>
#include <vector>

#include "heddle/lower/lower.h"

namespace heddle {

/// `lower` up to its first pass: the program as loop nests, indices still multi-dimensional, loops
/// annotated. Without `with_prepare` what is computed once, from constants, is left out.
LoweredProgram lower_to_nest(const Schedule& schedule, const std::vector<Tensor>& args,
                             const std::string& name, bool with_prepare);

}  // namespace heddle
