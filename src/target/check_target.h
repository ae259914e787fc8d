// Whether a target can be meant at all, before anything is made for it.
#pragma once

#include "heddle/target/target.h"

namespace heddle::internal {

/// Throws a User error for an unknown kind, and where a CPU, a feature or a triple is empty or has
/// characters that no such name has. Whether LLVM knows the CPU is found out when code is
/// generated.
void check_target(const Target& target);

}  // namespace heddle::internal
