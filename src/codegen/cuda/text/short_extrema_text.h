// The helper functions for the smaller and the larger of two 16-bit floats, which are generated for
// both formats. A NaN is the result where there is one, as in min_f32.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::cuda {

/// The definition of min_f16, max_f16, min_bf16 or max_bf16, with $ for the inline specifiers.
/// nullopt where no such function has this name.
std::optional<std::string> short_extrema_text(std::string_view name);
/// The other functions that it calls, separated by blanks.
std::string_view short_extrema_needs(std::string_view name);

std::vector<std::string> short_extrema_names();

}  // namespace heddle::cuda
