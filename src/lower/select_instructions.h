// Which instruction each nest becomes that a schedule marks (StageRef::tensorize).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "heddle/ir/simplify.h"
#include "heddle/ir/stmt.h"

namespace heddle::lowering {

/// What is known around a marked nest.
struct Around {
  Ranges ranges;              ///< of the variables of all loops
  std::optional<Var> serial;  ///< the variable of the innermost serial loop
};

/// A way to take a marked nest.
struct InstructionMatch {
  std::string instruction;
  /// What takes the place of the nest: the nest itself, or what is the same. Null where it is not
  /// the instruction; `why` then receives the reason.
  std::function<Stmt(const For&, const Around&, std::string* why)> take;
};

/// tensorized for m { for n { for k { C[m, n] = C[m, n] + A[m, k] * B[k, n] } } }
///   -->  the same, whose outermost loop names its instruction
/// Later passes leave the nest as it is. A nest that names an instruction is proved to be it. Of one that names none, as those of old
/// records, the first that it is of `matches` is taken. Throws a User error, with a reason for each
/// that was tried, where a nest is none.
Stmt select_instructions(const Stmt& s, const std::vector<InstructionMatch>& matches);

/// The nest without its mark.
Stmt plain_loops(const For& nest);

/// The instructions of CPUs: those that programs registered, and products of tiles.
std::vector<InstructionMatch> cpu_instructions();

}  // namespace heddle::lowering
