// Networks that export_network wrote, running: what is linked into their library. Nothing of the
// compiler.
#pragma once

#include <cstdint>

extern "C" {
#include "runtime/exported_tables.inc"
}

namespace heddle {

/// Of heddle_network_tables; a library and its runtime are made by one program, so this guards
/// against mistakes alone.
inline constexpr int32_t kExportedVersion = 3;

/// The first page of a weights file; the weights follow it.
struct ExportedWeightsHeader {
  char magic[8] = {'H', 'E', 'D', 'D', 'L', 'E', 'W', '1'};
  uint64_t hash = 0;  ///< of the weights
  int64_t bytes = 0;  ///< of the weights
};
inline constexpr int64_t kExportedPage = 4096;     ///< bytes; where the weights begin in the file
inline constexpr int64_t kExportedAlignment = 64;  ///< bytes, of each array among the weights

/// The text of exported_tables.inc.
extern const char* const kExportedTablesText;

}  // namespace heddle
