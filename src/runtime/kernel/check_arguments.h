// The checks of a call before any code runs, shared by kernels and networks of kernels.
#pragma once

#include <span>
#include <string>

#include "heddle/runtime/kernel.h"
#include "heddle/support/function_ref.h"
#include "runtime/kernel/memory_ranges.h"

namespace heddle {

/// Throws a Runtime error that names the argument: for a wrong count, type, shape or alignment, or
/// for an output that shares memory with another argument, or for arrays that are not all on one
/// device, the CPU unless `for_gpu`. `name` is the name of the kernel. Returns the device of the
/// arrays.
Device check_arguments(const std::string& name, std::span<const KernelArg> args,
                       std::span<const NDArray> arrays, bool for_gpu = false);

/// The sizes that the shapes of `arrays` give, which check_arguments accepted: each is passed to
/// `found` with its position. Throws a Runtime error that names the arguments where two of them
/// give one size different values, and where a size is out of its range.
void read_sizes(const std::string& name, std::span<const KernelSize> sizes,
                std::span<const KernelArg> args, std::span<const NDArray> arrays,
                FunctionRef<void(size_t, int64_t)> found);

/// Gives those extents of `shape` that depend on sizes their values.
void set_extents(Extents& shape, std::span<const SymbolicExtent> symbolic,
                 std::span<const int64_t> sizes);

/// Throws a Runtime error where an output shares memory with a constant that the kernel supplies.
void check_apart(const std::string& name, std::span<const KernelArg> args,
                 std::span<const NDArray> arrays, const MemoryRanges& constants);

/// The same as check_arguments, for the constant arguments alone. The other arrays may be
/// undefined.
Device check_constants(const std::string& name, std::span<const KernelArg> args,
                       std::span<const NDArray> arrays, bool for_gpu = false);

}  // namespace heddle
