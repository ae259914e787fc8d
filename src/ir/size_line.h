// Extents that say what a symbolic size is.
#pragma once

#include <cstdint>
#include <optional>

#include "heddle/ir/expr.h"

namespace heddle {

/// extent == factor * size + constant, with factor > 0.
struct SizeLine {
  Var size;
  int64_t factor = 1, constant = 0;
  /// The size where the extent is `elements`; nullopt where no size of the range has that.
  std::optional<int64_t> size_of(int64_t elements) const;
};

/// The extent as such a line over one size, or nullopt where it is something else.
std::optional<SizeLine> as_size_line(const Expr& extent);

}  // namespace heddle
