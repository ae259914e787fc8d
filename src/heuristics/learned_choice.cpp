// A choice source that answers with a tree for its heuristic.
#include <algorithm>
#include <utility>

#include "heddle/heuristics/tree_choices.h"
#include "heddle/support/error.h"
#include "heuristics/explain_tree.h"

namespace heddle {

using namespace learning;

LearnedChoice::LearnedChoice(const Heuristic& heuristic, TrainedTree tree, std::string name)
    : heuristic_(heuristic),
      holder_(std::make_shared<TreeHolder>(std::move(tree))),
      table_(&holder_->table()),
      name_(std::move(name)) {
  prepare();
}

LearnedChoice::LearnedChoice(const Heuristic& heuristic, const TreeTable& table, std::string name)
    : heuristic_(heuristic), table_(&table), name_(std::move(name)) {
  prepare();
}

void LearnedChoice::prepare() {
  const auto refuse = [&](const std::string& why) {
    throw_user_error(name_ + " is not used: " + why, {}, "collect and train again");
  };
  const std::string version = std::to_string(heuristic_.version);
  if (table_->origin.heuristic != heuristic_.name)
    refuse("it is of heuristic '" + std::string(table_->origin.heuristic) + "'");
  if (table_->origin.version != version)
    refuse("it is of version " + std::string(table_->origin.version) + " of '" + heuristic_.name +
           "', which has version " + version);
  const std::vector<HeuristicFeature> features = heuristic_.all_features();
  for (const TreeFeature& f : table_->features) {
    const auto at = std::find_if(features.begin(), features.end(), [&](const HeuristicFeature& h) {
      return h.name == f.name && h.kind == f.kind &&
             std::equal(h.values.begin(), h.values.end(), f.values.begin(), f.values.end());
    });
    if (at == features.end())
      refuse("heuristic '" + heuristic_.name + "' has no such feature '" + std::string(f.name) +
             "'");
    order_.push_back(static_cast<std::size_t>(at - features.begin()));
  }
  for (const std::string_view id : table_->choices) choices_.push_back(heuristic_.choice_of(id));
  const std::string target(table_->origin.target.substr(0, table_->origin.target.find(", ")));
  if (target.empty()) return;
  try {
    measured_on_ = Target::parse(target);
  } catch (const Error&) {
    // This version does not know the target that was measured on, so no target is compared with it.
  }
}

std::vector<double> LearnedChoice::features_of(const NamedFeatures& features) const {
  const std::vector<double> all = heuristic_.values_of(features);
  std::vector<double> mine;
  mine.reserve(order_.size());
  for (const std::size_t i : order_) mine.push_back(all[i]);
  return mine;
}

LearnedChoice::Answer LearnedChoice::answer(const Situation& problem) const {
  if (!heuristic_.applies(problem)) return {{}, true, name_ + " is not made for this"};
  const std::vector<double> values = features_of(problem.features.all());
  const TreeAnswer found = answer_of(*table_, values);
  Answer out;
  out.why = name_ + ", " + describe_answer(*table_, found, values);
  out.unsure = found.verdict == LeafVerdict::Unsure;
  if (found.verdict != LeafVerdict::Choice) return out;
  const TreeLeaf& leaf = table_->leaves[static_cast<std::size_t>(found.leaf)];
  std::string skipped;
  for (std::int32_t i = leaf.first; i < leaf.first + leaf.count; ++i) {
    const std::int32_t ranked = table_->ranking[static_cast<std::size_t>(i)].choice;
    if (ranked == kRuleChoice) break;
    const ParameterSet& choice = choices_[static_cast<std::size_t>(ranked)];
    if (choice == heuristic_.fallback) break;
    const std::string why_not = heuristic_.why_not(choice, problem);
    if (why_not.empty()) {
      out.choice = choice;
      if (!skipped.empty()) out.why += skipped + "; the next is " + heuristic_.id_of(choice);
      return out;
    }
    skipped += "; not legal here: " + why_not;
  }
  out.why += skipped + (skipped.empty() ? "" : "; the rule stands");
  return out;
}

std::vector<std::optional<ParameterSet>> LearnedChoice::ranked(const Situation& problem) const {
  std::vector<std::optional<ParameterSet>> out;
  if (!heuristic_.applies(problem)) return out;
  const TreeAnswer found = answer_of(*table_, features_of(problem.features.all()));
  if (found.leaf < 0) return out;
  for (const RankedChoice& r : ranking_of(*table_, found.leaf)) {
    const ParameterSet& choice = r.choice == kRuleChoice
                                     ? heuristic_.fallback
                                     : choices_[static_cast<std::size_t>(r.choice)];
    if (choice == heuristic_.fallback) {
      // The fallback may be among the choices too.
      if (std::find(out.begin(), out.end(), std::nullopt) == out.end()) out.emplace_back();
    } else if (heuristic_.why_not(choice, problem).empty()) {
      out.emplace_back(choice);
    }
  }
  return out;
}

LearnedChoice::Answer LearnedChoice::answer(const NamedFeatures& features) const {
  const Choice nothing;
  return answer(Situation{FeatureView(features), nothing});
}

std::string LearnedChoice::explain(const NamedFeatures& features) const {
  return explain_answer(*table_, features_of(features));
}

}  // namespace heddle
