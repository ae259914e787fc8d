// Two plans of one network: what they have together, and what differs.
#include <algorithm>

#include "heddle/network/plan.h"
#include "heddle/records/database.h"
#include "heddle/support/error.h"
#include "support/hashing/hex.h"
#include "support/table.h"

namespace heddle {
namespace {

/// Whether `older` stays although `newer` was found later. `decided`: the newer race proved a gain,
/// so that the rule's choice of a node is a result, too.
bool stays(const PlannedNode& older, const PlannedNode& newer, bool decided) {
  if (older.proof != newer.proof) return older.proof > newer.proof;
  return !older.is_rule() && newer.is_rule() && !decided;
}

bool any_tuned(const NetworkPlan& plan) {
  return std::any_of(plan.nodes.begin(), plan.nodes.end(),
                     [](const PlannedNode& n) { return !n.is_rule(); });
}

/// "the rule", "steps as winograd", "3 kernels by size".
std::string choice_text(const PlannedNode& node) {
  if (node.is_rule()) return "the rule's choice";
  if (!node.kernels.is_null()) {
    const Json* variants = node.kernels.find("variants");
    const size_t count = variants && variants->is_array() ? variants->size() : 0;
    return std::to_string(count) + " kernels by size";
  }
  const Json* alternative = node.schedule.find("alternative");
  return alternative && alternative->is_string() ? "steps of " + alternative->as_string() : "steps";
}

/// The part of a schedule that decides. Provenance and target are for people.
Json steps_alone(const Json& schedule) {
  Json out = Json::object();
  for (const char* key : {"alternative", "steps", "options"}) {
    if (const Json* value = schedule.find(key)) out[key] = *value;
  }
  return out;
}

/// The same of kernels by size.
Json kernels_alone(const Json& kernels) {
  Json out = Json::array();
  if (const Json* tree = kernels.find("tree")) out.push_back(*tree);
  const Json* variants = kernels.find("variants");
  for (size_t v = 0; variants && variants->is_array() && v < variants->size(); ++v) {
    const Json* schedule = variants->at(v).find("schedule");
    out.push_back(schedule ? steps_alone(*schedule) : Json());
  }
  return out;
}

bool same_choice(const PlannedNode& a, const PlannedNode& b) {
  return a.is_rule() == b.is_rule() && steps_alone(a.schedule) == steps_alone(b.schedule) &&
         kernels_alone(a.kernels) == kernels_alone(b.kernels);
}

void add_runner_up(PlannedNode& node, const Json& steps) {
  if (node.runners_up.size() >= PlannedNode::kRunnersUp || !node.kernels.is_null()) return;
  if (!steps.is_object() || !steps.contains("steps")) return;
  const Json own = steps_alone(steps);
  const auto same = [&](const Json& other) { return steps_alone(other) == own; };
  if (!node.schedule.is_null() && same(node.schedule)) return;
  if (std::none_of(node.runners_up.begin(), node.runners_up.end(), same))
    node.runners_up.push_back(steps);
}

}  // namespace

void add_runners_up(NetworkPlan& plan, const std::vector<Record>& log) {
  RecordDatabase known;
  for (const Record& r : log) known.add(r);
  for (PlannedNode& node : plan.nodes) {
    for (const Record* r : known.ranked(node.hash, plan.target)) add_runner_up(node, r->steps);
  }
}

void add_runners_up(NetworkPlan& plan, const NetworkPlan& other) {
  for (PlannedNode& node : plan.nodes) {
    const PlannedNode* same = other.find(node.hash);
    if (!same) continue;
    add_runner_up(node, same->schedule);
    for (const Json& steps : same->runners_up) add_runner_up(node, steps);
  }
}

NetworkPlan merged(const NetworkPlan& older, const NetworkPlan& newer) {
  if (!(older.target == newer.target))
    throw_user_error("a plan for '" + to_string(older.target) +
                         "' cannot be merged with one for '" + to_string(newer.target) + "'",
                     {}, "keep a plan for each target and number of threads");
  NetworkPlan out = newer;
  const bool decided = newer.decided || any_tuned(newer);
  for (PlannedNode& node : out.nodes) {
    const PlannedNode* had = older.find(node.hash);
    if (had && stays(*had, node, decided)) {
      const double calls = node.calls;
      node = *had;
      node.calls = calls;
    }
  }
  if (older.hash != newer.hash || older.passes != newer.passes) return out;
  out.passes_proof = std::max(older.passes_proof, newer.passes_proof);
  for (const PlannedNode& node : older.nodes) {
    if (!newer.find(node.hash)) out.nodes.push_back(node);
  }
  const bool by_rule_unknown = out.rule_seconds == 0 && !newer.decided;
  if (out.rounds == 0 || by_rule_unknown || (!decided && any_tuned(older))) {
    out.seconds = older.seconds;
    out.rule_seconds = older.rule_seconds;
    out.rounds = older.rounds;
  }
  return out;
}

std::vector<std::string> plan_differences(const NetworkPlan& a, const NetworkPlan& b) {
  std::vector<std::string> lines;
  const auto differ = [&](const std::string& what, const std::string& x, const std::string& y) {
    if (x != y) lines.push_back(what + ": '" + x + "' and '" + y + "'");
  };
  differ("declaration", to_hex(a.hash), to_hex(b.hash));
  differ("target", to_string(a.target), to_string(b.target));
  differ("type", a.dtype, b.dtype);
  differ("choices about the graph", a.passes, b.passes);
  const auto timed = [](const PlannedNode& n) {
    return choice_text(n) + (n.seconds > 0 ? " (" + format_time(n.seconds) + ")" : "");
  };
  for (const PlannedNode& node : a.nodes) {
    const PlannedNode* other = b.find(node.hash);
    if (!other) {
      lines.push_back(node.name + ": only in the first, " + timed(node));
    } else if (!same_choice(node, *other)) {
      lines.push_back(node.name + ": " + timed(node) + " and " +
                      (choice_text(node) == choice_text(*other) ? "other " : "") + timed(*other));
    }
  }
  for (const PlannedNode& node : b.nodes) {
    if (!a.find(node.hash)) lines.push_back(node.name + ": only in the second, " + timed(node));
  }
  return lines;
}

}  // namespace heddle
