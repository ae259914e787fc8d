// Arrays of Python's libraries as NDArrays and back, without copies.
#pragma once

#include <cstdint>

#include "bind.h"

namespace heddle::python {

/// The libraries whose arrays calls take and return.
enum class Library : uint8_t { Numpy, Torch, Jax, Cupy, Heddle, Other };

/// The library that the type of an array, or a base of it, is from.
Library library_of(nb::handle array);

/// The elements of `array`, which the result keeps alive. Elements on the CPU that are not row-major are copied. Throws a
/// User error for what is no array; `what` names it there.
NDArray read_array(nb::handle array, FunctionRef<std::string()> what);
/// The same for an array that is written: one that would be copied is refused.
NDArray writable_array(nb::handle array, FunctionRef<std::string()> what);

/// `array` as an array of `library`, which shares the elements.
nb::object in_library(const NDArray& array, Library library);

/// The stream that `library` puts its work into on GPU `device`; null is CUDA's default stream.
void* stream_of(Library library, int device);

}  // namespace heddle::python
