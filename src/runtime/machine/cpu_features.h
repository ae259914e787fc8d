// The features of this CPU by LLVM's names, used by Target and by the loader of exported kernels.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::internal {

/// The features that the operating system lets programs use, probed once. The first call requests
/// the tile registers of AMX, so it must precede any kernel that uses them.
const std::vector<std::string>& host_features();

/// Features of x86-64 beyond those of host_features() that a compiler uses where the name of a CPU
/// implies them, such as "gfni". The code of an exported kernel may contain them, so it names them.
std::span<const std::string_view> implied_features();

/// The features of `needed` that this machine lacks. It knows those of host_features() and of
/// implied_features(); all others are missing.
std::vector<std::string> missing_features(const std::vector<std::string>& needed);

/// Throws a Runtime error that names what this machine lacks of `needed`, the features of code that
/// was compiled for `target`. `what` is the code: "kernel 'dense'".
void require_features(const std::string& what, const std::string& target,
                      const std::vector<std::string>& needed);

}  // namespace heddle::internal
