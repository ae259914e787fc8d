// The file from which this code was loaded.
#pragma once

#include <filesystem>
#include <optional>

namespace heddle::internal {

/// The file of the shared library, or of the program, that contains this code. nullopt where it
/// does not exist any more.
std::optional<std::filesystem::path> this_library();

}  // namespace heddle::internal
