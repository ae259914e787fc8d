// The call for which a multi-kernel picks a variant.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/dispatch/multi_kernel_impl.h"

namespace heddle {

/// A call for which a pick is made.
struct MultiKernel::Impl::Call {
  std::span<const NDArray> arrays;
  Device device;
  std::vector<KernelArg> args;     ///< with the extents of the call
  std::vector<size_t> applicable;  ///< variants that take it, of different code
  std::string shapes;
  std::string key;
};

}  // namespace heddle
