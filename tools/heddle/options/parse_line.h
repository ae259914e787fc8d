// Reads a line of words by the tables of commands and options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "commands.h"

namespace heddle::cli {

/// The request of `command` where the line gives nothing: with the values of the tables.
Request request_for(const std::string& command);

/// Reads the words behind the name of the program. None where they ask for help or the version,
/// which is printed then. A User error for what the command does not take, with the nearest
/// spelling, and for values that are not legal.
std::optional<Request> parse_line(const std::vector<std::string>& words);

/// What `heddle --help` prints.
std::string help_text();

}  // namespace heddle::cli
