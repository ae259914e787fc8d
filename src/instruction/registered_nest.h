// Nests that are an instruction which a program registered.
//
//   tensorized for l in 0..2 { for j in 0..8 {
//     d[l] = d[l] + abs(i64(a[l*8 + j]) - i64(b[l*8 + j])) } }
//
// The elements of each operand lie side by side in the order of its loops.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "instruction/unify.h"

namespace heddle::instructions {

/// A nest as a registered instruction.
struct RegisteredNest {
  std::shared_ptr<const MachineInstruction> instruction;
  Unified nest;
};

/// The nest of `loop` as `instruction`. If it is not, `why` receives the reason.
std::optional<RegisteredNest> match_registered(
    const For& loop, const std::shared_ptr<const MachineInstruction>& instruction,
    std::string* why);

/// Whether the nest sets elements and reads none, as what an instruction adds to.
bool only_sets(const For& loop);

}  // namespace heddle::instructions
