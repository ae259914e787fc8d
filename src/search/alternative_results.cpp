#include "search/alternative_results.h"

#include <algorithm>

namespace heddle::search {
namespace {

/// The measurements of one branch of the task's template.
AlternativeResult of_branch(const TaskRun& run, int branch, std::span<const UserChoice> choices) {
  const Template& t = run.task.tmpl;
  const Template own = t.branch(branch);
  AlternativeResult out{.name = own.dag().alternative(), .template_name = own.name()};
  for (const UserChoice& c : choices) {
    if (alternative_name(c) != out.name) continue;
    out.numerics = c.numerics;
    out.error_growth = c.error_growth;
  }
  if (!out.name.empty() && !is_user_choice(out.name)) {
    out.numerics = alternative_numerics(t.dag(), out.name);
    out.error_growth = alternative_error_growth(t.dag(), out.name);
  }
  if (branch >= std::ssize(run.branches())) return out;
  const TaskRun::Branch& measured = run.branches()[static_cast<size_t>(branch)];
  out.trials = measured.trials;
  if (!measured.best) return out;
  out.best_seconds = measured.seconds;
  out.config = own.config_to_json(t.config_in_branch(*measured.best));
  return out;
}

}  // namespace

std::vector<AlternativeResult> alternative_results(const TaskRun& run, const TaskResult& result,
                                                   std::span<const UserChoice> choices) {
  const Template& t = run.task.tmpl;
  std::vector<AlternativeResult> out;
  for (int b = 0; b < t.num_branches(); ++b) {
    out.push_back(of_branch(run, b, choices));
    if (out.back().name == result.schedule.dag().alternative() && result.best_seconds > 0)
      out.back().best_seconds = result.best_seconds;
  }
  for (const Alternative& a :
       alternatives_of(t.dag().direct(), t.target(), alternative_policy(t.options()))) {
    if (a.legal()) continue;
    out.push_back({.name = a.name,
                   .numerics = a.numerics,
                   .error_growth = a.error_growth,
                   .why_not = a.why_not});
  }
  return out;
}

}  // namespace heddle::search
