// Stages that read an operand transposed.
#pragma once

#include "heddle/schedule/template.h"

namespace heddle::meta::cpu {

/// Writes the schedule of the output stage of `g`, which reads an operand that is contiguous along
/// axis `transposed` and not along the last axis. `parallel` says whether there is enough work for
/// the threads.
void tile_transposed(TemplateBuilder& t, const StageGroup& g, int transposed, bool parallel);

}  // namespace heddle::meta::cpu
