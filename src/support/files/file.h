// Reading and writing of whole files. Failures throw a Runtime error that names the file and the
// reason.
#pragma once

#include <string>
#include <string_view>

namespace heddle {

/// The contents of a file. Throws a Runtime error where it cannot be read.
std::string read_file(const std::string& path);

/// Writes a temporary file in the same folder, flushes it to the disk, and renames it. A reader
/// sees the old file or the new one and never a part, even when this process is killed.
void write_file_atomic(const std::string& path, std::string_view content);

}  // namespace heddle
