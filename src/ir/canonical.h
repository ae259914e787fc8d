// A key of what a statement computes, independent of the names and origins of its variables and
// buffers.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "heddle/ir/stmt.h"

namespace heddle {

/// A key of 128 bits, so that collisions among the billions of statements of a process are
/// negligible.
struct CanonicalKey {
  uint64_t high = 0, low = 0;
  auto operator<=>(const CanonicalKey&) const = default;
};

struct CanonicalForm {
  /// Two statements with equal keys have the same effect on their `buffers`, taken in order.
  CanonicalKey key;
  std::vector<Buffer> buffers;  ///< not allocated within, in order of first use
  std::vector<Var> sizes;       ///< symbolic sizes, in order of first use
  /// Whether the statement depends on `buffers` and `sizes` alone: on no outer variable, no Local
  /// buffer, and nothing specific to a GPU.
  bool closed = true;
};

CanonicalForm canonical_form(const Stmt& s);

}  // namespace heddle
