// A square of elements that is stored by columns, one vector each: n stores whose values are n lanes a row apart,
// from n neighbouring columns. It is read by its rows, whole vectors, and transposed in registers.
//
//   C[c0] = A[ramp(a, s, 8)]     C[c1] = A[ramp(a + 1, s, 8)]     ..  C[c7] = A[ramp(a + 7, s, 8)]
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heddle/ir/simplify.h"
#include "heddle/ir/stmt.h"
#include "heddle/support/function_ref.h"

namespace heddle::instructions {

struct TransposedSquare {
  std::vector<const Store*> stores;  ///< one for each lane
  const Load* load = nullptr;        ///< of the first
  Expr base;                         ///< index of the first element
  int64_t stride = 0;                ///< elements from a row to the next
  const Prefetch* ahead = nullptr;   ///< of what is read next, which may stand between the stores
  size_t end = 0;                    ///< the statement behind them
};

/// What a square may use.
struct SquareRules {
  const Ranges& ranges;
  int vector_bytes;                            ///< of the widest register
  FunctionRef<bool(const Buffer&)> in_memory;  ///< elements in registers have no rows
};

/// The square that begins with statement `from`. If there is none, `why` receives the reason.
std::optional<TransposedSquare> find_transposed_square(const std::vector<Stmt>& stmts, size_t from,
                                                       const SquareRules& rules, std::string* why);

}  // namespace heddle::instructions
