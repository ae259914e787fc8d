// The CPU features that an exported kernel needs where it runs.
#pragma once

#include <string>
#include <vector>

#include "heddle/target/target.h"

namespace heddle::codegen {

/// The features that the code of emit_llvm for a CPU may use: those of the target, and those that
/// LLVM infers from the name of the CPU (runtime/machine/cpu_features.h, implied_features).
std::vector<std::string> code_features(const Target& target);

}  // namespace heddle::codegen
