// Errors of the C functions of an exported library.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/support/function_ref.h"
#include "runtime/exported/network.h"

namespace heddle {

/// Stores an exception of `action` as this thread's last error, because no exception may leave a C
/// function.
bool succeeds(FunctionRef<void()> action) noexcept;

/// Throws a Runtime error where the tables of the library `name` have another version than this
/// runtime.
void check_exported_version(const char* name, int32_t version);

/// The inputs and outputs of a network, inputs first.
class ExportedTensors {
 public:
  /// Throws a Runtime error for a type that is not known.
  ExportedTensors(const char* network, const heddle_tensor* tensors, int32_t inputs,
                  int32_t outputs);
  /// Throws a Runtime error where an array of a call is missing, or its address is not a multiple
  /// of the size of its elements.
  void check(const void* const* inputs, void* const* outputs) const;

 private:
  const char* network_;
  const heddle_tensor* tensors_;
  int32_t inputs_;
  std::vector<uintptr_t> element_bytes_;  ///< of each tensor
};

}  // namespace heddle
