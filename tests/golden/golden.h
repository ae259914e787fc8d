// Golden texts: the compiler's output for a subject, checked in under tests/golden, so that a
// change of a rule, a recipe or a pass is reviewed as a diff.
//
//   ctest --test-dir build -R golden                       compares
//   HEDDLE_UPDATE_GOLDENS=1 ctest --test-dir build -R golden    rewrites them; then: git diff
#pragma once

#include <string>
#include <vector>

namespace heddle::testing {

/// Whether HEDDLE_UPDATE_GOLDENS is set (to anything but "0").
bool updating_goldens();

/// Expects `text` to equal tests/golden/<name>.txt, or writes it there while goldens are rewritten.
/// Fails with a diff and the command that rewrites. `name` may have a folder.
void expect_golden(const std::string& name, const std::string& text);

/// Expects that there is no tests/golden/<name>.txt, or removes it while goldens are rewritten.
void expect_no_golden(const std::string& name);

/// Expects every .txt file in tests/golden/<folder> to be one of `names` (paths as above), because
/// a golden without a test checks nothing. While goldens are rewritten, the others are removed.
/// A folder that does not exist has none.
void expect_no_other_goldens(const std::string& folder, const std::vector<std::string>& names);

}  // namespace heddle::testing
