// Two texts compared line by line.
#pragma once

#include <string>

namespace heddle::testing {

/// The difference in the format of `diff -u`: removed lines with "-", new ones with "+", two lines
/// around them, and "@@ line n @@" at the beginning of a part. At most `most_lines` lines are
/// shown, followed by the number of omitted ones. Empty for equal texts.
std::string unified_diff(const std::string& before, const std::string& after,
                         size_t most_lines = 60);

}  // namespace heddle::testing
