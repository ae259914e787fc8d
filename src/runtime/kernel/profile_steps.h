// Times the kernels of a call. Kernels and networks of kernels use it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heddle/runtime/profile.h"
#include "heddle/support/function_ref.h"
#include "runtime/kernel/kernel_impl.h"

namespace heddle {

struct ProfiledStep {
  std::string name;
  Kernel kernel;
  StepArgs args;
};

/// `whole` makes one call of all steps in the usual way. Timing takes about `seconds`, but makes at
/// least one call of each step. The times of a row are those of all runs of its step.
Profile profile_steps(std::span<const ProfiledStep> steps, FunctionRef<void()> whole,
                      double seconds);

}  // namespace heddle
