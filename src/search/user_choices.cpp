#include "search/user_choices.h"

#include <algorithm>

#include "driver/tolerance.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/driver/build.h"
#include "heddle/schedule/meta_template.h"
#include "heddle/support/error.h"
#include "measure/task/measured_task.h"

namespace heddle::search {
namespace {

// Declarations with fewer operations than this are interpreted. Larger ones are compiled naively.
constexpr double kInterpretedFlops = 1e6;

void check_policy(const TuneTask& task, const UserChoice& choice) {
  AlternativePolicy policy = alternative_policy(task.tmpl.options());
  const std::string why = why_excluded(policy, choice.numerics, choice.error_growth);
  if (why.empty()) return;
  throw_user_error("the choice '" + choice.name + "' is not allowed: " + why, {},
                   "set AutoSchedulerOptions::allow_approximate or max_error_growth, or leave the "
                   "choice out");
}

/// The outputs of the declaration, in the order of the graph.
std::vector<NDArray> reference(const TuneTask& task, const std::vector<NDArray>& arrays) {
  const ComputeDag& dag = task.tmpl.dag();
  if (dag.total_flops() <= kInterpretedFlops) {
    std::vector<TensorValue> inputs;
    for (size_t i = 0; i < task.args.size(); ++i) {
      if (!measuring::is_output(task.args[i])) inputs.push_back({task.args[i], arrays[i]});
    }
    return interpret(dag.outputs(), inputs);
  }
  build(measuring::vector_schedule(dag), task.args).call(arrays);
  std::vector<NDArray> out;
  for (const Tensor& t : dag.outputs()) {
    for (size_t i = 0; i < task.args.size(); ++i) {
      if (task.args[i].same_as(t)) out.push_back(arrays[i].copy());
    }
  }
  return out;
}

void check_results(const TuneTask& task, const ComputeDag& dag, const UserChoice& choice,
                   const std::vector<NDArray>& want, const std::vector<NDArray>& arrays) {
  for (size_t i = 0; i < task.args.size(); ++i) {
    if (measuring::is_output(task.args[i])) measuring::poison(arrays[i]);
  }
  build(measuring::vector_schedule(dag), task.args).call(arrays);
  const std::vector<Tensor>& outputs = task.tmpl.dag().outputs();
  for (size_t o = 0; o < want.size(); ++o) {
    for (size_t i = 0; i < task.args.size(); ++i) {
      if (!task.args[i].same_as(outputs[o])) continue;
      // Inputs and the terms of sums are of the order of 1.
      const driver::Tolerance t = driver::rounding_tolerance(task.tmpl.dag(), want[o], 1);
      const Difference d =
          compare(arrays[i], want[o], choice.error_growth * t.rtol, choice.error_growth * t.atol);
      if (d.ok()) continue;
      throw_user_error("the choice '" + choice.name + "' does not compute output '" +
                           outputs[o].name() + "': on random inputs, " + describe(d, arrays[i]),
                       {},
                       "correct it; where its rounding errors are larger by design, say so "
                       "(UserChoice::error_growth)");
    }
  }
}

void check_numerically(const TuneTask& task, std::span<const UserChoice> choices,
                       const std::vector<Template>& forms) {
  std::vector<NDArray> arrays;
  for (size_t i = 0; i < task.args.size(); ++i) {
    const Tensor& t = task.args[i];
    arrays.push_back(measuring::is_output(t) ? NDArray::empty(t.extents(), t.dtype())
                     : task.make_input       ? task.make_input(i)
                                             : measuring::random_input(task, i));
  }
  const std::vector<NDArray> want = reference(task, arrays);
  for (size_t c = 0; c < choices.size(); ++c)
    check_results(task, forms[forms.size() - choices.size() + c].dag(), choices[c], want, arrays);
}

}  // namespace

TuneTask with_choices(TuneTask task, std::span<const UserChoice> choices) {
  if (choices.empty()) return task;
  const Template& all = task.tmpl;
  std::vector<Template> forms;
  for (int b = 0; b < all.num_branches(); ++b) forms.push_back(all.branch(b));
  for (const UserChoice& c : choices) {
    check_policy(task, c);
    const ComputeDag dag = as_alternative_of(all.dag(), c);
    const bool known = std::any_of(forms.begin(), forms.end(), [&](const Template& t) {
      return t.dag().alternative() == dag.alternative();
    });
    if (known)
      throw_user_error("two choices have the name '" + c.name + "'", {},
                       "give each a name of its own");
    forms.push_back(make_template(dag, all.target(), all.options()));
  }
  check_numerically(task, choices, forms);
  const int chosen = all.branch_of(all.default_config());
  task.tmpl = Template::of_alternatives(forms, static_cast<size_t>(chosen));
  return task;
}

}  // namespace heddle::search
