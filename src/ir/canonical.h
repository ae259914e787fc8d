// What a statement is, whatever its variables and buffers are called and wherever they came from.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "heddle/ir/stmt.h"

namespace heddle {

/// 128 bits: among the billions of statements that a process may see no two keys meet by chance.
struct CanonicalKey {
  uint64_t high = 0, low = 0;
  auto operator<=>(const CanonicalKey&) const = default;
};

struct CanonicalForm {
  /// Two statements with one key do the same to their `buffers`, taken in order.
  CanonicalKey key;
  std::vector<Buffer> buffers;  ///< not allocated within, in order of first use
  /// It needs nothing but `buffers`: no variable from outside, no Local buffer, nothing of a GPU.
  bool closed = true;
};

CanonicalForm canonical_form(const Stmt& s);

}  // namespace heddle
