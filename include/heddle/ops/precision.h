// In which types a contraction (matmul, convolution, ...) adds up and answers.
#pragma once

#include <optional>

#include "heddle/support/dtype.h"

namespace heddle::ops {

/// Unset means: f16 and bf16 add up in f32 and answer in their own type; 8- and 16-bit integers add
/// up and answer in i32; every other type does both in itself. Both operands have one type, except
/// that i8 and u8 may be mixed.
struct Precision {
  std::optional<DataType> accumulate = std::nullopt;
  std::optional<DataType> output = std::nullopt;
};

}  // namespace heddle::ops
