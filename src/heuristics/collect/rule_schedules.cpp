#include "heuristics/collect/rule_schedules.h"

#include <cstdint>
#include <map>
#include <set>

#include "heddle/heuristics/constants.h"
#include "heddle/schedule/meta_template.h"
#include "heddle/support/error.h"
#include "measure/task/steps_hash.h"
#include "schedule/templates/graph_choice.h"
#include "support/hashing/hex.h"

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

std::string schedule_key(const Schedule& schedule) {
  return to_hex(measuring::steps_hash(schedule));
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
    const std::vector<double> values = values_across(info, kValues);
    // Most constants do not matter to a problem.
    const bool low = decides(info, values.front()), high = decides(info, values.back());
    for (size_t v = 1; (low || high) && v + 1 < values.size(); ++v) decides(info, values[v]);
  }
  return made;
}

std::vector<std::size_t> add_schedules_of_constants(bool of_graphs, BuiltChoices& built) {
  std::map<uint64_t, std::size_t> known;
  for (std::size_t i = 0; i < built.schedules.size(); ++i)
    known.emplace(measuring::steps_hash(built.schedules[i]), i);
  std::vector<std::size_t> places;
  for (Schedule& s : schedules_of_constants(of_graphs, built.rule)) {
    const auto [at, is_new] = known.emplace(measuring::steps_hash(s), built.schedules.size());
    if (is_new) built.schedules.push_back(std::move(s));
    places.push_back(at->second);
  }
  return places;
}

}  // namespace heddle::learning
