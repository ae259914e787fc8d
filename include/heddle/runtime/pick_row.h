// PickRow: the variant of a multi-kernel that was picked for the shapes of a call, and why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/support/json.h"

namespace heddle {

/// How a pick came about. The names in JSON are those of `to_string`.
enum class PickReason : uint8_t {
  Only,        ///< one variant takes these shapes
  Forced,      ///< by the caller: an option, force(), or HEDDLE_PICK
  Chosen,      ///< by PickOptions::choose, from the shapes
  Remembered,  ///< by the store of picks
  Measured,    ///< by timing the variants
  Static,      ///< the first variant that works, because nothing could be or was to be measured
};
/// The name of a reason, as the log holds it.
const char* to_string(PickReason reason);

/// The measurements of one variant.
struct VariantTimes {
  std::string name;
  std::vector<double> seconds;  ///< one sample each, seconds of one call; empty: not timed
  std::string dropped;          ///< why it cannot be picked (a wrong answer, an error); else empty
  double median() const;        ///< infinity where there are no samples
};

/// One pick with its evidence. It is a line of the log of picks, and the content of a file of the
/// store.
struct PickRow {
  static constexpr int kVersion = 1;

  std::string kernel;
  std::string target;  ///< target of the code; empty where it is not known
  std::string shapes;  ///< shapes of the arguments: "f32[16, 32], f32[32, 8]"
  std::string key;     ///< key in the store (code of all variants, target, shapes); may be empty
  std::string picked;  ///< the name of a variant
  PickReason reason = PickReason::Static;
  std::string note;                    ///< further remarks; may be empty
  std::vector<VariantTimes> variants;  ///< the static choice first
  int64_t extra_bytes = 0;             ///< bytes that measuring took beyond the arguments
  double spent_seconds = 0;            ///< seconds of measuring, compilation included
  std::string machine, build;          ///< fingerprints of where it was measured
  int64_t unix_time = 0;               ///< seconds
  /// In the log of a network's picks: the variants as records of tuning, from which heuristics learn; else null.
  Json records = {};

  /// The time of the slowest variant, and of the first one, over that of the pick; 0: not known.
  double speedup_over_worst() const;
  double speedup_over_static() const;

  /// The row as one JSON object. Unknown numbers are left out.
  Json to_json() const;
  /// Reads a row. Throws a User error that names what is missing or wrong. Unknown keys are
  /// ignored.
  static PickRow from_json(const Json& json);
};

}  // namespace heddle
