// Which rules that rewrite graphs the random pairs have never drawn.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "heddle/dag/alternatives.h"
#include "selftest/coverage.h"

namespace heddle::testing {

/// The rules that were drawn with none of their parameters; of winograd, each tile by itself. A pair is judged by
/// the tolerance of the direct form, so dynamic_quantization, whose results are approximate, has random
/// declarations in a test of its own.
inline std::vector<std::string> undrawn_rules(const selftest::Coverage& coverage) {
  std::vector<std::string> wanted;
  for (const std::string& rule : rewrite_rule_names()) {
    if (rule == "dynamic_quantization") continue;
    if (rule == "winograd") {
      wanted.insert(wanted.end(), {"winograd(tile=2)", "winograd(tile=4)"});
    } else {
      wanted.push_back(rule);
    }
  }
  std::erase_if(wanted, [&](const std::string& name) {
    return std::any_of(
        coverage.alternatives.begin(), coverage.alternatives.end(),
        [&](const auto& drawn) { return drawn.first.starts_with(name) && drawn.second > 0; });
  });
  return wanted;
}

}  // namespace heddle::testing
