// The runtime of networks that export_network wrote. It is linked into their library and contains
// nothing of the compiler.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "heddle/runtime/device.h"
#include "heddle/support/function_ref.h"
#include "runtime/exported/program.h"

extern "C" {
#include "runtime/exported/tables.inc"
}

/// An open network.
struct heddle_network {
  explicit heddle_network(heddle::ExportedProgram p) : program(std::move(p)) {}
  virtual ~heddle_network() = default;
  heddle_network(const heddle_network&) = delete;
  heddle_network& operator=(const heddle_network&) = delete;
  /// Calls it with arrays on `device`. `sizes` are in the form in which kernels take them.
  virtual void run(std::span<const int64_t> sizes, const void* const* inputs, void* const* outputs,
                   heddle::Device device) = 0;

  const heddle::ExportedProgram program;
};

namespace heddle {

/// The version of heddle_library and of the program in it. One program makes a library and its
/// runtime, so the version guards against mistakes only.
inline constexpr int32_t kExportedVersion = 10;

/// The first page of a weights file; the weights follow it.
struct ExportedWeightsHeader {
  char magic[8] = {'H', 'E', 'D', 'D', 'L', 'E', 'W', '2'};
  uint64_t hash = 0;  ///< of the weights (support/hashing/checksum.h)
  int64_t bytes = 0;  ///< of the weights
};
inline constexpr int64_t kExportedPage = 4096;     ///< bytes; where the weights begin in the file
inline constexpr int64_t kExportedAlignment = 64;  ///< bytes, of each array among the weights

/// The text of tables.inc.
extern const char* const kExportedTablesText;

/// Opens what `make` makes of the program and the path of the weights. Null after an error, which
/// this thread remembers.
heddle_network* open_exported(
    const heddle_library* library, const char* weights,
    FunctionRef<std::shared_ptr<heddle_network>(ExportedProgram, const std::string&)>
        make) noexcept;

/// Checks sizes and addresses, and calls the network, which stays as it is until the call ends.
/// Throws a Runtime error where the handle is no open network.
void run_exported(const heddle_network* handle, const int64_t* sizes, const void* const* inputs,
                  void* const* outputs, Device device);

}  // namespace heddle
