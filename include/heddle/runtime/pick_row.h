// PickRow: which variant of a multi-kernel was picked for the shapes of a call, and why.
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
const char* to_string(PickReason reason);

struct VariantTimes {
  std::string name;
  std::vector<double> seconds;  ///< a sample each, of one call; empty: not timed
  std::string dropped;          ///< why it cannot be picked (a wrong answer, an error); else empty
  double median() const;        ///< infinity where there are no samples
};

/// One pick with its evidence. It is a line of the log of picks and the content of a file of the
/// store.
struct PickRow {
  static constexpr int kVersion = 1;

  std::string kernel;
  std::string target;  ///< of the code; empty where it is not known
  std::string shapes;  ///< of the arguments of the call: "f32[16, 32], f32[32, 8]"
  std::string key;     ///< in the store: the code of all variants, target and shapes; may be empty
  std::string picked;  ///< the name of a variant
  PickReason reason = PickReason::Static;
  std::string note;                    ///< what else is to be said; may be empty
  std::vector<VariantTimes> variants;  ///< the static choice first
  int64_t extra_bytes = 0;             ///< memory that measuring took beyond the arguments
  double spent_seconds = 0;            ///< on measuring, with compilation
  std::string machine, build;          ///< fingerprints of where it was measured
  int64_t unix_time = 0;               ///< seconds

  /// The time of the slowest variant, and of the first one, over that of the pick; 0: not known.
  double speedup_over_worst() const;
  double speedup_over_static() const;

  /// One object. Numbers that are not known are left out.
  Json to_json() const;
  /// Throws a User error that names what is missing or wrong. Unknown keys are ignored.
  static PickRow from_json(const Json& json);
};

}  // namespace heddle
