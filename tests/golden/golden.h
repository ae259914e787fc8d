// Golden texts: what the compiler makes of a subject, checked in under tests/golden, so that a
// change of a rule, a recipe or a pass is reviewed as a diff.
//
//   ctest --test-dir build -R golden                       compares
//   HEDDLE_UPDATE_GOLDENS=1 ctest --test-dir build -R golden    rewrites them; then: git diff
#pragma once

#include <string>
#include <vector>

namespace heddle::testing {

/// Is HEDDLE_UPDATE_GOLDENS set (to anything but "0")?
bool updating_goldens();

/// Expects `text` to be what tests/golden/<name>.txt holds; where goldens are being rewritten,
/// writes it there. Fails with a diff and the command that rewrites. `name` may have a folder.
void expect_golden(const std::string& name, const std::string& text);

/// Expects every .txt file in tests/golden/<folder> to be one of `names` (paths as above): a
/// golden that no test compares says nothing. Where goldens are being rewritten, the others are
/// removed.
void expect_no_other_goldens(const std::string& folder, const std::vector<std::string>& names);

}  // namespace heddle::testing
