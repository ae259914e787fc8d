// Errors of the functions that an exported library shows to C.
#pragma once

#include <cstdint>

#include "heddle/support/function_ref.h"
#include "runtime/exported_network.h"

namespace heddle {

/// What `action` throws becomes this thread's last error. Nothing may throw into C.
bool succeeds(FunctionRef<void()> action);

/// A Runtime error where the tables of the library `name` are not those that this runtime knows.
void check_exported_version(const char* name, int32_t version);

/// The inputs and outputs of a network, inputs first.
struct ExportedTensors {
  const heddle_tensor* tensors = nullptr;
  int32_t num_inputs = 0, num_outputs = 0;
};

/// A Runtime error where an array of a call of the network `name` is missing.
void check_exported_arrays(const char* name, const ExportedTensors& tensors,
                           const void* const* inputs, void* const* outputs);

}  // namespace heddle
