// "did you mean": finds the valid name that is nearest to a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heddle {

/// The least number of insertions, deletions, replacements and swaps of neighbours that turn a into
/// b (the Damerau-Levenshtein distance).
int edit_distance(std::string_view a, std::string_view b);

/// "did you mean 'i.outer'?", or "" if no candidate is near enough to be a typing error.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace heddle
