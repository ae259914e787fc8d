// Output files of commands.
#pragma once

#include <string>

namespace heddle::cli {

/// Throws a User error where no file can be made at `path`, so that the error appears before the
/// measurements and not after them. Nothing is created.
void check_writable(const std::string& path);

}  // namespace heddle::cli
