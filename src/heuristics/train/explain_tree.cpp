#include "heuristics/explain_tree.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "heddle/support/json.h"
#include "support/table.h"
#include "support/tree/outline.h"

namespace heddle::learning {
namespace {

/// A number as text. Whole numbers have no point.
std::string number(double value) {
  std::string text = Json(value).dump();
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string value_text(const TreeFeature& feature, double value) {
  if (std::isnan(value)) return "unknown";
  if (feature.kind == FeatureKind::Boolean) return value != 0 ? "true" : "false";
  const bool named = feature.kind == FeatureKind::Categorical && value >= 0 &&
                     value < static_cast<double>(feature.values.size());
  return named ? std::string(feature.values[static_cast<std::size_t>(value)]) : number(value);
}

std::string set_text(const TreeFeature& feature, std::uint64_t set) {
  std::string text;
  for (std::size_t i = 0; i < feature.values.size(); ++i) {
    if (((set >> i) & 1U) != 0) text += (text.empty() ? "" : ", ") + std::string(feature.values[i]);
  }
  return "{" + text + "}";
}

/// A question as text: "rows <= 64", or "rows > 64" for the answer no. `value` is put after the
/// name and may be empty.
std::string question(const TreeTable& tree, const TreeNode& node, bool yes,
                     const std::string& value) {
  const TreeFeature& feature = tree.features[static_cast<std::size_t>(node.feature)];
  const std::string name = std::string(feature.name) + (value.empty() ? "" : " " + value);
  switch (feature.kind) {
    case FeatureKind::Numeric: return name + (yes ? " <= " : " > ") + number(node.at_most);
    case FeatureKind::Boolean: return std::string(feature.name) + (yes ? " is false" : " is true");
    case FeatureKind::Categorical: break;
  }
  return name + (yes ? " is one of " : " is none of ") + set_text(feature, node.one_of);
}

/// The ratio of a logarithm of a ratio, as text.
std::string ratio(double logarithm) { return format_fixed(std::exp(logarithm), 3); }
std::string per_cent(double share) { return number(std::round(share * 1000) / 10) + " %"; }

std::string choice_text(const TreeTable& tree, std::int32_t choice) {
  return choice == kRuleChoice ? "the rule"
                               : std::string(tree.choices[static_cast<std::size_t>(choice)]);
}

std::string doubt_text(const TreeTable& tree, const TreeAnswer& answer,
                       std::span<const double> features) {
  if (answer.doubt == Doubt::WrongNumber) {
    return "unsure: the problem has " + std::to_string(features.size()) +
           " features, and the tree asks for " + std::to_string(tree.features.size());
  }
  const auto f = static_cast<std::size_t>(answer.feature);
  const TreeFeature& feature = tree.features[f];
  const std::string is = std::string(feature.name) + " is " + value_text(feature, features[f]);
  switch (answer.doubt) {
    case Doubt::Range:
      return "unsure: " + is + ", outside of " + number(feature.lowest) + ".." +
             number(feature.highest) + ", which training saw with its margin";
    case Doubt::Category:
      return "unsure: " + is + ", which training never saw: only " +
             set_text(feature, feature.seen);
    case Doubt::NotKnown:
    case Doubt::None:
    case Doubt::Leaf:
    case Doubt::WrongNumber: break;
  }
  return "unsure: " + is;
}

std::string path_text(const TreeTable& tree, std::span<const double> features) {
  std::string text;
  for (const TreeNode* node = &tree.nodes[0]; node->feature >= 0;) {
    const auto f = static_cast<std::size_t>(node->feature);
    const bool yes = says_yes(*node, features[f]);
    text += "  " + question(tree, *node, yes, value_text(tree.features[f], features[f])) + "\n";
    node = &tree.nodes[static_cast<std::size_t>(yes ? node->yes : node->no)];
  }
  return text;
}

std::string why_unsure(const TreeTable& tree, const TreeLeaf& leaf) {
  const TreeLimits& limits = tree.limits;
  if (leaf.loss_bound > std::log1p(limits.allowed_loss)) {
    return "its choice may take up to " + ratio(leaf.loss_bound) +
           " of the rule's time on average (" + per_cent(limits.confidence) +
           " confidence), and a loss of " + per_cent(limits.allowed_loss) + " is allowed";
  }
  return "on one held-out problem its choice took " + ratio(leaf.worst_loss) +
         " of the rule's time, and a loss of " + per_cent(limits.allowed_worst_loss) +
         " is allowed";
}

/// The features that decide, with the share of each of what the trees say about `choice`.
std::vector<std::pair<double, std::size_t>> shares_of_features(const TreeTable& tree,
                                                               std::span<const double> features,
                                                               std::size_t choice) {
  std::vector<std::pair<double, std::size_t>> shares;
  for (std::size_t f = 0; f < features.size(); ++f) shares.emplace_back(0, f);
  double all = 0;
  for (const std::int32_t root : tree.roots) {
    std::set<std::size_t> asked;
    const TreeNode* node = &tree.terms[static_cast<std::size_t>(root)];
    while (node->feature >= 0) {
      const auto f = static_cast<std::size_t>(node->feature);
      asked.insert(f);
      node = &tree.terms[static_cast<std::size_t>(says_yes(*node, features[f]) ? node->yes
                                                                               : node->no)];
    }
    const std::size_t row = static_cast<std::size_t>(node->yes) * tree.choices.size();
    const double said = std::abs(static_cast<double>(tree.values[row + choice]));
    for (const std::size_t f : asked) shares[f].first += said / static_cast<double>(asked.size());
    if (!asked.empty()) all += said;
  }
  for (auto& [share, f] : shares) share = all > 0 ? share / all : 0;
  std::ranges::stable_sort(shares, std::greater{}, &std::pair<double, std::size_t>::first);
  return shares;
}

std::string decided_by(const TreeTable& tree, std::span<const double> features,
                       std::int32_t choice) {
  constexpr int kNamed = 3;
  int named = 0;
  std::string text;
  for (const auto& [share, f] :
       shares_of_features(tree, features, static_cast<std::size_t>(choice))) {
    if (share < 0.01) break;
    text += (text.empty() ? "  decided by: " : ", ") + std::string(tree.features[f].name) + " " +
            value_text(tree.features[f], features[f]) + " (" + format_fixed(100 * share, 0) + " %)";
    if (++named == kNamed) break;
  }
  return text.empty() ? "" : text + "\n";
}

/// The choices of least predicted time beside the answer, down to the rule.
std::string next_choices(const TreeTable& tree, std::span<const double> features,
                         std::int32_t answer) {
  constexpr std::size_t kShown = 3;
  std::vector<float> predicted(tree.choices.size());
  predict(tree, features, predicted);
  std::vector<std::pair<float, std::int32_t>> order{{0.0F, kRuleChoice}};
  for (std::size_t c = 0; c < predicted.size(); ++c)
    order.emplace_back(predicted[c], static_cast<std::int32_t>(c));
  std::erase_if(order, [&](const auto& o) { return o.second == answer; });
  std::ranges::sort(order);
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, order.size()); ++i)
    text += (i == 0 ? "  next: " : "        ") + ratio(order[i].first) + "  " +
            choice_text(tree, order[i].second) + "\n";
  return text;
}

std::string ranking_text(const TreeTable& tree, const TreeLeaf& leaf) {
  std::string text;
  for (std::int32_t i = leaf.first; i < leaf.first + leaf.count; ++i) {
    const RankedChoice& ranked = tree.ranking[static_cast<std::size_t>(i)];
    text += (i == leaf.first ? "  best on average: " : "                   ") +
            format_fixed(ranked.slowdown, 3) + "  " + choice_text(tree, ranked.choice) + "\n";
  }
  return text;
}

std::string region_text(const TreeTable& tree, const TreeLeaf& leaf) {
  const std::string bound = " of the best, at most " + ratio(leaf.regret_bound) + " (" +
                            per_cent(tree.limits.confidence) + " confidence)\n";
  switch (leaf.verdict) {
    case LeafVerdict::Choice:
      return "  in this region: " + ratio(leaf.regret) + bound +
             "  against the rule: " + ratio(leaf.loss) + ", at most " + ratio(leaf.loss_bound) +
             "; worst of the held-out problems " + ratio(leaf.worst_loss) + "\n";
    case LeafVerdict::Rule: return "  in this region the rule takes " + ratio(leaf.regret) + bound;
    case LeafVerdict::Unsure: break;
  }
  return "  unsure: " + why_unsure(tree, leaf) + "\n  in this region the rule takes " +
         ratio(leaf.regret) + bound;
}

std::string answer_text(const TreeTable& tree, const TreeAnswer& answer,
                        std::span<const double> features) {
  std::string text;
  if (answer.verdict == LeafVerdict::Rule) text = "  answer: the rule\n";
  if (answer.verdict == LeafVerdict::Choice)
    text = "  answer: " + choice_text(tree, answer.choice) + ", by " +
           std::to_string(tree.roots.size()) + (tree.roots.size() == 1 ? " tree " : " trees ") +
           ratio(answer.expected) + " of the rule's time\n" +
           decided_by(tree, features, answer.choice);
  return text;
}

std::string leaf_title(const TreeTable& tree, std::int32_t leaf) {
  const std::int32_t support = tree.leaves[static_cast<std::size_t>(leaf)].support;
  return "region " + std::to_string(leaf) + " of " + std::to_string(tree.leaves.size()) + " (" +
         std::to_string(support) + (support == 1 ? " problem)" : " problems)");
}

std::string title(const TreeTable& tree) {
  const TreeOrigin& o = tree.origin;
  std::string text = "tree '" + std::string(o.heuristic) + "' of version " +
                     std::string(o.version) + ": " + std::to_string(o.problems) + " problems, " +
                     std::to_string(o.measurements) + " measurements";
  if (!o.machine.empty()) text += " on " + std::string(o.machine);
  if (!o.date.empty()) text += ", " + std::string(o.date);
  return text + "\n";
}

/// What a line of the outline says about a region.
std::string verdict_text(const TreeTable& tree, const TreeLeaf& leaf) {
  switch (leaf.verdict) {
    case LeafVerdict::Choice:
      return (leaf.count > 0
                  ? choice_text(tree, tree.ranking[static_cast<std::size_t>(leaf.first)].choice) +
                        " on average; "
                  : "") +
             ratio(leaf.loss) + " of the rule's time, at most " + ratio(leaf.loss_bound) + "; " +
             ratio(leaf.regret) + " of the best";
    case LeafVerdict::Rule: return "the rule, " + ratio(leaf.regret) + " of the best";
    case LeafVerdict::Unsure: break;
  }
  return "unsure";
}

}  // namespace

