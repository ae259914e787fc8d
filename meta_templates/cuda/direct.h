// The strategies of direct compute on a GPU, a file each.
#pragma once

#include "cuda/common.h"

namespace heddle::meta {

/// Stage `s`, at the root, element by element: its axes fused, in vectors, over blocks and threads.
void flat_over_threads(TemplateBuilder& t, int s, const std::string& prefix);

/// A transposing output stage by tiles through shared memory. False: it is none, and nothing was
/// written.
bool transpose_by_tiles(TemplateBuilder& t, const StageGroup& g);

/// An output stage whose rows have reductions of their own (a softmax): a warp or a block a row.
void rows_with_reductions(TemplateBuilder& t, const StageGroup& g);

}  // namespace heddle::meta
