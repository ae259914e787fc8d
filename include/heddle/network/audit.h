// Where a network loses time, and the change that would win it back.
//
//   const Audit found = audit(Network({logits}), {.tune_seconds = 3, .choice_seconds = 10});
//   std::cout << found;                 // the kernels by lost time, and why
//   found.rows[0].changes[0].text;      // "tile_rows 2 -> 6", "--passes=store@mul:1x56x56x96"
//
// The time of a kernel is that of its nodes in calls of the network. What is lost is the time above
// a bound: the least of what the machine allows and of what is reached by another schedule of the
// kernel, or by a kernel of like shape in the same network.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "heddle/heuristics/certificate.h"
#include "heddle/network/network.h"
#include "heddle/support/json.h"

namespace heddle {

/// What a kernel is compared with.
enum class AuditBound : uint8_t {
  Roof,     ///< the multiply-adds and a copy of as many bytes (Roof), which no schedule may reach
  Like,     ///< the rate of a kernel of the same template and like arithmetic, at like intensity
  Rules,    ///< the choice of the rules, where a record runs
  Record,   ///< the best record, where the rules' choice runs
  Tuned,    ///< a short tuning of the task
  OneSize,  ///< of a range: the same node in the network that is made for this size alone
  Graph     ///< another choice about the graph (NetworkChoice)
};
/// "roof", "like", "rules", "record", "tuned", "one size", "graph".
const char* to_string(AuditBound bound);

/// Options of audit().
struct AuditOptions {
  double profile_seconds = 2;  ///< of timing the nodes
  /// Seconds for which each of the worst kernels is tuned; 0: none is.
  double tune_seconds = 0;
  /// Seconds in which other schedules of the worst kernels race in calls of the network. They come
  /// from the rules, records, kernels of like shape, and tuning.
  double race_seconds = 3;
  /// Seconds of trying the choices about the graph, those about the worst nodes first
  /// (choose_passes); 0: none is tried.
  double choice_seconds = 0;
  int worst = 5;  ///< kernels of which other schedules are tried
  bool rules =
      false;  ///< the schedules of the rules run, and records are what they are compared with
  /// The sizes of a network over dimensions.
  std::vector<SizeValue> at = {};
  Measurer* measurer = nullptr;  ///< of tuning, in place of worker processes
  std::function<void(const std::string&)> progress = {};  ///< called with a line of text
};

/// Another way to compute the nodes of a row.
struct AuditChange {
  AuditBound from = AuditBound::Rules;  ///< what offered it
  /// The knobs that differ, "tile_rows 2 -> 6, unroll 1 -> 4", or a choice, "--passes=fuse@..".
  std::string text;
  std::vector<std::string> knobs = {};  ///< the names of these knobs
  std::string source;                   ///< such as "record of net.jsonl:3"
  double before = 0,
         after = 0;     ///< seconds in calls in turns of the nodes that differ; 0: did not run
  bool proven = false;  ///< significantly faster in the race
};

/// A time below that of a row.
struct AuditReference {
  AuditBound bound = AuditBound::Roof;
  double seconds = 0;
  std::string source;  ///< the kernel of like shape, the record; empty for others
};

/// A kernel of the network with all nodes that call it. Times are seconds of one call of the network.
struct AuditRow {
  std::string name;        ///< of the task
  int task = 0;            ///< in Network::tasks()
  std::vector<int> nodes;  ///< in Network::nodes()
  double seconds = 0, share = 0;
  double flops = 0, bytes = 0;         ///< of all nodes
  double roof_s = 0;                   ///< least time that the machine allows; 0: not known
  Certificate certificate = {};        ///< of a node; empty where a record or a plan chose
  std::vector<AuditReference> bounds;  ///< the least first; empty: nothing is known to be faster
  std::string template_name, alternative;
  std::string provenance;  ///< what chose the schedule that runs
  std::vector<std::string>
      why;  ///< reasons: of the knobs that a change would set, and the template's
  std::vector<AuditChange> changes = {};  ///< the fastest first
  /// The time above the least bound.
  double lost_s() const { return bounds.empty() ? 0 : seconds - bounds[0].seconds; }
};

/// The result of audit().
struct Audit {
  std::vector<AuditRow> rows;  ///< the one that loses most time first
  double call_s = 0;           ///< median of whole calls
  int threads = 1;
  std::string target, sizes;               ///< as text; sizes of a range
  PassChoice choices = {};                 ///< about the graph, those that were tried
  std::vector<std::string> problems = {};  ///< what could not be tried, and why

  double lost_s() const;
  std::string to_string() const;
  Json to_json() const;
};
/// Prints Audit::to_string.
std::ostream& operator<<(std::ostream& out, const Audit& audit);

/// Audits the network as Network::build makes it, on this machine, with random inputs. Throws a
/// User error for a network without nodes or for a target that is not here, and where `at` does
/// not give the sizes of a network over dimensions.
Audit audit(const Network& network, const AuditOptions& options = {});

}  // namespace heddle