std::string explain_answer(const TreeTable& tree, std::span<const double> features) {
  const TreeAnswer answer = answer_of(tree, features);
  if (answer.leaf < 0) return title(tree) + "  " + doubt_text(tree, answer, features) + "\n";
  const TreeLeaf& leaf = tree.leaves[static_cast<std::size_t>(answer.leaf)];
  const std::string region = region_text(tree, leaf);
  const std::string next = tree.roots.empty() ? "" : next_choices(tree, features, answer.choice);
  return title(tree) + path_text(tree, features) + leaf_title(tree, answer.leaf) + "\n" +
         (answer.verdict == LeafVerdict::Unsure
              ? region + next
              : answer_text(tree, answer, features) + next + region) +
         ranking_text(tree, leaf);
}

std::string describe_answer(const TreeTable& tree, const TreeAnswer& answer,
                            std::span<const double> features) {
  if (answer.leaf < 0) return doubt_text(tree, answer, features);
  const std::string title = leaf_title(tree, answer.leaf) + ": ";
  switch (answer.verdict) {
    case LeafVerdict::Choice:
      return title + choice_text(tree, answer.choice) + ", " + ratio(answer.expected) +
             " of the rule's time";
    case LeafVerdict::Rule: return title + "the rule";
    case LeafVerdict::Unsure: break;
  }
  return title + "unsure";
}

std::string tree_outline(const TreeTable& tree) {
  return title(tree) +
         outline(
             tree.nodes,
             [&](const TreeNode& node, bool yes) { return question(tree, node, yes, ""); },
             [&](std::int32_t leaf) {
               return leaf_title(tree, leaf) + ": " +
                      verdict_text(tree, tree.leaves[static_cast<std::size_t>(leaf)]);
             },
             "  ");
}

}  // namespace heddle::learning
