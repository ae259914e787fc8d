// The loop nests of a program as functions of their own, so that a nest that was compiled before is
// not compiled again. The next candidate of a tuner differs in one stage, and a network repeats its
// layers.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "ir/canonical.h"

namespace heddle::codegen {

struct Nest {
  Stmt stmt;           ///< at the root of its function
  CanonicalForm form;  ///< closed and without sizes; its buffers are the arguments
};

/// The nests of a program that can be functions of their own: loops that no other loop contains.
/// Empty where there are fewer than two, because such a program has no part to share with another.
std::vector<Nest> outermost_nests(const std::vector<LoweredFunction>& functions);

/// A nest that is called: `int symbol(void* const* buffers)`.
struct NestCall {
  std::string symbol;
  std::vector<Buffer> buffers;
};
using NestCalls = std::unordered_map<const StmtNode*, NestCall>;

}  // namespace heddle::codegen
