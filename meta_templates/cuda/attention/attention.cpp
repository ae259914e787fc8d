// Attention on the tensor cores of a GPU, in one kernel: scores are never in memory (Dao et al.
// 2022, "FlashAttention"; dag/attention.h says what is recognised). Its parts:
//
//   rule.h              how many rows and keys a tile has
//   recipe.cpp          the loops for mma.sync, with a picture
//   group_recipe.cpp    the loops for wgmma and TMA, with a picture
//   here                the knobs and what they must fulfil
#include "cuda/attention/group.h"
#include "cuda/attention/recipe.h"

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

AttentionProblem problem_of(const Attention& a, const Operation& op, const Gpu& gpu) {
  AttentionProblem p;
  p.rows = a.rows;
  p.keys = a.keys;
  p.batches = a.batches;
  p.depth = a.depth;
  p.cols = a.cols;
  p.causal = a.reach.defined();
  p.masked = any_below(a.score, [](const Expr& e) { return e.kind() == ExprKind::Load; });
  p.reach = a.keys;
  if (a.reach.defined()) {
    Ranges rows;
    rows.set(op.axes()[static_cast<size_t>(a.row)].var(), {0, a.rows - 1});
    p.reach = std::clamp<int64_t>(range_of(a.reach, rows).max, 0, a.keys);
  }
  p.gpu = gpu;
  return p;
}

// Those of `values` that are less than twice `extent`.
std::vector<int64_t> within(int64_t extent, std::vector<int64_t> values) {
  std::erase_if(values, [&](int64_t v) { return v > kAttentionUnit && v >= 2 * extent; });
  return values;
}

AttentionKnobs ask(TemplateBuilder& t, const AttentionProblem& p, const Choice& choice) {
  AttentionKnobs k;
  k.row_tiles = t.knob("row_tiles", {1, 2}, choice);
  k.row_warps = t.knob("row_warps", {1, 2, 4, 8}, choice);
  k.keys = t.knob("keys", within(p.keys, {16, 32, 64, 128}), choice);
  k.stages = t.knob("stages", {2, 3, 4}, choice);
  return k;
}

// The requirements of mma.sync. They do not depend on `unit`, because the other unit leaves these
// knobs at values that fulfil them.
void require_legal(TemplateBuilder& t, const AttentionProblem& p, const AttentionKnobs& k,
                   Param resident) {
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
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const Attention chain = *find_attention(t.dag(), g.anchor);
  const Gpu& gpu = t.target().gpu;
  const std::vector<int> loaded = attention_group_operands(t.dag(), g, chain, gpu);
  AttentionProblem p = problem_of(chain, t.dag().stage(g.anchor), gpu);
  p.constants = t.constants().gpu;
  p.warp_groups = !loaded.empty();
  const Choice choice = t.decide("cuda_attention", p, attention_rule);
  AttentionKnobs k = ask(t, p, choice);
  const Param resident = t.choice("resident", choice);
  require_legal(t, p, k, resident);
  const auto write = [&](bool in_parts) {
    for (int64_t stay : {0, 1}) {
      t.when(resident, stay, [&] {
        attention_recipe(t, g, chain, k, {.resident = stay == 1, .in_parts = in_parts});
      });
    }
  };
  const auto by_mma_sync = [&] {
    if (!attention_in_parts(p)) return write(false);
    const Param form = t.kind("form", {"whole", "in_parts"}, choice);
    k.parts = t.knob("parts", kAttentionParts, choice);
    t.require("each part has keys", [=](const auto& v) {
      return v(form) == 0 || attention_parts_have_keys(p, v(k.keys), v(k.parts));
    });
    t.when(form, "whole", [&] { write(false); });
    t.when(form, "in_parts", [&] { write(true); });
  };
  if (loaded.empty() || attention_group_tile(p).keys == 0) return by_mma_sync();
  const Param unit = t.kind("unit", {"mma_sync", "wgmma"}, choice);
  const AttentionGroupKnobs group = ask_attention_group(t, p, unit, choice);
  for (const int operand : loaded) {
    if (std::find(g.tunable.begin(), g.tunable.end(), operand) != g.tunable.end())
      t.keep_at_root(operand, unit, 1);
  }
  t.when(unit, "mma_sync", by_mma_sync);
  t.when(unit, "wgmma", [&] { attention_group_recipe(t, g, chain, group); });
}

HEDDLE_REGISTER_META_TEMPLATE({"cuda_attention", 10, matches, build});

}  // namespace
}  // namespace heddle::meta
