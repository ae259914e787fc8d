// Writes tree files.
#include <utility>

#include "heuristics/names.h"
#include "heuristics/trained_features.h"
#include "heuristics/trees/tree_file.h"
#include "support/files/file.h"
#include "support/tree/json.h"

namespace heddle::learning {
namespace {

/// A member of the object, with one line for each element.
std::string lines(const char* key, const std::vector<Json>& elements) {
  std::string text = Json(key).dump() + ": [";
  for (std::size_t i = 0; i < elements.size(); ++i) {
    text += (i > 0 ? ",\n  " : "\n  ") + elements[i].dump();
  }
  return text + "]";
}

Json leaf_json(const TrainedTree& tree, const TreeLeaf& leaf) {
  Json ranking = Json::array();
  for (std::int32_t i = leaf.first; i < leaf.first + leaf.count; ++i) {
    const RankedChoice& ranked = tree.ranking[static_cast<std::size_t>(i)];
    ranking.push_back(Json::array(
        {ranked.choice == kRuleChoice ? Json() : Json(ranked.choice), ranked.slowdown}));
  }
  return Json::object({{"verdict", to_string(leaf.verdict)},
                       {"support", leaf.support},
                       {"regret", leaf.regret},
                       {"regret_bound", leaf.regret_bound},
                       {"loss", leaf.loss},
                       {"loss_bound", leaf.loss_bound},
                       {"worst_loss", leaf.worst_loss},
                       {"ranking", std::move(ranking)}});
}

Json term_json(const TrainedTree& tree, const SumTerm& term) {
  Json rows = Json::array();
  const std::size_t width = tree.choices.size();
  for (std::size_t at = 0; at < term.values.size(); at += width) {
    Json row = Json::array();
    for (std::size_t c = 0; c < width; ++c) {
      row.push_back(Json(shortest(term.values[at + c])));
    }
    rows.push_back(std::move(row));
  }
  return Json::object(
      {{"nodes", tree_to_json(term.nodes, names_of(tree.features))}, {"values", std::move(rows)}});
}

template <typename T, typename ToJson>
std::vector<Json> all(const std::vector<T>& items, ToJson to_json) {
  std::vector<Json> out;
  for (const T& item : items) out.push_back(to_json(item));
  return out;
}

}  // namespace

std::string tree_to_text(const TrainedTree& t) {
  const auto member = [](const char* key, const Json& value) {
    return Json(key).dump() + ": " + value.dump() + ",\n";
  };
  std::string text = "{";
  text += member("heddle_tree", 2);
  text += member("heuristic", t.heuristic) + member("version", t.version);
  text += member("machine", t.machine) + member("target", t.target) + member("date", t.date);
  text += member("problems", t.problems) + member("measurements", t.measurements);
  text += member("seed", static_cast<std::int64_t>(t.seed)) + member("margin", t.margin);
  text += member("confidence", t.limits.confidence);
  text += member("allowed_loss", t.limits.allowed_loss);
  text += member("allowed_worst_loss", t.limits.allowed_worst_loss);
  text += member("least_gain", t.limits.least_gain);
  text += member("training", t.training);
  text += lines("features", all(t.features, feature_json)) + ",\n";
  if (t.kinds) text += lines("kinds", all(*t.kinds, kind_json)) + ",\n";
  text += lines("choices", all(t.choices, [](const std::string& c) { return Json(c); })) + ",\n";
  text += lines("nodes", tree_to_json(t.nodes, names_of(t.features)).elements()) + ",\n";
  text +=
      lines("leaves", all(t.leaves, [&](const TreeLeaf& l) { return leaf_json(t, l); })) + ",\n";
  text += lines("sum", all(t.sum, [&](const SumTerm& term) { return term_json(t, term); }));
  return text + "}\n";
}

void write_tree(const std::string& path, const TrainedTree& tree) {
  write_file_atomic(path, tree_to_text(tree));
}

std::string tree_file_name(std::string_view kind, std::string_view chip,
                           std::string_view heuristic) {
  return std::string(kind) + "-" + std::string(chip) + "." + std::string(heuristic) + ".tree";
}

}  // namespace heddle::learning
