// The measurements that a heuristic is trained on: for each problem its features, and the time of
// each choice.
//
// On disk they are lines of JSON (docs/guide/heuristics.md): a header that declares the features, then a
// line for each problem. Unknown keys are ignored. A last line that a killed process left torn is
// dropped. Of two lines with the same problem the later counts as a whole, because only times of
// one race compare.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/support/decision_tree.h"
#include "heddle/support/json.h"

namespace heddle {

/// A named feature of the problems of a heuristic.
struct HeuristicFeature {
  std::string name;
  FeatureKind kind = FeatureKind::Numeric;
  std::vector<std::string> values = {};  ///< names of the values of a categorical feature

  bool operator==(const HeuristicFeature&) const = default;
};

/// The time of a choice that is not legal for a problem, or failed.
inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

/// One measured problem: its features, and the time of each choice.
struct HeuristicProblem {
  std::string id;
  std::vector<double> features;  ///< in the order of the declaration; NaN: not known
  std::vector<double> seconds;   ///< seconds of each choice, or kNotMeasured
  std::int32_t fallback = 0;     ///< the choice of the rule; it has a time
  double noise = 0;              ///< relative spread of a repeated measurement, such as 0.02
  /// Seconds of what rules make with other constants, by the hash of the steps in hexadecimal. They are for
  /// calibration alone, because no choice makes these schedules.
  std::map<std::string, double> of_constants = {};

  bool has(std::int32_t choice) const;
  /// The least time.
  double best() const;
};

/// The measurements of one heuristic, from one log or several.
struct HeuristicData {
  std::string heuristic, version, machine, target;
  std::uint64_t seed = 0;  ///< the seed with which problems were drawn
  std::vector<HeuristicFeature> features;
  std::vector<std::string> choices;        ///< sorted
  std::vector<HeuristicProblem> problems;  ///< sorted by id, each id once
  /// "log.jsonl:7: ..." for each line that does not count.
  std::vector<std::string> skipped;

  std::int64_t measurements() const;
};

/// Reads a log. Throws a User error for a file that cannot be read, or for a header that is not
/// one.
HeuristicData read_heuristic_log(const std::string& path);
/// Reads the text of a log. `source` names the text in messages.
HeuristicData parse_heuristic_log(std::string_view text, std::string_view source);

/// The line of JSON that declares the features of `data`, and the line of a problem, both without a
/// newline.
Json heuristic_log_header(const HeuristicData& data);
/// A problem as a line of the log.
Json heuristic_log_line(const HeuristicData& data, const HeuristicProblem& problem);

/// Merges logs. Of a problem in several of them the last one counts. Throws a User error for
/// another heuristic, another version of it, or other features.
HeuristicData merge(const std::vector<HeuristicData>& logs);

/// The problems of `data` with these indices, in ascending order.
HeuristicData subset(const HeuristicData& data, const std::vector<std::int32_t>& problems);

/// A number of a fold for each problem, 0 <= fold < folds. The folds are of nearly equal size and
/// depend on the ids of the problems and the seed only.
std::vector<std::int32_t> folds_of(const HeuristicData& data, int folds, std::uint64_t seed);

}  // namespace heddle
