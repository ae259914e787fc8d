// Object code of whole programs on the disk, found by a hash of its inputs.
#pragma once

#include <string>
#include <vector>

#include "heddle/ir/stmt.h"
#include "heddle/target/target.h"

namespace heddle::codegen {

/// 128 bits in hexadecimal: of the functions (see split_lanes) with the order of their arguments,
/// the properties of the target that code depends on, the level, LLVM's version and this build of
/// Heddle. Names do not count. Empty for a program that has no such key (CanonicalForm::closed).
std::string object_key(const std::vector<LoweredFunction>& functions, const Target& target,
                       int opt_level);

}  // namespace heddle::codegen
