// The strategies for direct compute on a GPU, each in a file of its own.
#pragma once

#include "cuda/common.h"

namespace heddle::meta {

/// Schedules stage `s` at the root, element by element: its axes are fused, vectorised, and bound
/// to blocks and threads.
void flat_over_threads(TemplateBuilder& t, int s, const std::string& prefix);

/// Schedules stage `s` at the root where a read is transposed: neighbouring threads compute neighbours
/// in what they read, and each stores a run of its own row. Returns false, and writes nothing, for
/// another stage.
bool rows_over_threads(TemplateBuilder& t, int s, const std::string& prefix);

/// Schedules a transposing output stage by tiles in shared memory. Returns false, and writes
/// nothing, for another stage.
bool transpose_by_tiles(TemplateBuilder& t, const StageGroup& g);

/// Schedules an output stage whose rows have reductions of their own (a softmax): each row is
/// computed by a warp or a block.
void rows_with_reductions(TemplateBuilder& t, const StageGroup& g);

}  // namespace heddle::meta
