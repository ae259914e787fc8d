#include "network/audit/task_schedule.h"

#include <algorithm>

#include "driver/constant_schedule.h"

namespace heddle::network {
namespace {

std::string text_of(const Json* value) {
  if (value == nullptr) return "-";
  return value->is_string() ? value->as_string() : value->dump();
}

bool equal(const Json* a, const Json* b) {
  return a == nullptr || b == nullptr ? a == b : *a == *b;
}

}  // namespace

TaskSchedule schedule_of_config(const TuneTask& task, const Config& config, AuditBound from,
                                const std::string& source) {
  const Template branch = task.tmpl.branch(task.tmpl.branch_of(config));
  return {task.tmpl.instantiate(config),
          task.tmpl.config_to_json(config),
          branch.name(),
          branch.dag().alternative(),
          from,
          source};
}

TaskSchedule schedule_of_rules(const TuneTask& task) {
  TaskSchedule rules = schedule_of_config(task, task.tmpl.default_config(), AuditBound::Rules, "");
  rules.schedule = task.tmpl.static_schedule();
  rules.source = rules.schedule.provenance;
  return rules;
}

std::optional<TaskSchedule> schedule_of_records(const TuneTask& task) {
  const Template& t = task.tmpl;
  std::optional<driver::RecordChoice> found =
      driver::record_choice(t.dag().outputs(), t.target(), t.options());
  if (!found) return std::nullopt;
  Json config = found->record.config;
  if (!found->record.alternative.empty()) config["alternative"] = Json(found->record.alternative);
  const std::string source = found->schedule.provenance;
  return TaskSchedule{std::move(found->schedule), std::move(config),  found->record.template_name,
                      found->record.alternative,  AuditBound::Record, source};
}

std::vector<std::string> knobs_that_differ(const Json& from, const Json& to) {
  std::vector<std::string> names;
  for (const auto& [name, value] : to.members()) {
    if (!equal(from.find(name), &value)) names.push_back(name);
  }
  for (const auto& [name, value] : from.members()) {
    if (to.find(name) == nullptr) names.push_back(name);
  }
  return names;
}

std::string config_difference(const Json& from, const Json& to) {
  std::string text;
  for (const std::string& name : knobs_that_differ(from, to)) {
    text += (text.empty() ? "" : ", ") + name + " " + text_of(from.find(name)) + " -> " +
            text_of(to.find(name));
  }
  return text;
}

std::vector<std::string> reasons_of(const Template& branch, const std::vector<std::string>& names) {
  std::vector<std::string> first, rest;
  for (const Knob& k : branch.knobs()) {
    if (k.reason.empty()) continue;
    const bool named = std::find(names.begin(), names.end(), k.name) != names.end();
    (named ? first : rest)
        .push_back(k.name + " = " + k.text_of(k.default_value) + ": " + k.reason +
                   (k.source == Choice::kRule ? "" : " (" + k.source + ")"));
  }
  for (const std::vector<std::string>& list : {rest, branch.notes()})
    first.insert(first.end(), list.begin(), list.end());
  return first;
}

}  // namespace heddle::network
