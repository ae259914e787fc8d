// The place where a stage that is attached to another group is computed.
#pragma once

#include <string>
#include <vector>

#include "heddle/schedule/template.h"

namespace heddle::meta::cpu {

/// Asks for the knob "location" of attached group `g`: 0 is the root, n is the n-th place that the
/// host offers. The default is the deepest place that its readers allow.
inline Param ask_location(TemplateBuilder& t, const StageGroup& g, const std::string& reason) {
  std::vector<int64_t> where{0};
  for (size_t p = 0; p < g.places.size(); ++p) where.push_back(static_cast<int64_t>(p) + 1);
  const Param location = t.knob("location", where, g.deepest, reason);
  t.set_location(g.output_stage, location);
  return location;
}

}  // namespace heddle::meta::cpu
