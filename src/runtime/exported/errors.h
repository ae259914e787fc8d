// Errors of the C functions of an exported library.
#pragma once

#include "heddle/support/function_ref.h"

namespace heddle {

/// Stores an exception of `action` as this thread's last error, because no exception may leave a C
/// function.
bool succeeds(FunctionRef<void()> action) noexcept;

}  // namespace heddle
