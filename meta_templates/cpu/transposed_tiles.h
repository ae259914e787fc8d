// Stages that read something transposed.
#pragma once

#include "heddle/schedule/template.h"

namespace heddle::meta::cpu {

/// Writes the schedule of the output stage of `g`, one of whose reads runs along axis `transposed`,
/// not the last. `parallel`: there is enough work for the threads.
void tile_transposed(TemplateBuilder& t, const StageGroup& g, int transposed, bool parallel);

}  // namespace heddle::meta::cpu
