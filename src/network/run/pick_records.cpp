#include "network/run/pick_records.h"

#include "dag/declaration/declaration.h"
#include "heddle/records/record.h"
#include "heddle/support/error.h"

namespace heddle::network {

Json pick_records(const TuneTask& task, const std::vector<Schedule>& variants, const PickRow& row,
                  size_t of_rule) {
  Json all = Json::array();
  Json declaration;
  try {
    declaration = declaration_to_json(task.tmpl.dag().direct(), task.args);
  } catch (const Error&) {
    return all;  // it has no such form, so nothing can be learned of it
  }
  for (size_t v = 0; v < variants.size(); ++v) {
    Record r = make_record(task.name, task.tmpl, task.tmpl.default_config());
    r.config = Json::object();  // steps alone
    r.template_version = 0;
    r.alternative = variants[v].dag().alternative();
    r.steps = steps_of(variants[v]);
    r.seconds = row.variants[v].seconds;
    r.base_seconds = row.variants[of_rule].median();
    r.verdict = Verdict::Raced;
    r.protocol = "calls of the network";
    r.declaration = declaration;
    all.push_back(r.to_json());
  }
  return all;
}

}  // namespace heddle::network
