// What the CPU here can do, by LLVM's names of features; used by Target and by the loader of
// exported kernels.
#pragma once

#include <string>
#include <vector>

namespace heddle::detail {

/// Those that the operating system lets programs use; probed once. The first call asks it for the
/// tile registers of AMX, so it comes before any kernel that uses them.
const std::vector<std::string>& host_features();

/// Those of `needed` that this machine lacks.
std::vector<std::string> missing_features(const std::vector<std::string>& needed);

}  // namespace heddle::detail
