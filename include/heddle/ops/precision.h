// The types in which a contraction (matmul, convolution, ...) accumulates and returns its result.
#pragma once

#include <optional>

#include "heddle/support/dtype.h"

namespace heddle::ops {

/// The types of a contraction. By default f16 and bf16 accumulate in f32 and return their own type,
/// and 8-bit and 16-bit integers accumulate in i32 and return it. All other types do both in their
/// own type. Both operands have one type, except that i8 and u8 may be mixed.
struct Precision {
  std::optional<DataType> accumulate = std::nullopt;
  std::optional<DataType> output = std::nullopt;
};

}  // namespace heddle::ops
