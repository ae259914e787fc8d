// Where this code was loaded from.
#pragma once

#include <filesystem>
#include <optional>

namespace heddle::internal {

/// The file of the shared library, or of the program, that contains this code. nullopt: it is not
/// there any more.
std::optional<std::filesystem::path> this_library();

}  // namespace heddle::internal
