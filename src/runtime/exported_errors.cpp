#include "runtime/exported_errors.h"

#include <string>

#include "heddle/support/error.h"

namespace heddle {
namespace {

thread_local std::string last_error;

}  // namespace

bool succeeds(FunctionRef<void()> action) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    last_error = error.message + (error.help.empty() ? "" : "; " + error.help);
  } catch (const std::exception& error) {
    last_error = error.what();
  }
  return false;
}

void check_exported_version(const char* name, int32_t version) {
  if (version == kExportedVersion) return;
  throw_runtime_error(std::string("the library of '") + name + "' has tables of version " +
                      std::to_string(version) + ", and its runtime knows version " +
                      std::to_string(kExportedVersion));
}

void check_exported_arrays(const char* name, const ExportedTensors& tensors,
                           const void* const* inputs, void* const* outputs) {
  const auto given = [&](int32_t i) {
    if (i < tensors.num_inputs) return inputs != nullptr && inputs[i] != nullptr;
    return outputs != nullptr && outputs[i - tensors.num_inputs] != nullptr;
  };
  for (int32_t i = 0; i < tensors.num_inputs + tensors.num_outputs; ++i) {
    if (given(i)) continue;
    throw_runtime_error(std::string("'") + tensors.tensors[i].name + "' of '" + name +
                        "' is given a null pointer");
  }
}

}  // namespace heddle

extern "C" const char* heddle_network_error(void) { return heddle::last_error.c_str(); }
