#include "heddle/dag/alternatives.h"
#include "heddle/records/database.h"
#include "heddle/support/error.h"
#include "support/table.h"

namespace heddle {

std::string describe(const Record& record) {
  std::string text = "record of " + (record.origin.empty() ? record.machine : record.origin);
  return record.ok() ? text + ", " + format_time(record.median()) : text;
}

namespace {

// A record's options are those that it was lowered with, unless the caller sets others.
AutoSchedulerOptions with_own_limits(const Record& record, AutoSchedulerOptions options) {
  const Json* made = record.steps.find("options");
  if (made && options.max_unroll == 0) options.max_unroll = options_from_json(*made).max_unroll;
  return options;
}

}  // namespace

Schedule replay(const Record& record, const ComputeDag& dag, const Target& target,
                const AutoSchedulerOptions& options) {
  return Schedule::from_json(record.steps, dag, record.target)
      .for_target(target, with_own_limits(record, options));
}

Schedule schedule_of(const Record& record, const ComputeDag& dag, const Target& target,
                     const AutoSchedulerOptions& options) {
  std::string why_no_template;
  try {
    // A template for this declaration may lack the values of the record or refuse them. Then the
    // steps themselves are replayed.
    const Template t = make_template(apply_alternative(dag, record.alternative), target,
                                     with_own_limits(record, options));
    if (t.fingerprint() == record.template_version) {
      Schedule s = t.instantiate(t.config_from_json(record.config));
      s.provenance = describe(record);
      return s;
    }
    why_no_template = "template '" + t.name() + "' has changed since";
  } catch (const Error& e) {
    if (e.kind == ErrorKind::Internal) throw;
    why_no_template = e.message;
  }
  try {
    Schedule s = replay(record, dag, target, options);
    s.provenance = describe(record) + ", replayed";
    return s;
  } catch (const Error& e) {
    // Steps come from a file with arbitrary contents. The checks of the steps reject what is not
    // legal, some of them as invariants.
    throw_user_error("the record of '" + record.subject + "' does not apply: " + why_no_template +
                         "; " + e.message,
                     {}, "measure it anew (heddle tune), or leave the record out");
  }
}

}  // namespace heddle
