// What build() and export_kernel() share: lowering as the options say, and the arguments of the
// result.
#pragma once

#include <vector>

#include "heddle/driver/build.h"

namespace heddle {

LoweredProgram lower_for_build(const Schedule& schedule, const std::vector<Tensor>& args,
                               const BuildOptions& options);

/// The arguments of the kernel, and of what it keeps of its constants.
std::vector<KernelArg> kernel_args(const LoweredProgram& program, const std::vector<Tensor>& args);
std::vector<KernelArg> persistent_args(const LoweredProgram& program);

}  // namespace heddle
