// Sums of products of narrow types, whose terms an instruction of a CPU adds up in groups of two or four
// (dot_instructions()):
//
//   C[ramp(c, 1, 8)] + x8(i32(A[a])) * i32(B[ramp(b, 2, 8)])
//                    + x8(i32(A[a + 1])) * i32(B[ramp(b + 1, 2, 8)])
//   --> C[..] and one group of two: A[a], A[a + 1] in every lane, and 16 elements of B from b on
//
// A schedule makes them by a layout that has groups of the reduction innermost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heddle/support/function_ref.h"
#include "instruction/narrow_terms.h"

namespace heddle::instructions {

struct DotGroup {
  NarrowFactor a, b;  ///< of its first product
  int size = 0;
  int members = 0;  ///< products; where fewer than the size, the others are of zeros
};
struct DotSum {
  std::vector<DotGroup> groups;
  std::vector<Expr> rest;  ///< the other terms, in their order
};

/// What a sum may use.
struct DotRules {
  const Ranges& ranges;
  FunctionRef<bool(const Buffer&)> in_memory;  ///< elements in registers cannot be loaded together
  FunctionRef<bool(DataType a, DataType b, int size)> has_dot;
};

/// The groups of the vector `sum`. Where there are none, `why` receives the reason.
std::optional<DotSum> find_dot_groups(const Expr& sum, const DotRules& rules, std::string* why);

/// Whether `n` elements, counted from the first one of the factor, certainly lie inside the buffer.
bool has_elements(const NarrowFactor& f, int64_t n, const Ranges& ranges);

}  // namespace heddle::instructions
