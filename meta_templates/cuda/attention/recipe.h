#pragma once

#include "cuda/attention/rule.h"
#include "heddle/dag/attention.h"

namespace heddle::meta {

struct AttentionKnobs {
  Param row_tiles, row_warps, keys, stages, parts;
};

struct AttentionForm {
  bool resident =
      true;  ///< fragments of queries stay in registers; else they are loaded for each tile
  bool in_parts = false;  ///< keys are cut into parts, which a second kernel adds up
};

void attention_recipe(TemplateBuilder& t, const StageGroup& g, const Attention& chain,
                      const AttentionKnobs& knobs, AttentionForm form);

}  // namespace heddle::meta
