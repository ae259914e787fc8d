// The parts of `heddle explain`: what Heddle makes of a declaration, and why.
#pragma once

#include <string>
#include <vector>

#include "commands.h"
#include "heddle/schedule/schedule.h"
#include "heddle/support/json.h"
#include "heddle/target/target.h"
#include "subjects/subjects.h"

namespace heddle::cli {

/// One part of the explanation, as text and as JSON.
struct ExplainPart {
  std::string text;
  Json json;
};

/// Makes the parts that `names` lists (of explain_parts()) for one kernel, in that order. `node` is
/// true for a node of a model, which has no text from which it could be declared again: its times
/// are a user error. `planned`: its schedule of a plan; null: that of create_schedule. So are parts that the target does not have, and an unknown pass.
std::vector<ExplainPart> make_explain_parts(const Request& options, const Problem& problem,
                                            bool node, const Schedule* planned,
                                            const Target& target,
                                            const std::vector<std::string>& names);

}  // namespace heddle::cli
