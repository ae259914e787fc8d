// The path of the program heddle-fleet, and the names of devices for Ray.
#include <unistd.h>

#include <filesystem>

#include "heddle/measure/fleet.h"
#include "heddle/support/error.h"
#include "measure/fleet/measurer.h"
#include "support/environment.h"
#include "support/files/this_library.h"

namespace heddle {
namespace {

constexpr const char* kName = "heddle-fleet";

std::string program() {
  const std::string named = internal::environment_value("HEDDLE_FLEET");
  if (!named.empty()) {
    if (::access(named.c_str(), R_OK) == 0) return named;
    throw_runtime_error("HEDDLE_FLEET names '" + named + "', which cannot be read", {},
                        std::string("give it the path of ") + kName + ", or unset it");
  }
  std::string looked;
  const auto library = internal::this_library();
  // The first path is that of an installation, the second that of a build folder.
  for (const char* from : {HEDDLE_WORKER_FROM_LIBRARY, "../bin"}) {
    if (!library) break;
    const std::string path = (library->parent_path() / from / kName).lexically_normal().string();
    if (::access(path.c_str(), R_OK) == 0) return path;
    looked += (looked.empty() ? "" : ", ") + path;
  }
  throw_runtime_error(
      std::string("the program '") + kName + "', which speaks to Ray, is not at " + looked, {},
      "install it with the library, or name it by HEDDLE_FLEET=path");
}

}  // namespace

std::vector<std::string> fleet_command() {
  const std::string python = internal::environment_value("HEDDLE_PYTHON");
  return {"/usr/bin/env", python.empty() ? "python3" : python, program()};
}

std::string fleet_resource(const Target& target) {
  return (target.is_cuda() ? "gpu:" : "cpu:") + target.chip();
}

std::unique_ptr<Measurer> make_fleet_measurer(const FleetOptions& options) {
  return std::make_unique<measuring::FleetMeasurer>(options);
}

}  // namespace heddle
