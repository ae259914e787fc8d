// Which build of this library is running.
#pragma once

#include <string>

namespace heddle {

/// The build id that the linker gave this library (or the program that it is linked into), in
/// hexadecimal; without one, a hash of the file's path, size and time of change. Results of one
/// build are not valid for another: each change of the code gives another id.
const std::string& build_id();

}  // namespace heddle
