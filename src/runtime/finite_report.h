// The report of a kernel that checks its arguments for NaN and infinity (FiniteReport).
#pragma once

#include <span>

#include "heddle/runtime/kernel.h"
#include "heddle/runtime/ndarray.h"

namespace heddle {

/// An array for the report of one call, on `device`; undefined where the kernel checks nothing.
NDArray make_finite_report(const FiniteReport& finite, Device device);

/// Throws a Runtime error that names the kernel `code`, each argument with a NaN or an infinity and
/// the index of the first one. `arrays`: those of the call. Waits for the GPU.
void throw_if_not_finite(const KernelCode& code, std::span<const NDArray> arrays,
                         const NDArray& report);

}  // namespace heddle
