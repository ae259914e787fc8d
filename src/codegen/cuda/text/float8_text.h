// The helper functions that convert 8-bit floats, which are generated for both formats. Conversions
// to them saturate (support/numbers/float8.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::cuda {

/// The definition of the function of this name, with $ for the inline specifiers: f32_from_f8e4m3,
/// f8e4m3_from_f32, f8e4m3_from_f64 or round_f8e4m3, and the same for f8e5m2. nullopt where no such
/// function has this name.
std::optional<std::string> float8_text(std::string_view name);
/// The other functions that it calls, separated by blanks.
std::string_view float8_needs(std::string_view name);

std::vector<std::string> float8_names();

}  // namespace heddle::cuda
