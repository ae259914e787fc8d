// Builds of many kernels.
#pragma once

#include <exception>
#include <vector>

#include "heddle/driver/build.h"

namespace heddle {

/// A kernel, or why it was not built.
struct Built {
  Kernel kernel;
  std::exception_ptr error;
};

/// Builds each schedule. Kernels for GPUs are built at the same time, in as many threads as there
/// are cores.
std::vector<Built> build_in_threads(const std::vector<Schedule>& schedules,
                                    const std::vector<Tensor>& args, const BuildOptions& options);

}  // namespace heddle
