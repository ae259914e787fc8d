#include "common/output_file.h"

#include <unistd.h>

#include <filesystem>

#include "heddle/support/error.h"

namespace heddle::cli {

namespace fs = std::filesystem;

void check_writable(const std::string& path) {
  const fs::path file(path);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::error_code ignored;
  std::string wrong;
  if (fs::is_directory(file, ignored)) {
    wrong = "it is a folder";
  } else if (!fs::is_directory(folder, ignored)) {
    wrong = "there is no folder " + folder.string();
  } else if (::access(folder.c_str(), W_OK) != 0) {
    wrong = "no files can be made in " + folder.string();
  }
  if (!wrong.empty()) {
    throw_user_error("cannot write '" + path + "': " + wrong, {},
                     "name a file in a folder that is there, or - for standard output");
  }
}

}  // namespace heddle::cli
