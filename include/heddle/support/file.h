// Files, whole. Failures throw a Runtime error that names the file and the reason.
#pragma once

#include <string>
#include <string_view>

namespace heddle {

std::string read_file(const std::string& path);

/// Writes to a temporary file next to it, flushes that to the disk, and renames it: whoever looks,
/// at whatever moment we are killed, sees the old file or the new one, never a half.
void write_file_atomic(const std::string& path, std::string_view content);

}  // namespace heddle
