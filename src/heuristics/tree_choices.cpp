// Finds the tree that answers for a heuristic and a target.
#include "heddle/heuristics/tree_choices.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>

#include "heddle/heuristics/constants.h"
#include "heddle/records/tophub.h"
#include "heddle/support/error.h"
#include "heuristics/asked_problems.h"
#include "heuristics/tophub_files.h"
#include "heuristics/trees/tree_file.h"
#include "heuristics/turned_off.h"
#include "support/environment.h"
#include "support/log.h"
#include "support/table.h"
#include "target/cpu_table.h"

namespace heddle {

using namespace learning;
namespace {

struct CompiledIn {
  std::string kind, chip;
  const TreeTable* table;
  std::span<const double> kinds;
};

struct State {
  std::mutex mutex;
  std::vector<CompiledIn> compiled_in;
  std::uint64_t generation = 0;  ///< counts the changes of compiled_in
  /// The version of tophub in which the trees were looked up.
  std::string version;
  std::map<std::tuple<std::string, std::string, std::string>, std::shared_ptr<const LearnedChoice>>
      known;  ///< keyed by kind, chip and heuristic; null where there is no tree
};
State& state() {
  static State s;
  return s;
}

std::string version_of(const State& s) {
  return tophub_version() + "#" + std::to_string(s.generation) +
         internal::environment_value("HEDDLE_HEURISTICS");
}

/// The name, and the chips of the measurements where they are others than the target's.
std::string with_chips(const std::string& name, std::string_view targets, const Target& target) {
  std::string others;
  for (const std::string& piece : internal::split(std::string(targets), ',')) {
    try {
      const std::string chip = Target::parse(piece.substr(piece.find_first_not_of(' '))).chip();
      if (chip == target.chip()) return name;
      others += (others.empty() ? "" : ", ") + chip;
    } catch (const Error&) {
      return name;  // this version does not know a target that was measured on
    }
  }
  return others.empty() ? name : name + " (measured on " + others + ")";
}

std::shared_ptr<const LearnedChoice> of_file(const Heuristic& h, const Target& target,
                                             const std::string& file, const std::string& name) {
  TrainedTree tree = read_tree(file);
  const std::string named = with_chips(name, tree.target, target);
  return std::make_shared<LearnedChoice>(h, std::move(tree), named);
}

std::shared_ptr<const LearnedChoice> compiled_in_tree(const State& s, const Heuristic& h,
                                                      const Target& target) {
  if (tophub_is_off()) return nullptr;
  for (const CompiledIn& c : s.compiled_in) {
    const bool fits = c.kind == target.kind && c.chip == target.chip();
    if (!fits || c.table->origin.heuristic != h.name) continue;
    const std::string name = "compiled-in tree " + c.kind + "-" + c.chip + "." + h.name;
    return std::make_shared<LearnedChoice>(
        h, *c.table, with_chips(name, c.table->origin.target, target), c.kinds);
  }
  return nullptr;
}

/// A tree for chips without one says what it did on a machine that it had not seen. Its features say which vectors it
/// knows, so it is of no target.
std::shared_ptr<const LearnedChoice> tree_of_any_chip(const Heuristic& h, const std::string& kind,
                                                      const std::string& file) {
  TrainedTree tree = read_tree(file);
  tree.target.clear();
  std::string name = "tree " + kind + "-any." + h.name;
  if (const Json* out = tree.training.find("machines_left_out"); out && out->size() > 0) {
    double sum = 0;
    for (const Json& m : out->elements()) sum += std::log(m.get_double("tree_over_rule", 1));
    name += " (" + format_fixed(std::exp(sum / static_cast<double>(out->size())), 3) +
            " of the rule's time on machines left out)";
  }
  return std::make_shared<LearnedChoice>(h, std::move(tree), name);
}

std::shared_ptr<const LearnedChoice> load(const State& s, const Heuristic& h,
                                          const Target& target) {
  const std::string name = target.kind + "-" + target.chip() + "." + h.name;
  try {
    if (const auto file = tophub_file(target, "." + h.name + ".tree"))
      return of_file(h, target, *file, "tree " + name);
    if (auto compiled_in = compiled_in_tree(s, h, target)) return compiled_in;
    if (const auto file = file_of_any_chip(target.kind, "." + h.name + ".tree"))
      return tree_of_any_chip(h, target.kind, *file);
  } catch (const Error& e) {
    HEDDLE_LOG_AT("heuristics", 1, e.message);
  }
  return nullptr;
}

// The tree that answers a question; null where there is none.
std::shared_ptr<const LearnedChoice> tree_of(const ChoiceQuestion& question) {
  const Heuristic* heuristic = find_heuristic(question.heuristic);
  if (heuristic == nullptr || !heuristic->of_template()) return nullptr;
  return find_tree(*heuristic, question.target);
}

bool measured_other_vectors(const LearnedChoice& tree, const Target& target) {
  return tree.measured_on() && tree.measured_on()->vector_bytes != target.vector_bytes;
}

Choice knobs_of(const LearnedChoice& tree, const ParameterSet& choice, const Situation& problem) {
  const Choice knobs = tree.heuristic().knobs_of(choice, problem);
  Choice out(tree.name());
  for (const std::string& knob : knobs.knobs()) out.set(knob, knobs.value(knob), "measured");
  return out;
}

// Schedules ask for the version before they make a template, so that a mistake in the variable is
// told there.
std::string version_of_trees() {
  check_heuristics_variables();
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return "trees " + version_of(s);
}

class TreeSource : public ChoiceSource {
 public:
  std::string version() const override { return version_of_trees(); }

