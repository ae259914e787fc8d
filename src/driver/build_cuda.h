#pragma once

#include "heddle/driver/build.h"

namespace heddle {

/// build() for a target of kind "cuda".
Kernel build_cuda(const Schedule& schedule, const std::vector<Tensor>& args,
                  const BuildOptions& options, BuildTimes* times);

/// A kernel's argument as the runtime checks it.
KernelArg describe(const Buffer& buffer);

}  // namespace heddle
