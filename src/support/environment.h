// The environment variables that Heddle reads, in one table.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace heddle::internal {

struct EnvironmentVariable {
  const char* name;
  const char* what;       ///< what it sets, as a clause
  const char* otherwise;  ///< what holds where it is not set
};

/// All of them, by name. docs/reference/environment.md is written from this list.
std::span<const EnvironmentVariable> environment_variables();

/// The value of a variable of the table; empty where it is not set. Any other name is an internal
/// error.
std::string environment_value(std::string_view name);

}  // namespace heddle::internal
