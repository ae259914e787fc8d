// A plan: all that was chosen for a network, in one file that people read and compare.
//
//   TuneReport report = tune(net, {.budget = 60s});
//   save_plan(plan_of(net, report), "net.heddle");
//   ...
//   NetworkKernel run = Network(outputs).build(args, load_plan("net.heddle"));
//
// A plan has the choices about the graph, and for each different node its schedule, or that the
// rule's is used. It is made for one declaration, target and number of threads. For another one
// Network::with_plan takes what still holds, and says what does not. docs/reference/plans.md
// describes the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/network/network.h"
#include "heddle/network/size_kernels.h"
#include "heddle/support/json.h"
#include "heddle/target/target.h"

namespace heddle {

/// What the choice for a node rests on, in ascending order of precedence. The names in files are
/// those of to_string.
enum class PlanProof : uint8_t {
  None,    ///< nothing was measured
  Trials,  ///< trials, each timed alone, and no race that was decided
  Race,    ///< a race against the rule's choice
};
const char* to_string(PlanProof proof);

/// The kernel of a node, which all nodes of an equal declaration share.
struct PlannedNode {
  uint64_t hash = 0;  ///< of the declaration (ComputeDag::structural_hash)
  std::string name;   ///< for people
  double calls = 1;   ///< number of such nodes in one call of the network
  /// The steps, as records hold them (steps_of); null: the rule's choice, or `kernels`.
  Json schedule = {};
  /// The steps of other schedules that were good, the best first, at most kRunnersUp. They race in
  /// retune() beside `schedule` and the rule's choice.
  std::vector<Json> runners_up = {};
  static constexpr size_t kRunnersUp = 3;
  /// Of a node over dimensions: its kernels and the tree on the sizes, as to_json(FamilyResult)
  /// writes them; null: the rule's choice at each size.
  Json kernels = {};
  /// Seconds of one call, and of one with the rule's choice, when it was chosen; 0: not measured.
  double seconds = 0, rule_seconds = 0;
  PlanProof proof = PlanProof::None;
  int rounds = 0;       ///< of the race
  int trials = 0;       ///< that were measured
  std::string date;     ///< in UTC: "2026-03-31T08:15:00Z"
  std::string machine;  ///< that measured
  std::string build;    ///< of Heddle that measured

  bool is_rule() const { return schedule.is_null() && kernels.is_null(); }
};

/// The choices for a network.
struct NetworkPlan {
  static constexpr int kVersion = 1;
  static constexpr const char* kSchema = "heddle-plan";

  /// The file of the model and its extents, as commands take it, relative to the folder of the
  /// plan: "net.onnx:batch=1". Empty: not from a file.
  std::string model;
  std::string dtype = "f32";  ///< the type that the model computes in (OnnxOptions::precision)
  uint64_t hash = 0;          ///< of the declaration
  Target target;              ///< cores: the number of threads
  std::string passes;         ///< the choices about the graph, as parse_passes reads them
  /// Race: all other choices were tried, so that tuning need not do so again.
  PlanProof passes_proof = PlanProof::None;
  /// Seconds of a call, and of one with the rule's choices, in a race of both; 0: not raced.
  double seconds = 0, rule_seconds = 0;
  int rounds = 0;  ///< of that race
  /// Of results of tuning, and not in files: that race proved a gain, so that the rule's choice of a
  /// node is a result, too.
  bool decided = false;
  std::vector<PlannedNode> nodes;

  const PlannedNode* find(uint64_t node_hash) const;  ///< null where there is none
};

/// The plan that the results of tuning make. `report` has a result for each task of
/// `network.as_tuned(report)`, whose choices about the graph the plan has.
/// `kernels` are those of tasks over dimensions (choose_kernels); tasks without any have the rule's
/// choice.
NetworkPlan plan_of(const Network& network, const TuneReport& report,
                    const std::vector<TaskKernels>& kernels = {});

/// The text of a file: JSON, with one line for each node.
std::string to_text(const NetworkPlan& plan);
/// Reads what to_text writes. Everything else throws a User error that names `source`, the line and
/// the key: other versions, unknown keys, missing ones and values out of range. Steps are read when
/// the plan is used.
NetworkPlan parse_plan(std::string_view text, const std::string& source);

/// Appends the schedules of a plan to a log of records, for tasks of which the log has none that
/// ran, so that tuning with that log goes on from them. The plan has to be for the target of the
/// network. Throws a Runtime error where the log cannot be written.
void record_plan(const Network& network, const NetworkPlan& plan, const std::string& log);

/// Reads a file. Throws a User error for what is no plan, and a Runtime error for a file that
/// cannot be read.
NetworkPlan load_plan(const std::string& path);
/// Writes the whole file beside it and renames it, so that readers see the old plan or the new one.
void save_plan(const NetworkPlan& plan, const std::string& path);

/// The nodes of both, for the declaration, the choices about the graph and the target of `newer`,
/// which `older` must share for its nodes to be taken. Of a node that both have, the one with the
/// stronger proof is kept; of equal ones, that of `newer`, because tuning that goes on from a plan
/// races what it has (tune_network). A choice that a race proved is not given up because a later
/// race could not tell.
NetworkPlan merged(const NetworkPlan& older, const NetworkPlan& newer);

/// Saves what the file and the plan have together (merged), so that of several processes that do so
/// at once none loses what another one found. Throws as load_plan and merged do where the file is
/// another one's.
void save_merged_plan(const NetworkPlan& plan, const std::string& path);

/// Adds the best schedules that the log of tuning has of each node for the target of the plan and
/// that the node does not have, as runners-up.
void add_runners_up(NetworkPlan& plan, const std::vector<Record>& log);
/// The same, of the schedules and the runners-up of another plan.
void add_runners_up(NetworkPlan& plan, const NetworkPlan& other);

/// A line for each difference of two plans: of the whole, then of nodes by their declarations.
/// Dates and times are no difference. Empty: they choose the same.
std::vector<std::string> plan_differences(const NetworkPlan& a, const NetworkPlan& b);

/// What a network took from a plan.
struct PlanUse {
  /// A different node of the network.
  struct Node {
    std::string name;
    bool planned = false;  ///< the plan decides, be it for the rule's choice
    bool rule = true;      ///< the rule or a record decides
    std::string why_not;   ///< why the plan does not decide; empty where it does
  };
  std::vector<Node> nodes;
  /// What the plan was made for otherwise, such as "it was made for 4 threads, and these are 2".
  std::vector<std::string> remarks;

  /// Whether the plan decides for all nodes, and was made for this network, target and threads.
  bool whole() const;
  int planned() const;  ///< number of nodes for which the plan decides
  int rules() const;    ///< of these, nodes with the rule's choice
};
/// One line: "5 of 5 nodes, 2 of them by rule"; with what was not taken, and why.
std::string to_string(const PlanUse& use);

}  // namespace heddle