  std::shared_ptr<const RuleConstants> constants(const Target& target) const override {
    check_asked_log(target);
    return measured_constants(target);
  }

  ChoiceAnswer choose(const ChoiceQuestion& question) const override {
    log_asked(question);
    const std::shared_ptr<const LearnedChoice> tree = tree_of(question);
    if (tree == nullptr) {
      const std::string off = why_turned_off(std::string(question.heuristic));
      return {std::nullopt, off.empty() ? "" : off + ": the rule decides"};
    }
    if (measured_other_vectors(*tree, question.target))
      return {std::nullopt, tree->name() + " is for vectors of " +
                                std::to_string(tree->measured_on()->vector_bytes) +
                                " bytes: the rule decides"};
    const Situation problem{FeatureView(question.features), question.rule};
    LearnedChoice::Answer answer = tree->answer(problem);
    if (!answer.choice) return {std::nullopt, answer.why + ": the rule decides"};
    return {knobs_of(*tree, *answer.choice, problem), answer.why};
  }
};

class RankedSource : public ChoiceSource {
 public:
  explicit RankedSource(std::size_t rank) : rank_(rank) {}
  std::string version() const override {
    return version_of_trees() + ", rank " + std::to_string(rank_);
  }
  std::shared_ptr<const RuleConstants> constants(const Target& target) const override {
    return measured_constants(target);
  }

  ChoiceAnswer choose(const ChoiceQuestion& question) const override {
    const std::shared_ptr<const LearnedChoice> tree = tree_of(question);
    if (tree == nullptr || measured_other_vectors(*tree, question.target)) return {};
    const Situation problem{FeatureView(question.features), question.rule};
    const std::vector<std::optional<ParameterSet>> ranked = tree->ranked(problem);
    if (rank_ >= ranked.size() || !ranked[rank_]) return {};
    return {knobs_of(*tree, *ranked[rank_], problem), tree->name()};
  }

 private:
  std::size_t rank_;
};

// Installed at the start of the process.
[[maybe_unused]] const bool kInstalled = [] {
  install_choice_source(tree_choices());
  return true;
}();

}  // namespace

bool register_tree_table(const std::string& kind, const std::string& chip, const TreeTable& table,
                         std::span<const double> kinds) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.compiled_in.push_back({kind, chip, &table, kinds});
  ++s.generation;
  return true;
}

void unregister_tree_table(const TreeTable& table) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  std::erase_if(s.compiled_in, [&](const CompiledIn& c) { return c.table == &table; });
  ++s.generation;
}

std::shared_ptr<const LearnedChoice> find_tree(const Heuristic& heuristic, const Target& target) {
  if (!why_turned_off(heuristic.name).empty()) return nullptr;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (std::string now = version_of(s); now != s.version) {
    s.known.clear();
    s.version = std::move(now);
  }
  const auto [at, is_new] = s.known.try_emplace({target.kind, target.chip(), heuristic.name});
  if (is_new) at->second = load(s, heuristic, target);
  return at->second;
}

std::shared_ptr<const ChoiceSource> ranked_tree_choices(int rank) {
  return std::make_shared<RankedSource>(static_cast<std::size_t>(rank));
}

std::shared_ptr<const ChoiceSource> tree_choices() {
  static const std::shared_ptr<const ChoiceSource> source = std::make_shared<TreeSource>();
  return source;
}

}  // namespace heddle
