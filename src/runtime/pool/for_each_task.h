// Runs independent work of different length on several threads.
#pragma once

#include <cstddef>

#include "heddle/support/function_ref.h"

namespace heddle {

/// Calls `work` for 0 .. count - 1, each once, on as many threads as kernels may use. After
/// `stop` becomes true or an error occurs, the remaining calls are left out. The first error is
/// thrown.
void for_each_task(
    size_t count, FunctionRef<void(size_t)> work, FunctionRef<bool()> stop = [] { return false; });

}  // namespace heddle
