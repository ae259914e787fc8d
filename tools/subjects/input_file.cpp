#include "subjects/input_file.h"

#include <filesystem>
#include <vector>

#include "heddle/support/error.h"
#include "support/edit_distance.h"

namespace heddle::cli {

namespace fs = std::filesystem;

std::string why_no_file(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return "'" + path + "' is a folder, and no file";
  if (fs::exists(path, error)) return "";
  const fs::path given(path);
  const fs::path folder = given.has_parent_path() ? given.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error))
    return "there is no file '" + path + "', and no folder " + folder.string();
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder, error))
    names.push_back(entry.path().filename().string());
  const std::string guess = did_you_mean(given.filename().string(), names);
  return "there is no file '" + path + "'" + (guess.empty() ? "" : "; " + guess);
}

void check_file(const std::string& path) {
  const std::string wrong = why_no_file(path);
  if (!wrong.empty())
    throw_user_error(wrong, {}, "paths begin at the folder that the command is started in");
}

}  // namespace heddle::cli
