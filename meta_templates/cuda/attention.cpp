// Attention on the tensor cores of a GPU, by mma.sync, in one kernel: scores are never in memory
// (Dao et al. 2022, "FlashAttention"; dag/attention.h says what is recognised). It has three parts:
//
//   attention_rule.h       how many rows and keys a tile has
//   attention_recipe.cpp   the loops, with a picture
//   here                   the knobs and what they must fulfil
#include "cuda/attention_recipe.h"

namespace heddle::meta {
namespace {

// The most registers that a thread may use, as attention_registers counts them, less a few for the
// compiler.
constexpr int64_t kMostRegisters = 340;
constexpr int64_t kMostWarps = 8;

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return target.is_cuda() && !g.attached && !g.fused.empty() &&
         find_attention(dag, g.anchor).has_value();
}

AttentionProblem problem_of(const Attention& a, const Gpu& gpu) {
  AttentionProblem p;
  p.rows = a.rows;
  p.keys = a.keys;
  p.batches = a.batches;
  p.depth = a.depth;
  p.cols = a.cols;
  p.causal = a.reach.defined();
  p.masked = any_below(a.score, [](const Expr& e) { return e.kind() == ExprKind::Load; });
  p.gpu = gpu;
  return p;
}

// Those of `values` that are less than twice `extent`.
std::vector<int64_t> within(int64_t extent, std::vector<int64_t> values) {
  std::erase_if(values, [&](int64_t v) { return v > kAttentionUnit && v >= 2 * extent; });
  return values;
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const Attention chain = *find_attention(t.dag(), g.anchor);
  const AttentionProblem p = problem_of(chain, t.target().gpu);
  const Choice choice = t.decide("cuda_attention", p, attention_rule);
  AttentionKnobs k;
  k.row_tiles = t.knob("row_tiles", {1, 2}, choice);
  k.row_warps = t.knob("row_warps", {1, 2, 4, 8}, choice);
  k.keys = t.knob("keys", within(p.keys, {16, 32, 64, 128}), choice);
  k.stages = t.knob("stages", {2, 3, 4}, choice);
  const Param resident = t.choice("resident", choice);
  const auto tile = [=](const auto& v) {
    return AttentionTile{v(k.row_tiles), v(k.row_warps), v(k.keys), v(k.stages), v(resident) == 1};
  };
  t.require("half of the rows must be of use", [=](const auto& v) {
    return tile(v).rows() < std::max(2 * p.rows, 2 * kAttentionUnit);
  });
  const int64_t warps = std::min(kMostWarps, most_block_threads(p.gpu) / kWarp);
  t.require("a block has at most " + std::to_string(warps) + " warps",
            [=](const auto& v) { return v(k.row_warps) <= warps; });
  t.require("the fragments must fit the registers",
            [=](const auto& v) { return attention_registers(p, tile(v)) <= kMostRegisters; });
  t.require("the tiles must fit shared memory",
            [=](const auto& v) { return attention_bytes(p, tile(v)) <= p.gpu.smem_per_block; });
  const auto write = [&](bool in_parts) {
    for (int64_t stay : {0, 1}) {
      t.when(resident, stay, [&] {
        attention_recipe(t, g, chain, k, {.resident = stay == 1, .in_parts = in_parts});
      });
    }
  };
  if (!attention_in_parts(p)) return write(false);
  const Param form = t.kind("form", {"whole", "in_parts"}, choice);
  k.parts = t.knob("parts", kAttentionParts, choice);
  t.require("each part has keys", [=](const auto& v) {
    return v(form) == 0 || attention_parts_have_keys(p, v(k.keys), v(k.parts));
  });
  t.when(form, "whole", [&] { write(false); });
  t.when(form, "in_parts", [&] { write(true); });
}

HEDDLE_REGISTER_META_TEMPLATE({"cuda_attention", 10, matches, build});

}  // namespace
}  // namespace heddle::meta
