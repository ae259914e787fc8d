// The generated C of an exported network: the header for users, and the source that is linked with
// the kernels and the runtime.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/exported/program.h"

namespace heddle::network {

struct LibrarySource {
  ExportedProgram program;
  bool for_gpu = false;
  std::string version;                ///< of Heddle and of the declaration
  std::string plan;                   ///< the text of the plan (network/plan.h); empty without one
  std::vector<int64_t> tensor_bytes;  ///< of each argument, at the largest sizes
  std::vector<std::string> extents;   ///< what gives each size, such as "dimension 0 of 'x'"
  /// Of each kernel the name of its function; for a GPU the path of its machine code, which is
  /// embedded in the library.
  std::vector<std::string> code;
};

/// The sizes as parameters of a C function, such as "size_n".
std::vector<std::string> size_names(const std::vector<ExportedSize>& sizes);

/// `text` with each pair's first text, such as "@name@", replaced by the second.
std::string filled_in(std::string text,
                      const std::vector<std::pair<std::string, std::string>>& values);

/// The values for @name@, @NAME@ (in capitals) and @parameters@ ("int64_t size_n, ").
std::vector<std::pair<std::string, std::string>> usual_values(const LibrarySource& library);

std::string header_text(const LibrarySource& library);
std::string source_text(const LibrarySource& library);

}  // namespace heddle::network
