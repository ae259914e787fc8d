#pragma once

#include <cstdint>
#include <span>

#include "runtime/cuda/cuda_program.h"

namespace heddle::cuda {

/// The value of `e`, which is not empty, at these sizes. Throws an internal error where it is an
/// incomplete program.
std::int64_t evaluate(const SizeExpr& e, std::span<const std::int64_t> sizes);

}  // namespace heddle::cuda
