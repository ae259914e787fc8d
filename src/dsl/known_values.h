// Values of tensors that the declaration has.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heddle/dsl/tensor.h"

namespace heddle {

/// The elements, in row-major order, of a constant of integers that has its values (dsl/arrays.h),
/// or the one of a stage whose elements are all one number, or those of one that grows evenly along each
/// dimension; nothing for other tensors.
std::optional<std::vector<int64_t>> known_integers(const Tensor& tensor);

}  // namespace heddle
