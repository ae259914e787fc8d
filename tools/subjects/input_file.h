// Files that are named as they are typed and have to be there.
#pragma once

#include <string>

namespace heddle::cli {

/// "" for a file that is there (or a pipe, or a device), else what is wrong, with the file of that
/// folder that may be meant: "there is no file 'net.onx'; did you mean 'net.onnx'?".
std::string why_no_file(const std::string& path);

/// Throws a User error that says the same.
void check_file(const std::string& path);

}  // namespace heddle::cli
