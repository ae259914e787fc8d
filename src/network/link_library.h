// Makes a shared library of objects, a C file and Heddle's runtime, by the compiler driver of the
// system.
#pragma once

#include <string>
#include <vector>

namespace heddle::network {

struct LinkInput {
  std::string c_file;
  std::vector<std::string> objects;
  std::string
      exported_prefix;  ///< functions whose names begin so can be called from outside, no others
};

/// `scratch` is a folder for files that are needed on the way. A Runtime error with what the driver
/// printed.
void link_library(const LinkInput& input, const std::string& scratch, const std::string& library);

}  // namespace heddle::network
