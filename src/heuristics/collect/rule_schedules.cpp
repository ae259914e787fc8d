#include "heuristics/collect/rule_schedules.h"

#include <cstdint>
#include <optional>
#include <set>

#include "heddle/heuristics/constants.h"
#include "heddle/schedule/meta_template.h"
#include "heddle/support/error.h"
#include "measure/task/steps_hash.h"
#include "schedule/templates/graph_choice.h"

namespace heddle::learning {
namespace {

constexpr int kValues = 5;  // across the range of a constant that decides

}  // namespace

Schedule rule_schedule(bool of_graphs, const Template& rule, const RuleConstants& constants) {
  const ComputeDag& dag = rule.dag().direct();
  const auto source = rules_with(constants);
  const Template made = of_graphs
                            ? make_static_template_with(dag, rule.target(), rule.options(), source)
                            : make_template_with(dag, rule.target(), rule.options(), source);
  return made.static_schedule();
}

std::vector<Schedule> schedules_of_constants(bool of_graphs, const Template& rule) {
  const uint64_t usual = measuring::steps_hash(rule_schedule(of_graphs, rule, default_constants()));
  std::set<uint64_t> known = {usual};
  std::vector<Schedule> made;
  // Whether another schedule is made with the constant at this value.
  const auto decides = [&](const ConstantInfo& info, double value) {
    RuleConstants other = default_constants();
    set_value(&other, info, value);
    try {
      Schedule s = rule_schedule(of_graphs, rule, other);
      const uint64_t key = measuring::steps_hash(s);
      if (known.insert(key).second) made.push_back(std::move(s));
      return key != usual;
    } catch (const Error&) {
      return false;  // rules with such a constant make no schedule
    }
  };
  for (const ConstantInfo& info : constants_of(rule.target().kind)) {
    // Most constants do not matter to a problem.
    const bool low = decides(info, info.low), high = decides(info, info.high);
    if (!low && !high) continue;
    for (const double value : values_across(info, kValues)) decides(info, value);
  }
  return made;
}

}  // namespace heddle::learning
