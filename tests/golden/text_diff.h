// Two texts compared line by line.
#pragma once

#include <string>

namespace heddle::testing {

/// What turns `before` into `after`, as `diff -u` shows it: lines that left with "-", new ones with
/// "+", two lines around them, "@@ line n @@" where a part begins. At most `most_lines` lines, then
/// how many were left out. Empty for equal texts.
std::string unified_diff(const std::string& before, const std::string& after,
                         size_t most_lines = 60);

}  // namespace heddle::testing
