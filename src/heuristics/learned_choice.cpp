// A choice source that answers with a tree for its heuristic.
#include <algorithm>
#include <cmath>
#include <utility>

#include "heddle/heuristics/tree_choices.h"
#include "heddle/support/error.h"
#include "heuristics/explain_tree.h"

namespace heddle {

using namespace learning;

namespace {

/// What `ranked` gives at most, and the prediction from which on a choice is not worth a trial.
constexpr std::size_t kMostRanked = 4;
constexpr float kHopeless = 0.7F;

}  // namespace

LearnedChoice::LearnedChoice(const Heuristic& heuristic, TrainedTree tree, std::string name)
    : heuristic_(heuristic),
      holder_(std::make_shared<TreeHolder>(std::move(tree))),
      table_(&holder_->table()),
      kinds_(holder_->kinds()),
      name_(std::move(name)) {
  prepare();
}

LearnedChoice::LearnedChoice(const Heuristic& heuristic, const TreeTable& table, std::string name,
                             std::span<const double> kinds)
    : heuristic_(heuristic), table_(&table), kinds_(kinds), name_(std::move(name)) {
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

std::string LearnedChoice::why_unlike(std::span<const double> values) const {
  const std::int32_t unlike = unlike_kinds(table_->features, kinds_, values);
  if (unlike < 0) return "";
  const auto f = static_cast<std::size_t>(unlike);
  return "unsure: no problem of training was like it: " + std::string(table_->features[f].name) +
         " is " + Json(values[f]).dump();
}

std::vector<LearnedChoice::Predicted> LearnedChoice::predicted(
    std::span<const double> values) const {
  std::vector<float> losses(table_->choices.size());
  predict(*table_, values, losses);
  std::vector<Predicted> all{{kRuleChoice, 0.0F}};
  for (std::size_t c = 0; c < losses.size(); ++c) {
    if (!(choices_[c] == heuristic_.fallback))
      all.push_back({static_cast<std::int32_t>(c), losses[c]});
  }
  std::ranges::stable_sort(all, {}, &Predicted::loss);
  return all;
}

LearnedChoice::Answer LearnedChoice::answer(const Situation& problem) const {
  if (!heuristic_.applies(problem)) return {{}, true, name_ + " is not made for this"};
  const std::vector<double> values = features_of(problem.features.all());
  const TreeAnswer found = answer_of(*table_, values);
  if (const std::string why = found.leaf >= 0 ? why_unlike(values) : ""; !why.empty())
    return {{}, true, name_ + ", " + why};
  Answer out;
  out.why = name_ + ", " + describe_answer(*table_, found, values);
  out.unsure = found.verdict == LeafVerdict::Unsure;
  if (found.verdict != LeafVerdict::Choice) return out;
  std::string skipped;
  for (const Predicted& next : predicted(values)) {
    if (next.choice == kRuleChoice || next.loss >= -std::log1p(table_->limits.least_gain)) break;
    const ParameterSet& choice = choices_[static_cast<std::size_t>(next.choice)];
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
  const std::vector<double> values = features_of(problem.features.all());
  if (answer_of(*table_, values).leaf < 0 || !why_unlike(values).empty()) return out;
  for (const Predicted& next : predicted(values)) {
    if (out.size() == kMostRanked || next.loss >= kHopeless) break;
    if (next.choice == kRuleChoice) {
      out.emplace_back();
      continue;
    }
    const ParameterSet& choice = choices_[static_cast<std::size_t>(next.choice)];
    if (heuristic_.why_not(choice, problem).empty()) out.emplace_back(choice);
  }
  return out;
}

LearnedChoice::Answer LearnedChoice::answer(const NamedFeatures& features) const {
  const Choice nothing;
  return answer(Situation{FeatureView(features), nothing});
}

std::string LearnedChoice::explain(const NamedFeatures& features) const {
  const std::vector<double> values = features_of(features);
  const TreeAnswer found = answer_of(*table_, values);
  const std::string why = found.leaf >= 0 ? why_unlike(values) : "";
  return (why.empty() ? "" : why + "\n") + explain_answer(*table_, values);
}

}  // namespace heddle
