#include "heuristics/tophub_files.h"

#include <filesystem>
#include <system_error>

namespace heddle::learning {

std::optional<std::string> file_of_any_chip(const std::string& kind, const std::string& ending) {
  for (const std::string& folder : tophub_folders()) {
    std::string file = folder;
    file += "/" + kind + "-any" + ending;
    std::error_code error;
    if (std::filesystem::is_regular_file(file, error)) return file;
  }
  return std::nullopt;
}

}  // namespace heddle::learning
