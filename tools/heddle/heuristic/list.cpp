#include <iostream>
#include <optional>
#include <string>

#include "commands.h"
#include "heddle/heuristics/constants.h"
#include "heddle/heuristics/heuristic.h"
#include "heddle/records/tophub.h"
#include "heuristics/tophub_files.h"
#include "subjects/target_text.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

Json json_of(const Heuristic& h) {
  Json features = Json::array(), parameters = Json::array();
  for (const HeuristicFeature& f : h.all_features()) features.push_back(f.name);
  for (const ChoiceParameter& p : h.parameters) {
    Json parameter = Json::object({{"name", p.name}});
    if (!p.labels.empty()) parameter["values"] = Json::array_of(p.labels);
    parameters.push_back(std::move(parameter));
  }
  return Json::object({{"name", h.name},
                       {"version", h.version},
                       {"kind", h.target_kind},
                       {"about", h.about},
                       {"features", std::move(features)},
                       {"parameters", std::move(parameters)}});
}

Json number(double value, const ConstantInfo& info) {
  return info.is_count() ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

}  // namespace

int list_heuristics(const Request& options) {
  if (options.json) {
    Json all = Json::array();
    for (const Heuristic* h : all_heuristics()) all.push_back(json_of(*h));
    std::cout << all.dump(1) << "\n";
    return 0;
  }
  Table table({"heuristic", "version", "target", "features", "about"});
  for (const std::size_t column : {2, 4}) table.align_left(column);
  for (const Heuristic* h : all_heuristics()) {
    table.add_row({h->name, std::to_string(h->version), h->target_kind,
                   std::to_string(h->all_features().size()), h->about});
  }
  std::cout << table.to_string();
  return 0;
}

int list_constants(const Request& options) {
  const Target target = target_of(options.target, options.threads);
  // A file that cannot be read is an error here; elsewhere the defaults hold and a log says so.
  std::optional<std::string> file = tophub_file(target, ".constants");
  if (!file) file = learning::file_of_any_chip(target.kind, ".constants");
  const RuleConstants now = file ? read_constants(*file, target.kind) : RuleConstants();
  Json all = Json::array();
  Table table({"constant", "value", "default", "least", "most", "unit", "about"});
  for (const std::size_t column : {5, 6}) table.align_left(column);
  for (const ConstantInfo& info : constants_of(target.kind)) {
    const Json value = number(value_of(now, info), info),
               usual = number(value_of(default_constants(), info), info),
               low = number(info.low, info), high = number(info.high, info);
    all.push_back(Json::object({{"name", std::string(info.name)},
                                {"unit", std::string(info.unit)},
                                {"about", std::string(info.about)},
                                {"value", value},
                                {"default", usual},
                                {"least", low},
                                {"most", high}}));
    table.add_row({std::string(info.name), value.dump(), usual.dump(), low.dump(), high.dump(),
                   std::string(info.unit), std::string(info.about)});
  }
  if (options.json) {
    std::cout << Json::object(
                     {{"kind", target.kind}, {"file", file.value_or("")}, {"constants", all}})
                     .dump(1)
              << "\n";
    return 0;
  }
  std::cout << table.to_string()
            << (file ? "The values are of " + *file
                     : std::string("No file has others than the defaults"))
            << "\n";
  return 0;
}

}  // namespace heddle::cli
