// The time from a declaration to a callable kernel, part by part.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/support/json.h"
#include "heddle/target/target.h"
#include "subjects/subjects.h"

namespace heddle::cli {

struct TimedPart {
  enum class Stage : uint8_t { Schedule, Lower, Codegen };
  std::string name;
  Stage stage = Stage::Schedule;
  double first_ms = 0;  ///< the first kernel of a process
  double again_ms = 0;  ///< median of the further ones, the template cache emptied each time
};

struct TimeBreakdown {
  std::vector<TimedPart> parts;
  double cached_template_ms = 0;  ///< make_template for a declaration of a known structure
  int repeats = 0;
};

/// Declares `subject` again for each repeat. It must be the first call of the process that builds
/// anything.
TimeBreakdown measure_build(const std::string& subject, DataType dtype, const Target& target,
                            bool naive);

std::string to_text(const TimeBreakdown& times);
Json to_json(const TimeBreakdown& times);

}  // namespace heddle::cli
