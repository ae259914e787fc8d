#pragma once

#include "cuda/attention_rule.h"
#include "heddle/dag/attention.h"

namespace heddle::meta {

struct AttentionKnobs {
  Param row_tiles, row_warps, keys, stages;
};

/// Whether the fragments of queries stay in registers, or are loaded for each tile of keys.
void attention_recipe(TemplateBuilder& t, const StageGroup& g, const Attention& chain,
                      const AttentionKnobs& knobs, bool resident);

}  // namespace heddle::meta
