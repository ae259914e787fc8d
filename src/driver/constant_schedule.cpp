#include <exception>

#include "driver/constant_schedule.h"
#include "driver/near_schedule.h"
#include "driver/records_may_answer.h"
#include "heddle/dag/alternatives.h"
#include "heddle/driver/build.h"
#include "heddle/records/tophub.h"
#include "heddle/support/error.h"
#include "schedule/steps/schedule_state.h"
#include "schedule/templates/naive_steps.h"
#include "support/log.h"

namespace heddle {

using namespace driver;

bool driver::records_may_answer(const AutoSchedulerOptions& o) {
  AutoSchedulerOptions rest = o;
  rest.vector_bytes = rest.threads = 0;
  rest.record_log.clear();
  rest.use_heuristics = true;  // a record is preferred to rules and learned choices
  // The alternative of a record is checked on its own (why_forbidden).
  rest.use_alternatives = true;
  rest.max_error_growth = AutoSchedulerOptions().max_error_growth;
  rest.allow_approximate = false;
  return rest == AutoSchedulerOptions();
}

std::string driver::why_alternative_forbidden(const std::string& alternative, const ComputeDag& dag,
                                              const AutoSchedulerOptions& o) {
  if (alternative.empty()) return "";
  if (!o.use_alternatives) return "it is of " + alternative + ", and alternatives are turned off";
  try {
    const std::string why =
        why_excluded(alternative_policy(o), alternative_numerics(dag, alternative),
                     alternative_error_growth(dag, alternative));
    return why.empty() ? "" : "it is of " + alternative + ", and " + why;
  } catch (const Error& e) {
    return e.message;
  }
}

namespace {

/// The best record that applies. Records that do not apply are added to `skipped`.
std::optional<RecordChoice> from_records(const ComputeDag& dag, const Target& base,
                                         const AutoSchedulerOptions& options,
                                         std::string* skipped) {
  if (!records_may_answer(options)) return std::nullopt;
  const Target target = apply_options(base, options);
  const std::shared_ptr<const RecordDatabase> known = tophub(options.record_log);
  // The number of records to try. The best few records either apply or all fail for one reason, and
  // later ones may be slower than the rules.
  constexpr int kTried = 8;
  int tried = 0;
  for (const Record* r : known->ranked(dag.structural_hash(), target)) {
    if (tried == kTried) break;
    std::string why = why_alternative_forbidden(r->alternative, dag, options);
    if (why.empty()) ++tried;  // a forbidden record says nothing about the others
    try {
      if (why.empty()) return RecordChoice{schedule_of(*r, dag, base, options), *r};
    } catch (const Error& e) {
      why = e.message;
    } catch (const std::exception& e) {  // a log may contain anything
      why = e.what();
    }
    log_line("records", 1, describe(*r) + " skipped: " + why);
    if (skipped->empty()) *skipped = "; skipped the " + describe(*r) + ": " + why;
  }
  return std::nullopt;
}

/// The choice of the trees and rules.
Schedule static_choice(const Template& t) {
  Schedule s = t.static_schedule();
  if (!t.graph_source().empty()) s.provenance += "; alternative by " + t.graph_source();
  return s;
}

/// The knobs that trees chose, or why none did.
SourceAnswer tree_answer(const Template& t) {
  SourceAnswer tree{.source = "tree", .text = ""};
  const auto add = [&](const std::string& text) {
    tree.text += (tree.text.empty() ? "" : "; ") + text;
  };
  if (!t.graph_source().empty()) add("alternative by " + t.graph_source());
  for (const Knob& k : t.knobs()) {
    if (k.source != Choice::kRule) add(k.name + " by " + k.source);
  }
  tree.answers = !tree.text.empty();
  for (const TemplateRecording::Refusal& r : t.refusals())
    add("not taken" + (r.source.empty() ? "" : " from " + r.source) + ": " + r.why);
  if (tree.text.empty()) tree.text = "there is none for this choice and chip, or it is unsure";
  return tree;
}

}  // namespace

std::optional<Schedule> recorded_schedule(const std::vector<Tensor>& outputs, const Target& target,
                                          const AutoSchedulerOptions& options) {
  const std::optional<RecordChoice> found = record_choice(outputs, target, options);
  return found ? std::optional(found->schedule) : std::nullopt;
}

std::optional<RecordChoice> driver::record_choice(const std::vector<Tensor>& outputs,
                                                  const Target& target,
                                                  const AutoSchedulerOptions& options) {
  check_options(options);
  std::string skipped;
  return from_records(ComputeDag(outputs), target, options, &skipped);
}

Schedule driver::constant_schedule(const std::vector<Tensor>& outputs, const Target& target,
                                   const AutoSchedulerOptions& options) {
  check_options(options);
  const ComputeDag dag(outputs);
  std::string skipped;
  if (const std::optional<RecordChoice> recorded = from_records(dag, target, options, &skipped))
    return recorded->schedule;
  Schedule s = static_choice(make_static_template(dag, target, options));
  if (std::optional<Schedule> near = near_schedule(dag, s, options).schedule) s = *near;
  s.provenance += skipped;
  return s;
}

std::vector<SourceAnswer> driver::source_answers(const ComputeDag& dag, const Target& target,
                                                 const AutoSchedulerOptions& options) {
  check_options(options);
  std::string skipped;
  const std::optional<RecordChoice> recorded = from_records(dag, target, options, &skipped);
  const Template t = make_static_template(dag, target, options);
  const Schedule rule = static_choice(t);
  const NearAnswer near = near_schedule(dag, rule, options);
  std::string why_no_record = "the options leave records out";
  if (records_may_answer(options)) {
    why_no_record = skipped.empty() ? tophub(options.record_log)->why_no_hit(dag, rule.target())
                                    : "no record applies" + skipped;
  }
  return {
      {"record", recorded.has_value(), recorded ? recorded->schedule.provenance : why_no_record},
      {"near record", near.schedule.has_value(),
       near.schedule ? near.schedule->provenance : near.why_not},
      tree_answer(t),
      {"rule", true, rule.provenance}};
}

Schedule naive_schedule(const std::vector<Tensor>& outputs, const Target& target) {
  Schedule s(outputs, target);
  write_naive_steps(s, s.dag(), s.target());
  s.provenance = target.is_cuda() ? "naive: a kernel a stage, a thread an element"
                                  : "naive: outer loops fused and parallel";
  return s;
}

}  // namespace heddle
