// The program that workers run, and how it is found.
#pragma once

#include <string>
#include <vector>

namespace heddle::measuring {

/// `command` if it says anything; else heddle-worker: what HEDDLE_WORKER names, or where it was
/// built or installed with this library, which it is told to load. Throws a Runtime error that says
/// where it was looked for.
std::vector<std::string> worker_command(const std::vector<std::string>& command);

}  // namespace heddle::measuring
