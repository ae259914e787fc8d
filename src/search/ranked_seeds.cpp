#include "search/ranked_seeds.h"

#include <algorithm>

#include "heddle/heuristics/tree_choices.h"
#include "heddle/schedule/meta_template.h"
#include "records/nearest_config.h"
#include "schedule/templates/graph_choice.h"

namespace heddle::search {
namespace {

// The choices of a leaf that are tried. A leaf ranks four (TrainOptions::ranked).
constexpr int kRanks = 4;

// Whether the trees answer for the template. A program may have installed a source of its own.
bool consults_trees(const Template& t) {
  return t.options().use_heuristics && installed_choice_source() == tree_choices();
}

bool any_from_trees(const Template& t) {
  return std::any_of(t.knobs().begin(), t.knobs().end(),
                     [](const Knob& k) { return k.source != Choice::kRule; });
}

Json knob_values(const Template& t, const Config& config) {
  Json out = Json::object();
  for (std::size_t i = 0; i < config.values.size(); ++i)
    out[t.knobs()[i].name] = Json(config.values[i]);
  return out;
}

}  // namespace

std::vector<Config> ranked_seeds(const Template& t) {
  std::vector<Config> out;
  if (!consults_trees(t)) return out;
  const int b = t.branch_of(t.default_config());
  const Template branch = t.branch(b);
  int rules = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    const Template made = make_template_with(branch.dag(), branch.target(), branch.options(),
                                             ranked_tree_choices(rank));
    if (!any_from_trees(made)) {
      // The rule's choice has this rank. A second rank without a tree's answer is beyond the last.
      if (rules++ > 0) break;
      continue;
    }
    const Config own = records::nearest_config(branch, knob_values(made, made.default_config()));
    out.push_back(t.num_branches() > 1 ? t.config_of_branch(b, own) : own);
  }
  return out;
}

std::vector<int> early_branches(const Template& t) {
  std::vector<int> all;
  for (int b = 0; b < t.num_branches(); ++b) all.push_back(b);
  const Heuristic* heuristic = find_heuristic(graph_heuristic(t.target()));
  if (!consults_trees(t) || heuristic == nullptr || !find_tree(*heuristic, t.target())) return all;
  std::vector<int> early{0, t.branch_of(t.default_config())};
  bool known = false;
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::shared_ptr<const ChoiceSource> source = ranked_tree_choices(rank);
    const GraphChoice graph = choose_graph(t.dag(), t.target(), t.options(), source.get());
    if (graph.source == Choice::kRule) continue;
    known = true;
    early.push_back(t.find_branch(graph.alternative));
  }
  if (!known) return all;
  std::erase_if(all,
                [&](int b) { return std::find(early.begin(), early.end(), b) == early.end(); });
  return all;
}

}  // namespace heddle::search
