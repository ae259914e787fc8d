#include "driver/second_choice.h"

#include <algorithm>

#include "driver/constant_schedule.h"
#include "driver/near_schedule.h"
#include "heddle/dag/alternatives.h"
#include "schedule/templates/graph_choice.h"

namespace heddle::driver {
namespace {

constexpr double kNear = 0.9;  // of the expected speed-up of the first graph

/// The graph that may be as fast as `chosen`; none where the estimates are sure.
std::optional<std::string> second_graph(const ComputeDag& dag, const Template& t,
                                        const std::string& chosen) {
  const AlternativePolicy policy = alternative_policy(t.options());
  const std::vector<Alternative> all = alternatives_of(dag, t.target(), policy);
  const Alternative* best = most_promising(all);
  const std::string by_rule = best ? best->name : "";
  if (chosen != by_rule) return by_rule;
  const double first = best ? best->speedup : 1;
  std::optional<std::string> second;
  double speedup = kNear * first;
  const auto consider = [&](const std::string& name, double of_it) {
    if (name == chosen || of_it < speedup) return;
    second = name;
    speedup = of_it;
  };
  consider("", 1);
  for (const Alternative& a : all) {
    if (a.legal()) consider(a.name, a.speedup);
  }
  return second;
}

}  // namespace

std::optional<Schedule> second_choice(const Template& alternatives) {
  const ComputeDag& dag = alternatives.dag().direct();
  const AutoSchedulerOptions& options = alternatives.options();
  if (record_choice(dag.outputs(), alternatives.target(), options)) return std::nullopt;
  const Schedule rule = alternatives.static_schedule();
  if (near_schedule(dag, rule, options).schedule) return rule;
  const std::optional<std::string> other =
      second_graph(dag, alternatives, rule.dag().alternative());
  const int branch = other ? alternatives.find_branch(*other) : -1;
  if (branch < 0) return std::nullopt;
  return alternatives.branch(branch).static_schedule();
}

}  // namespace heddle::driver
