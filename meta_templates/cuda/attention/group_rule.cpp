// The tile of attention by warp groups, and the knobs for it.
#include <algorithm>

#include "cuda/attention/group.h"

namespace heddle::meta {
namespace {

constexpr int64_t kBoxRow = 64;  // elements of a row of a box, and lines of one of values
constexpr int64_t kGroupThreads = 128;
constexpr int64_t kBytes = 2;  // of an element
// Bytes of shared memory besides the tiles: barriers and alignment.
constexpr int64_t kOtherBytes = 2048;
// Registers besides those of products: addresses, counters, values of rows.
constexpr int64_t kOtherRegisters = 32;
constexpr int64_t kMostStages = 4;

// Boxes are whole in shared memory, and sums of columns in registers.
int64_t whole_boxes(int64_t n) { return ceil_div(n, kBoxRow) * kBoxRow; }

bool fits(const AttentionProblem& p, const AttentionGroupTile& t) {
  return attention_registers(p, t) <= attention_registers_left(t) &&
         attention_bytes(p, t) <= p.gpu.smem_per_block &&
         (t.groups + 1) * kGroupThreads <= p.gpu.threads_per_block && attention_has_tiles(p, t);
}

}  // namespace

int64_t attention_registers(const AttentionProblem& p, const AttentionGroupTile& t) {
  // Scores are f32; the weights of the tile before are 16-bit.
  return whole_boxes(p.cols) / 2 + t.keys / 2 + t.keys / 4 + kOtherRegisters;
}

// What setmaxnreg leaves (lower/gpu/warp_group/warp_roles.cpp).
int64_t attention_registers_left(const AttentionGroupTile& t) {
  return t.groups == 1 ? 250 : t.groups == 2 ? 232 : 160;
}

int64_t attention_bytes(const AttentionProblem& p, const AttentionGroupTile& t) {
  const int64_t depth = whole_boxes(p.depth), cols = whole_boxes(p.cols);
  return (t.rows() * depth + t.stages * t.keys * (depth + cols)) * kBytes + kOtherBytes;
}

bool attention_has_tiles(const AttentionProblem& p, const AttentionGroupTile& t) {
  // Lowering would not recognise the load of a box beyond the last key in every tile, because its
  // index is simplified by the bounds that it violates. A single tile needs no ring.
  return std::min(p.keys, p.reach) > t.keys && t.keys - kBoxRow < p.keys;
}

AttentionGroupTile attention_group_tile(const AttentionProblem& p) {
  AttentionGroupTile t;
  // Few blocks are cut smaller, so that more SMs have one. Blocks of short heads are small, so that
  // an SM runs several: some multiply while others begin or end.
  const bool short_heads = std::max(p.depth, p.cols) <= kBoxRow;
  if (2 * ceil_div(p.rows, t.rows()) * p.batches <= p.gpu.sms || p.rows <= kBoxRow || short_heads)
    t.groups = 1;
  const bool alone = ceil_div(p.rows, t.rows()) * p.batches <= p.gpu.sms;
  for (const int64_t keys : {128, 64}) {
    if (keys == 128 && short_heads && !alone) continue;
    t.keys = keys;
    for (t.stages = kMostStages; t.stages > 1; --t.stages) {
      if (fits(p, t)) return t;
    }
  }
  t.stages = 2;
  t.keys = 0;
  return t;
}

AttentionGroupKnobs ask_attention_group(TemplateBuilder& t, const AttentionProblem& p, Param unit,
                                        const Choice& choice) {
  AttentionGroupKnobs k;
  k.groups = t.knob("groups", {1, 2, 3}, choice);
  k.keys = t.knob("group_keys", {64, 128}, choice);
  k.stages = t.knob("group_stages", {2, 3, 4}, choice);
  const auto tile = [=](const auto& v) {
    return AttentionGroupTile{v(k.groups), v(k.keys), v(k.stages)};
  };
  t.require("the products of a warp group must fit its registers", [=](const auto& v) {
    return v(unit) == 0 || attention_registers(p, tile(v)) <= attention_registers_left(tile(v));
  });
  t.require("the tiles of warp groups must fit shared memory", [=](const auto& v) {
    return v(unit) == 0 || attention_bytes(p, tile(v)) <= p.gpu.smem_per_block;
  });
  t.require("a block has no more threads than it may", [=](const auto& v) {
    return v(unit) == 0 || (v(k.groups) + 1) * kGroupThreads <= p.gpu.threads_per_block;
  });
  t.require("a ring needs several tiles, and each box keys",
            [=](const auto& v) { return v(unit) == 0 || attention_has_tiles(p, tile(v)); });
  t.require("half of the rows of warp groups must be of use", [=](const auto& v) {
    return v(unit) == 0 || v(k.groups) == 1 || tile(v).rows() < 2 * p.rows;
  });
  return k;
}

}  // namespace heddle::meta
