// Why stores that were to become an instruction did not.
#pragma once

#include <string>
#include <vector>

#include "heddle/codegen/llvm.h"

namespace heddle::codegen {

/// For each of expected_instructions(): why the first store that is not recognised is not. Empty where all are, or
/// where that is not known.
std::vector<std::string> why_not_expected(const std::vector<LoweredFunction>& functions,
                                          const Target& target);

}  // namespace heddle::codegen
