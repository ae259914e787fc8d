// The features of this CPU by LLVM's names, used by Target and by the loader of exported kernels.
#pragma once

#include <string>
#include <vector>

namespace heddle::internal {

/// The features that the operating system lets programs use, probed once. The first call requests
/// the tile registers of AMX, so it must precede any kernel that uses them.
const std::vector<std::string>& host_features();

/// The features of `needed` that this machine lacks.
std::vector<std::string> missing_features(const std::vector<std::string>& needed);

}  // namespace heddle::internal
