// Files that a command is asked to write.
#pragma once

#include <string>

namespace heddle::cli {

/// Throws a User error where no file can be made at `path`: found out before an hour of
/// measurements, not after. Nothing is created.
void check_writable(const std::string& path);

}  // namespace heddle::cli
