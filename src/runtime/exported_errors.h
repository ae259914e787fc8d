// Errors of the C functions of an exported library.
#pragma once

#include <cstdint>

#include "heddle/support/function_ref.h"
#include "runtime/exported_network.h"

namespace heddle {

/// Stores an exception of `action` as this thread's last error, because no exception may leave a C
/// function.
bool succeeds(FunctionRef<void()> action);

/// Throws a Runtime error where the tables of the library `name` have another version than this
/// runtime.
void check_exported_version(const char* name, int32_t version);

/// The inputs and outputs of a network, inputs first.
struct ExportedTensors {
  const heddle_tensor* tensors = nullptr;
  int32_t num_inputs = 0, num_outputs = 0;
};

/// Throws a Runtime error where an array of a call of the network `name` is missing.
void check_exported_arrays(const char* name, const ExportedTensors& tensors,
                           const void* const* inputs, void* const* outputs);

}  // namespace heddle
