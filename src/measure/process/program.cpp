#include "measure/process/program.h"

#include <unistd.h>

#include <filesystem>

#include "heddle/support/error.h"
#include "support/environment.h"
#include "support/files/this_library.h"

namespace heddle::measuring {
namespace {

constexpr const char* kName = "heddle-worker";

bool can_run(const std::string& path) {
  return std::filesystem::is_regular_file(path) && ::access(path.c_str(), X_OK) == 0;
}

std::filesystem::path library_file() {
  if (const auto library = internal::this_library()) return *library;
  throw_runtime_error("the file that Heddle's library was loaded from is not there any more", {},
                      "start this program anew");
}

}  // namespace

std::vector<std::string> worker_command(const std::vector<std::string>& command) {
  if (!command.empty()) return command;
  const std::filesystem::path library = library_file();
  const std::string option = "--library=" + library.string();
  if (const std::string named = internal::environment_value("HEDDLE_WORKER"); !named.empty()) {
    if (can_run(named)) return {named, option};
    throw_runtime_error("HEDDLE_WORKER names '" + named + "', which is no program that can be run",
                        {}, std::string("give it the path of ") + kName + ", or unset it");
  }
  std::string looked;
  // The paths are those of an installation, of a build folder, and the folder of the library.
  for (const char* from : {HEDDLE_WORKER_FROM_LIBRARY, "../bin", "."}) {
    const std::string path = (library.parent_path() / from / kName).lexically_normal().string();
    if (can_run(path)) return {path, option};
    looked += (looked.empty() ? "" : ", ") + path;
  }
  throw_runtime_error(std::string("the program '") + kName +
                          "', which compiles and times candidates, is not at " + looked,
                      {}, "build or install it with the library, or name it by HEDDLE_WORKER=path");
}

}  // namespace heddle::measuring
