// The program that workers run, and how it is found.
#pragma once

#include <string>
#include <vector>

namespace heddle::measuring {

/// `command` if it is not empty. Otherwise heddle-worker: the program that HEDDLE_WORKER names, or
/// the one that was built or installed with this library. The program is told to load this library.
/// Throws a Runtime error with the places that were searched.
std::vector<std::string> worker_command(const std::vector<std::string>& command);

}  // namespace heddle::measuring
