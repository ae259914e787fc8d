// Where the stages of a group are computed: what the dispatcher works out of the offers and the
// decisions of the meta-templates that write it.
#pragma once

#include "heddle/schedule/stage_group.h"
#include "heddle/schedule/template_builder.h"

namespace heddle {

/// The group of one attached stage of `host`, with all that its readers offered so far.
StageGroup attached_group(const TemplateBuilder& t, const StageGroup& host, int stage);

/// Requires that `stage`, whose location is a decision, is computed at a loop that exists, and that
/// encloses its readers: no deeper than any of them.
void require_enclosing(TemplateBuilder& t, int stage);

}  // namespace heddle
