// The measurements that a heuristic is trained on: for each problem its features, and the time of
// each choice.
//
// On disk they are lines of JSON (docs/heuristics.md): a header that declares the features, then a
// line for each problem. Unknown keys are ignored. A last line that a killed process left torn is
// dropped. Of two lines with the same problem the later counts as a whole, because only times of
// one race compare.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/support/decision_tree.h"
#include "heddle/support/json.h"

namespace heddle {

struct HeuristicFeature {
  std::string name;
  FeatureKind kind = FeatureKind::Numeric;
  std::vector<std::string> values = {};  ///< of a categorical feature

  bool operator==(const HeuristicFeature&) const = default;
};

/// The time of a choice that is not legal for a problem, or failed.
inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

struct HeuristicProblem {
  std::string id;
  std::vector<double> features;  ///< in the order of the declaration; NaN: not known
  std::vector<double> seconds;   ///< by choice, or kNotMeasured
  std::int32_t fallback = 0;     ///< the choice of the rule; it has a time
  double noise = 0;              ///< relative spread of a repeated measurement, such as 0.02

  bool has(std::int32_t choice) const;
  /// The least time.
  double best() const;
};

struct HeuristicData {
  std::string heuristic, version, machine, target;
  std::uint64_t seed = 0;  ///< that the problems were drawn with
  std::vector<HeuristicFeature> features;
  std::vector<std::string> choices;        ///< sorted
  std::vector<HeuristicProblem> problems;  ///< sorted by id, each id once
  /// "log.jsonl:7: ..." for each line that does not count.
  std::vector<std::string> skipped;

  std::int64_t measurements() const;
};

/// Reads a log. Errors: a file that cannot be read, or a header that is not one.
HeuristicData read_heuristic_log(const std::string& path);
/// `source` names the text in messages.
HeuristicData parse_heuristic_log(std::string_view text, std::string_view source);

/// The line of JSON that declares the features of `data`, and the one of a problem, without their
/// newlines.
Json heuristic_log_header(const HeuristicData& data);
Json heuristic_log_line(const HeuristicData& data, const HeuristicProblem& problem);

/// The logs as one: of a problem in several of them the last counts. Errors: another heuristic,
/// another version of it, or other features.
HeuristicData merge(const std::vector<HeuristicData>& logs);

/// Those problems of `data`, in ascending order of index.
HeuristicData subset(const HeuristicData& data, const std::vector<std::int32_t>& problems);

/// A number of a fold for each problem, 0 <= fold < folds. The folds are of nearly equal size and
/// depend on the ids of the problems and the seed only.
std::vector<std::int32_t> folds_of(const HeuristicData& data, int folds, std::uint64_t seed);

}  // namespace heddle
