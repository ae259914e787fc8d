// Which rules that rewrite graphs the random pairs have never drawn.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "heddle/dag/alternatives.h"
#include "selftest/coverage.h"

namespace heddle::testing {

/// Is the rule ever offered for this target? (A rule that is not named here: yes.)
inline bool is_offered(const std::string& rule, const Target& target) {
  if (target.is_cuda()) return rule != "winograd" && rule != "flip_sign";
  // For CPUs that multiply bytes of both signs, but not of one.
  return rule != "flip_sign" || (target.dots_bytes(true, false) && !target.dots_bytes(true, true) &&
                                 !target.has("amx-int8"));
}

/// The rules that exist and are offered for `target`, but were drawn with none of their parameters;
/// of split_k and winograd, each parameter by itself.
inline std::vector<std::string> undrawn_rules(const selftest::Coverage& coverage,
                                              const Target& target) {
  std::vector<std::string> wanted;
  for (const std::string& rule : rewrite_rule_names()) {
    if (!is_offered(rule, target)) continue;
    if (rule == "split_k") {
      wanted.insert(wanted.end(), {"split_k(parts=4)", "split_k(parts=16)"});
    } else if (rule == "winograd") {
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
