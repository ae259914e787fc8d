#include "heddle/dag/alternatives.h"
#include "heddle/records/database.h"
#include "heddle/support/error.h"
#include "heddle/support/table.h"

namespace heddle {

std::string describe(const Record& record) {
  std::string text = "record of " + (record.origin.empty() ? record.machine : record.origin);
  return record.ok() ? text + ", " + format_time(record.median()) : text;
}

Schedule schedule_of(const Record& record, const ComputeDag& dag, const Target& target) {
  std::string why_no_template;
  try {
    // A template made for this declaration may lack the values that the record has, or refuse them:
    // then the steps themselves are what counts.
    const Template t = make_template(apply_alternative(dag, record.alternative), target);
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
    Schedule s = Schedule::from_json(record.steps, dag);
    s.provenance = describe(record) + ", replayed";
    return s;
  } catch (const Error& e) {
    // Steps come from a file, where anything may stand; what no step may do, the checks of the
    // steps say, some of them as invariants.
    throw_user_error("the record of '" + record.subject + "' does not apply: " + why_no_template +
                         "; " + e.message,
                     {}, "measure it anew (heddle tune), or leave the record out");
  }
}

}  // namespace heddle
