// The runtime of networks that export_network wrote. It is linked into their library and contains
// nothing of the compiler.
#pragma once

#include <cstdint>

extern "C" {
#include "runtime/exported/tables.inc"
}

namespace heddle {

/// The version of heddle_network_tables. One program makes a library and its runtime, so the
/// version guards against mistakes only.
inline constexpr int32_t kExportedVersion = 7;

/// The first page of a weights file; the weights follow it.
struct ExportedWeightsHeader {
  char magic[8] = {'H', 'E', 'D', 'D', 'L', 'E', 'W', '2'};
  uint64_t hash = 0;  ///< of the weights (support/checksum.h)
  int64_t bytes = 0;  ///< of the weights
};
inline constexpr int64_t kExportedPage = 4096;     ///< bytes; where the weights begin in the file
inline constexpr int64_t kExportedAlignment = 64;  ///< bytes, of each array among the weights

/// The text of exported_tables.inc.
extern const char* const kExportedTablesText;

}  // namespace heddle
