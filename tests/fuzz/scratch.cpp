#include "fuzz/scratch.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "heddle/support/error.h"

namespace heddle::fuzz {
namespace {

struct Folder {
  Folder() : path((std::filesystem::temp_directory_path() / "heddle_fuzz_XXXXXX").string()) {
    if (::mkdtemp(path.data()) == nullptr) throw_runtime_error("there is no temporary folder");
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

}  // namespace

const std::string& scratch_folder() {
  static const Folder folder;
  return folder.path;
}

std::string scratch_file(const std::string& name, std::string_view bytes) {
  std::string path = scratch_folder() + "/" + name;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

}  // namespace heddle::fuzz
