// What build() and export_kernel() share: the target, lowering as the options say, and the
// arguments of the result.
#pragma once

#include <vector>

#include "heddle/driver/build.h"

namespace heddle {

/// The schedule's target. Throws a User error where the options say another one, and for loops that
/// are bound to the blocks and threads of a GPU in a schedule that is for none.
const Target& target_of(const Schedule& schedule, const BuildOptions& options);

LoweredProgram lower_for_build(const Schedule& schedule, const std::vector<Tensor>& args,
                               const BuildOptions& options);

/// The arguments of the kernel, and of what it keeps of its constants.
std::vector<KernelArg> kernel_args(const LoweredProgram& program, const std::vector<Tensor>& args);
std::vector<KernelArg> persistent_args(const LoweredProgram& program);

}  // namespace heddle
