// The places where the stages of a group are computed, from the offers and decisions of the
// meta-templates.
#pragma once

#include "heddle/schedule/stage_group.h"
#include "heddle/schedule/template_builder.h"

namespace heddle {

/// The group of one attached stage of `host`, with all places that its readers have offered so far.
StageGroup attached_group(const TemplateBuilder& t, const StageGroup& host, int stage);

/// Requires that `stage`, whose location is a decision, is computed at a loop that exists, and that
/// encloses its readers: no deeper than any of them.
void require_enclosing(TemplateBuilder& t, int stage);

}  // namespace heddle
