#include <iostream>

#include "commands.h"
#include "heddle/heuristics/heuristic.h"
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

}  // namespace heddle::cli
