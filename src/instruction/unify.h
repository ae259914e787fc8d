// Unification of loops with the nest of an instruction: which loop and which buffer of a program is
// which loop and operand of the instruction.
#pragma once

#include <string>
#include <vector>

#include "heddle/instruction/instruction.h"
#include "heddle/instruction/tiles.h"
#include "heddle/ir/simplify.h"

namespace heddle::instructions {

/// A loop of a nest.
struct NestLoop {
  Var var;
  int64_t extent;
};

/// An operand in a program: `buffer[indices]`, where the indices use the loops.
struct Place {
  Buffer buffer;
  std::vector<Expr> indices;
};

/// A nest as an instruction.
struct Unified {
  const InstructionForm* form = nullptr;
  std::vector<NestLoop> loops;  ///< in the order of the instruction's
  std::vector<Place> operands;  ///< in the order of the instruction's
  /// The operands with all loops at zero: their first elements.
  Place first(size_t operand) const;
};

/// All ways in which `loops` around `store` compute what `instruction` computes: the same value of
/// operands of types that it has, each indexed by the loops that index it there. (Where a product
/// may be taken either way round there are two.) A loop that may have one iteration may be missing. If there is none, `why` receives the reason.
std::vector<Unified> unify(const MachineInstruction& instruction,
                           const std::vector<NestLoop>& loops, const Store& store,
                           std::string* why);

/// Whether the last dimensions of `place` lie as `digits` say and no other dimension depends on
/// `loops`, for all values of the loops, whose order is that of the digits' dimensions. If not,
/// `why` receives the reason.
bool has_layout(const Place& place, const std::vector<NestLoop>& loops, const LayoutDigits& digits,
                std::string* why);

/// Whether the element of `place` at `loops` lies as many elements behind the first one as in an
/// array with storage dimensions `digits` of dimensions with these extents.
bool lies_as(const Place& place, const std::vector<NestLoop>& loops, const LayoutDigits& digits,
             const std::vector<int64_t>& extents, std::string* why);

/// The index along a storage dimension of an element at `index` along its dimension.
Expr digit_of(const LayoutDigit& d, const Expr& index);

/// The flat index into a buffer.
Expr flat_index(const Buffer& b, const std::vector<Expr>& indices);

/// `indices` with the loops at these values.
std::vector<Expr> at(const std::vector<Expr>& indices, const std::vector<NestLoop>& loops,
                     const std::vector<int64_t>& values);

}  // namespace heddle::instructions
