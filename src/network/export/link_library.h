// Links objects, a C file and Heddle's runtime into a shared library, with the compiler driver of
// the system.
#pragma once

#include <string>
#include <vector>

namespace heddle::network {

struct LinkInput {
  std::string c_file;
  std::vector<std::string> objects = {};
  std::string exported_prefix;  ///< only functions whose names begin with this are exported
};

/// `scratch` is a folder for intermediate files. Throws a Runtime error with the output of the
/// driver.
void link_library(const LinkInput& input, const std::string& scratch, const std::string& library);

}  // namespace heddle::network
