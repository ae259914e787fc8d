// Calls of kernels and networks with arrays of Python.
#pragma once

#include <functional>
#include <span>

#include "bind.h"

namespace heddle::python {

/// What a call needs to know of what it calls.
struct Callee {
  const std::string& name;
  std::span<const KernelArg> args;
  std::span<const KernelSize> sizes;
  FunctionRef<void(std::span<const NDArray>)> run;
  std::span<const size_t> updated = {};  ///< positions of inputs that the call writes
};

/// Runs with the arrays of all arguments, and returns None; or with those of the inputs, and returns new outputs in the
/// library of the first array, on its device: one array, or a tuple. The GIL is released while it runs.
nb::object call(const Callee& callee, const nb::args& arrays);

/// The same arrays for another function, such as a profile, which gets them without the GIL. Outputs are new.
void with_arrays(const Callee& callee, const nb::args& arrays);

/// "(a: f32[2, 3], b: f32[n]) -> c: f32[2]"
std::string signature_of(std::span<const KernelArg> args, std::span<const KernelSize> sizes);

}  // namespace heddle::python
