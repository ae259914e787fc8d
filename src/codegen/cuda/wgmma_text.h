// The helper functions for products by warp groups, one for each number of columns and type: too
// many, and too alike, for a table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::cuda {

/// "wgmma_n128_bf16": 64 rows, 128 columns, 16 steps of bf16, added up in f32.
std::string wgmma_name(int columns, const std::string& type);

/// The definition of the function of this name, with $ for what makes it inline; nothing where it
/// is no name of such a function.
std::optional<std::string> wgmma_text(std::string_view name);

std::vector<std::string> wgmma_names();

}  // namespace heddle::cuda
