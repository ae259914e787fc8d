// Compiles tasks on several threads.
#pragma once

#include <cstddef>

#include "heddle/support/function_ref.h"

namespace heddle::network {

/// Calls `compile` for 0 .. count - 1, each once, on as many threads as kernels may use. Where
/// `stop` becomes true, and after an error, the others are left out. The first error is thrown.
void for_each_task(
    size_t count, FunctionRef<void(size_t)> compile,
    FunctionRef<bool()> stop = [] { return false; });

}  // namespace heddle::network
