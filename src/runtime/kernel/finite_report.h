// The report of a kernel that checks its arguments for NaN and infinity (FiniteReport).
#pragma once

#include <span>
#include <string>
#include <utility>

#include "heddle/runtime/kernel.h"
#include "heddle/runtime/ndarray.h"
#include "heddle/support/error.h"

namespace heddle {

/// The error of a call with a NaN or an infinity.
class NotFinite : public Error {
 public:
  NotFinite(std::string message, std::string help, bool inputs)
      : Error(ErrorKind::Runtime, std::move(message), {}, std::move(help)), of_inputs(inputs) {}
  bool of_inputs;  ///< some of them came with the call
};

/// An array for the report of one call, on `device`; undefined where the kernel checks nothing.
NDArray make_finite_report(const FiniteReport& finite, Device device);

/// Throws NotFinite that names the kernel `code`, each argument with a NaN or an infinity and the
/// index of the first one. `arrays`: those of the call. Waits for the GPU.
void throw_if_not_finite(const KernelCode& code, std::span<const NDArray> arrays,
                         const NDArray& report);

}  // namespace heddle
