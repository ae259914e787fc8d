#include "network/fusion/search_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "network/fusion/fusion_cost.h"
#include "network/fusion/plan_fusion.h"
#include "network/fusion/settle_plan.h"

namespace heddle::network {
namespace {

// By how much gains are wrong, as shares of the time of the nodes that are replaced: of stages that
// only move elements, and of stages that compute.
constexpr double kOfMoves = 0.03, kOfArithmetic = 0.25;
// The largest component of which all answers are costed, and the plans that are costed in all.
constexpr size_t kAllAnswers = 4;
constexpr int kMostPlans = 128;
// Plans of large networks take longer: the stages of all plans together.
constexpr int kMostStages = 60000;

class Search {
 public:
  Search(const ComputeDag& dag, const std::vector<StageGroup>& groups, const Target& target,
         const InPlacePlan& in_place)
      : dag_(dag),
        groups_(groups),
        target_(target),
        in_place_(in_place),
        left_(std::clamp(kMostStages / std::max(1, dag.size()), 1, kMostPlans)),
        now_(made({})) {
    now_.cost = cost_of(now_.plan, target_);
  }

  PlanAnswers run() {
    const double rules = now_.cost.seconds;
    FusionPlan of_rules = now_.plan;
    while (one_by_one() || together()) {
    }
    if (now_.cost.seconds >= rules) return {};
    // What templates would store within nodes is stored by the plan.
    (void)settle(of_rules, target_);
    (void)settle(now_.plan, target_);
    if (cost_of(now_.plan, target_).seconds >= cost_of(of_rules, target_).seconds) return {};
    return now_.answers;
  }

 private:
  struct Made {
    PlanAnswers answers;
    FusionPlan plan;
    PlanCost cost;
    std::vector<NetworkChoice> choices;
  };
  using Nodes = std::set<std::pair<int, int>>;  ///< of PlanCost::which
  using Names = std::vector<std::string>;       ///< of choices

  Made made(PlanAnswers answers) const {
    ChoiceList choices{PassOptions()};
    choices.expect(answers);
    FusionPlan plan = plan_fusion(dag_, groups_, target_, in_place_, choices);
    return {std::move(answers), std::move(plan), {}, choices.list()};
  }

  /// Whether a plan stores more, and nothing of it is a product or has several readers. It moves more
  /// bytes for the same arithmetic.
  bool only_stores(const FusionPlan& other) const {
    for (int s = 0; s < dag_.size(); ++s) {
      if (other.stored(s) == now_.plan.stored(s)) continue;
      if (!other.stored(s) || other.is_product(s) || dag_.info(s).consumers.size() > 1)
        return false;
    }
    return true;
  }

  /// The plan with the answers to these choices flipped, with its cost; none where it needs none, or
  /// enough plans were costed.
  std::optional<Made> flipped(const Names& names) {
    if (left_ == 0) return {};
    PlanAnswers answers = now_.answers;
    for (const NetworkChoice& c : now_.choices) {
      if (std::find(names.begin(), names.end(), c.name) == names.end()) continue;
      if (answers.erase(c.name) == 0) answers[c.name] = !c.on;
    }
    Made other = made(std::move(answers));
    if (only_stores(other.plan)) return {};
    --left_;
    other.cost = cost_of(other.plan, target_);
    return other;
  }

  /// The nodes of the plan that another one replaces.
  Nodes replaced_by(const Made& other) const {
    const Nodes theirs(other.cost.which.begin(), other.cost.which.end());
    Nodes nodes;
    for (const auto& node : now_.cost.which) {
      if (theirs.count(node) == 0) nodes.insert(node);
    }
    return nodes;
  }

  /// Whether another plan moves a stage that computes something.
  bool moves_arithmetic(const FusionPlan& other) const {
    for (int s = 0; s < dag_.size(); ++s) {
      const StageInfo& info = dag_.info(s);
      if (other.at(s) != now_.plan.at(s) && info.flops_per_point > 0 && !info.precomputable)
        return true;
    }
    return false;
  }

  /// What another plan gains beyond what the cost may be wrong by.
  double sure_gain(const Made& other) const {
    const Nodes replaced = replaced_by(other);
    double seconds = 0;
    for (size_t n = 0; n < now_.cost.which.size(); ++n) {
      if (replaced.count(now_.cost.which[n]) != 0) seconds += now_.cost.of_nodes[n];
    }
    const double wrong_by = moves_arithmetic(other.plan) ? kOfArithmetic : kOfMoves;
    return now_.cost.seconds - other.cost.seconds - wrong_by * seconds;
  }

  /// Flips each choice that gains alone. Returns whether there was one.
  bool one_by_one() {
    bool better = false;
    components_.clear();
    const std::vector<NetworkChoice> choices = now_.choices;
    for (const NetworkChoice& c : choices) {
      if (!c.exact) continue;
      std::optional<Made> other = flipped({c.name});
      if (!other) continue;
      if (sure_gain(*other) > 0) {
        now_ = std::move(*other);
        better = true;
      } else {
        join(c.name, replaced_by(*other));
      }
    }
    return better;
  }

  /// Makes the choice one of the component that it has nodes in common with.
  void join(const std::string& name, Nodes nodes) {
    Names names{name};
    std::erase_if(components_, [&](const auto& other) {
      const bool meets = std::any_of(other.first.begin(), other.first.end(),
                                     [&](const auto& node) { return nodes.count(node) != 0; });
      if (!meets) return false;
      nodes.insert(other.first.begin(), other.first.end());
      names.insert(names.begin(), other.second.begin(), other.second.end());
      return true;
    });
    components_.emplace_back(std::move(nodes), std::move(names));
  }

  /// Flips the choices of a small component that gain together. Returns whether there were any.
  bool together() {
    bool better = false;
    for (const auto& [nodes, names] : components_) {
      if (names.size() <= kAllAnswers) better |= take_best(subsets(names));
    }
    return better;
  }

  /// All sets of at least two of the names.
  static std::vector<Names> subsets(const Names& names) {
    std::vector<Names> all;
    for (size_t bits = 1; bits < size_t{1} << names.size(); ++bits) {
      Names some;
      for (size_t i = 0; i < names.size(); ++i) {
        if ((bits >> i & 1) != 0) some.push_back(names[i]);
      }
      if (some.size() > 1) all.push_back(std::move(some));
    }
    return all;
  }

  bool take_best(const std::vector<Names>& candidates) {
    std::optional<Made> best;
    double most = 0;
    for (const Names& names : candidates) {
      std::optional<Made> other = flipped(names);
      if (!other) continue;
      const double gain = sure_gain(*other);
      if (gain <= most) continue;
      most = gain;
      best = std::move(other);
    }
    if (!best) return false;
    now_ = std::move(*best);
    return true;
  }

  const ComputeDag& dag_;
  const std::vector<StageGroup>& groups_;
  const Target& target_;
  const InPlacePlan& in_place_;
  int left_;  ///< plans that may be costed
  Made now_;
  /// Choices that gain nothing alone, and the nodes that they replace.
  std::vector<std::pair<Nodes, Names>> components_;
};

}  // namespace

PlanAnswers search_plan(const ComputeDag& dag, const std::vector<StageGroup>& groups,
                        const Target& target, const InPlacePlan& in_place) {
  if (target.is_cuda() || target.cores > 1) return {};
  return Search(dag, groups, target, in_place).run();
}

}  // namespace heddle::network
