// A folder for the files that a fuzz target reads.
#pragma once

#include <string>
#include <string_view>

namespace heddle::fuzz {

/// A folder of this process, made at the first call and removed when the process ends.
const std::string& scratch_folder();
/// Writes a file in it, and returns its path.
std::string scratch_file(const std::string& name, std::string_view bytes);

}  // namespace heddle::fuzz
