// The parameters of rewrite rules, by the names of the rules.
#pragma once

#include <string>
#include <vector>

#include "heddle/dag/alternatives.h"

namespace heddle {

/// The parameters of a registered rule. Throws a User error for another name.
std::vector<RewriteParameter> rewrite_parameters(const std::string& rule);

}  // namespace heddle
