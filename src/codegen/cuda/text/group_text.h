// The helper functions of warp groups that store results: barriers of a group, groups of copies by
// TMA, and tickets.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::cuda {

/// The definition of the function of this name, with $ for the inline specifiers. nullopt where no
/// such function has this name.
std::optional<std::string> group_text(std::string_view name);

/// The names of the functions that it calls.
std::string_view group_needs(std::string_view name);

std::vector<std::string> group_names();

}  // namespace heddle::cuda
