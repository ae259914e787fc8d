// Checks of indices that are data (BuildOptions::check_indices).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "heddle/driver/build.h"

namespace heddle::driver {

/// A function that throws a Runtime error where, with the arrays of a call, a read at an index that
/// is data leaves its dimension: it names the kernel, the stage, the index and the extent. It runs
/// a kernel of its own, which computes the positions of all such reads and what they depend on.
/// Empty where the options do not ask for it or there are no such reads. `args` are those of
/// build(), and `schedule` must be one of constant sizes.
std::function<void(std::span<const NDArray>)> index_checks(const Schedule& schedule,
                                                           std::span<const Tensor> args,
                                                           const BuildOptions& options);

}  // namespace heddle::driver
