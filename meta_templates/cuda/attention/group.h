// Attention by warp groups (wgmma) from tiles that TMA loads, on Hopper.
#pragma once

#include "cuda/attention/rule.h"
#include "heddle/dag/attention.h"

namespace heddle::meta {

/// The knobs of the recipe.
struct AttentionGroupKnobs {
  Param groups, keys, stages;
};

/// The stages that TMA loads, where it and wgmma can compute the attention: operands in memory, of
/// which rows are heads of up to 256 elements, a multiple of 8 (of 64 where heads lie side by
/// side). Otherwise empty. TMA cannot load a value that is computed where it is read.
std::vector<int> attention_group_operands(const ComputeDag& dag, const StageGroup& g,
                                          const Attention& chain, const Gpu& gpu);

/// Asks for the knobs, and rejects configs that do not fit a block, where `unit` is 1.
AttentionGroupKnobs ask_attention_group(TemplateBuilder& t, const AttentionProblem& p, Param unit,
                                        const Choice& choice);

/// Writes the loops.
void attention_group_recipe(TemplateBuilder& t, const StageGroup& g, const Attention& chain,
                            const AttentionGroupKnobs& knobs);

}  // namespace heddle::meta
