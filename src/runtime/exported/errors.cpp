#include "runtime/exported/errors.h"

#include <optional>
#include <string>

#include "heddle/support/dtype.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

thread_local std::string last_error;

void remember_exception() {
  try {
    throw;
  } catch (const Error& error) {
    last_error = error.message + (error.help.empty() ? "" : "; " + error.help);
  } catch (const std::bad_alloc&) {
    last_error = "out of memory";  // short enough to need none
  } catch (const std::exception& error) {
    last_error = error.what();
  } catch (...) {
    last_error = "unknown error";
  }
}

}  // namespace

bool succeeds(FunctionRef<void()> action) noexcept {
  try {
    try {
      action();
      return true;
    } catch (...) {
      remember_exception();
    }
  } catch (...) {
    last_error = "out of memory";  // there was none for the text of the error
  }
  return false;
}

void check_exported_version(const char* name, int32_t version) {
  if (version == kExportedVersion) return;
  throw_runtime_error(std::string("the library of '") + name + "' has tables of version " +
                      std::to_string(version) + ", and its runtime knows version " +
                      std::to_string(kExportedVersion));
}

ExportedTensors::ExportedTensors(const char* network, const heddle_tensor* tensors, int32_t inputs,
                                 int32_t outputs)
    : network_(network), tensors_(tensors), inputs_(inputs) {
  for (const heddle_tensor* t = tensors; t != tensors + inputs + outputs; ++t) {
    const std::optional<DataType> dtype = parse_dtype(t->dtype);
    if (!dtype) throw_runtime_error(std::string("unknown type ") + t->dtype);
    element_bytes_.push_back(static_cast<uintptr_t>(dtype->bytes()));
  }
}

void ExportedTensors::check(const void* const* inputs, void* const* outputs) const {
  for (size_t i = 0; i < element_bytes_.size(); ++i) {
    const auto first_output = static_cast<size_t>(inputs_);
    const bool is_input = i < first_output;
    const void* array = nullptr;
    if (is_input && inputs != nullptr) array = inputs[i];
    if (!is_input && outputs != nullptr) array = outputs[i - first_output];
    const auto refuse = [&](const std::string& why) {
      throw_runtime_error(std::string("'") + tensors_[i].name + "' of '" + network_ + "' is " +
                          why);
    };
    if (array == nullptr) refuse("given a null pointer");
    if (reinterpret_cast<uintptr_t>(array) % element_bytes_[i] != 0)
      refuse("not aligned to its elements of " + std::to_string(element_bytes_[i]) + " bytes");
  }
}

}  // namespace heddle

extern "C" const char* heddle_network_error(void) HEDDLE_NOEXCEPT {
  return heddle::last_error.c_str();
}
