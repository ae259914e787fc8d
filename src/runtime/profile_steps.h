// Times the kernels that a call is made of; shared by kernels and networks of kernels.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heddle/runtime/profile.h"
#include "heddle/support/function_ref.h"

namespace heddle {

struct ProfiledStep {
  std::string name;
  Kernel kernel;
  std::vector<NDArray> arrays;  ///< all on one device, the GPU for a kernel of one
};

/// `whole` is one call of all steps, in whatever way that is usually made. Takes about so many
/// seconds, but makes one call of everything at least.
Profile profile_steps(std::span<const ProfiledStep> steps, FunctionRef<void()> whole,
                      double seconds);

}  // namespace heddle
