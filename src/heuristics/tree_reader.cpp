// Reads tree files. Everything that answering relies on is checked here: indices, that each walk
// ends, and that each node and leaf has one place in its tree.
#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "heddle/support/error.h"
#include "heuristics/names.h"
#include "heuristics/trained_features.h"
#include "heuristics/trees/checked_json.h"
#include "heuristics/trees/tree_file.h"
#include "support/files/file.h"
#include "support/tree/json.h"

namespace heddle::learning {
namespace {

constexpr std::size_t kMostNodes = 65536, kMostFeatures = 4096;
constexpr std::int32_t kMostRanked = 64;

constexpr double kMostLogarithm = 1000;
constexpr std::int64_t kMostCount = std::int64_t{1} << 53;

RankedChoice read_ranked(const TrainedTree& tree, const Json& json) {
  RankedChoice ranked;
  if (json.size() != 2) throw_user_error("a ranked choice is [choice, slowdown]");
  ranked.slowdown = json.at(1).as_double();
  if (!(ranked.slowdown >= 1 && ranked.slowdown <= kLargest)) {
    throw_user_error("a slowdown is " + json.at(1).dump() + ", which is no number from 1 on");
  }
  if (json.at(0).is_null()) return ranked;
  const std::int64_t choice = json.at(0).as_int();
  if (choice < 0 || choice >= std::ssize(tree.choices)) {
    throw_user_error("there is no choice " + std::to_string(choice));
  }
  ranked.choice = static_cast<std::int32_t>(choice);
  return ranked;
}

void read_leaf(const Json& json, TrainedTree& tree) {
  TreeLeaf leaf;
  leaf.verdict = leaf_verdict(json.at("verdict").as_string());
  leaf.support = static_cast<std::int32_t>(integer(json, "support", 0, 1 << 30));
  leaf.regret = number(json, "regret", -kLargest, kLargest);
  leaf.regret_bound = number(json, "regret_bound", -kLargest, kLargest);
  leaf.loss = number(json, "loss", -kLargest, kLargest);
  leaf.loss_bound = number(json, "loss_bound", -kLargest, kLargest);
  leaf.worst_loss = number(json, "worst_loss", -kLargest, kLargest);
  leaf.first = static_cast<std::int32_t>(tree.ranking.size());
  for (const Json& ranked : list(json, "ranking", 0, kMostRanked)) {
    tree.ranking.push_back(read_ranked(tree, ranked));
    ++leaf.count;
  }
  tree.leaves.push_back(leaf);
}

void read_origin(const Json& json, TrainedTree& tree) {
  tree.heuristic = json.at("heuristic").as_string();
  tree.version = json.at("version").as_string();
  tree.machine = json.get_string("machine", "");
  tree.target = json.get_string("target", "");
  tree.date = json.get_string("date", "");
  tree.problems = integer(json, "problems", 0, kMostCount);
  tree.measurements = integer(json, "measurements", 0, kMostCount);
  tree.seed = static_cast<std::uint64_t>(json.at("seed").as_int());
  tree.margin = number(json, "margin", 0, 1000);
  tree.limits.confidence = number(json, "confidence", 0, 1);
  tree.limits.allowed_loss = number(json, "allowed_loss", 0, kLargest);
  tree.limits.allowed_worst_loss = number(json, "allowed_worst_loss", 0, kLargest);
  if (const Json* training = json.find("training")) tree.training = *training;
}

void read_term(const Json& json, TrainedTree& tree) {
  if (tree.choices.empty()) throw_user_error("there are no choices");
  SumTerm term;
  const std::vector<Json>& rows = list(json, "values", 1, kMostNodes);
  (void)list(json, "nodes", 1, kMostNodes);
  term.nodes = tree_from_json(json.at("nodes"), names_of(tree.features), rows.size());
  check_leaves(term.nodes, rows.size());
  for (const Json& row : rows) {
    if (row.elements().size() != tree.choices.size())
      throw_user_error("a row has " + std::to_string(row.elements().size()) + " values for " +
                       std::to_string(tree.choices.size()) + " choices");
    for (const Json& value : row.elements()) {
      const double number = value.as_double();
      if (!(number >= -kMostLogarithm && number <= kMostLogarithm))
        throw_user_error("a value is " + value.dump() + ", which is no logarithm of a slowdown");
      term.values.push_back(static_cast<float>(number));
    }
  }
  tree.sum.push_back(std::move(term));
}

/// A tree of format 1 as a sum of one tree. Its leaf answers the first choice of the ranking that is
/// legal, down to the rule. What it does not rank is never answered.
SumTerm term_of_ranking(const TrainedTree& tree) {
  constexpr double kNever = 2, kStep = 1e-6;
  SumTerm term{tree.nodes, std::vector<float>(tree.leaves.size() * tree.choices.size(), kNever)};
  for (std::size_t l = 0; l < tree.leaves.size(); ++l) {
    const TreeLeaf& leaf = tree.leaves[l];
    const std::span<const RankedChoice> ranking =
        std::span(tree.ranking)
            .subspan(static_cast<std::size_t>(leaf.first), static_cast<std::size_t>(leaf.count));
    const auto rule = std::ranges::find(ranking, kRuleChoice, &RankedChoice::choice);
    // The rule's time over that of the first choice.
    const double of_rule = ranking.empty() ? 0
                           : rule != ranking.end()
                               ? std::log(rule->slowdown)
                               : std::log(ranking[0].slowdown) - std::min(leaf.loss, 0.0);
    double before = -kNever;
    for (auto ranked = ranking.begin(); ranked != ranking.end(); ++ranked) {
      if (ranked->choice == kRuleChoice) continue;
      const double left = static_cast<double>(ranking.end() - ranked) * kStep;
      // Choices before the rule are faster than it, in the order of the ranking.
      const double most = ranked < rule ? -left : kNever;
      before = std::max(before + kStep, std::min(std::log(ranked->slowdown) - of_rule, most));
      term.values[l * tree.choices.size() + static_cast<std::size_t>(ranked->choice)] =
          static_cast<float>(before);
    }
  }
  return term;
}

/// Reads the elements of a list. Errors name the element that is wrong.
template <typename Read>
void read_list(const Json& json, const char* key, std::size_t least, std::size_t most, Read read) {
  const std::vector<Json>& elements = list(json, key, least, most);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    try {
      read(elements[i]);
    } catch (const Error& e) {
      refuse(key, i, e.message);
    }
  }
}

TrainedTree read_json(const Json& json) {
  const std::int64_t format = json.at("heddle_tree").as_int();
  if (format != 1 && format != 2) {
    throw_user_error("format " + std::to_string(format) +
                     " is not known: this version reads 1 and 2");
  }
  TrainedTree tree;
  read_origin(json, tree);
  std::set<std::string> names;
  read_list(json, "features", 1, kMostFeatures, [&](const Json& j) {
    tree.features.push_back(read_feature(j));
    if (!names.insert(tree.features.back().name).second) {
      throw_user_error("feature '" + tree.features.back().name + "' is there twice");
    }
  });
  if (json.find("kinds") != nullptr) {
    tree.kinds.emplace();
    read_list(json, "kinds", 0, kMostNodes,
              [&](const Json& j) { tree.kinds->push_back(read_kind(j, tree.features.size())); });
  }
  read_list(json, "choices", 0, kMostChoices,
            [&](const Json& j) { tree.choices.push_back(j.as_string()); });
  read_list(json, "leaves", 1, kMostNodes, [&](const Json& j) { read_leaf(j, tree); });
  (void)list(json, "nodes", 1, kMostNodes);
  tree.nodes = tree_from_json(json.at("nodes"), names_of(tree.features), tree.leaves.size());
  check_leaves(tree.nodes, tree.leaves.size());
  if (format == 1) {
    if (!tree.choices.empty()) tree.sum = {term_of_ranking(tree)};
    return tree;
  }
  tree.limits.least_gain = number(json, "least_gain", 0, kLargest);
  read_list(json, "sum", 0, kMostTerms, [&](const Json& j) { read_term(j, tree); });
  return tree;
}

/// Shortens a message, which may quote the input.
std::string cut(const std::string& message) {
  constexpr std::size_t kMost = 300;
  return message.size() <= kMost ? message : message.substr(0, kMost) + "...";
}

}  // namespace

TrainedTree parse_tree(std::string_view text, std::string_view source) {
  try {
    return read_json(Json::parse(text, "tree"));
  } catch (const Error& e) {
    throw_user_error(std::string(source) + ": this is no tree: " + cut(e.message), {},
                     "write the file anew with 'heddle heuristic train', or remove it");
  }
}

TrainedTree read_tree(const std::string& path) { return parse_tree(read_file(path), path); }

}  // namespace heddle::learning
