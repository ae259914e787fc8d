// The tile of a computed matrix by warp groups, and the knobs for it.
#include "cuda/products/computed_matrix_group.h"

namespace heddle::meta {
namespace {

constexpr int64_t kGroupThreads = 128;
constexpr int64_t kBytes = 2;  // of an element
// Bytes of shared memory besides the tiles: barriers and alignment.
constexpr int64_t kOtherBytes = 2048;
// Registers besides those of products: addresses, counters, what elements are made of.
constexpr int64_t kOtherRegisters = 40;
constexpr int64_t kMostStages = 3;

int64_t depth_of(const ComputedMatrixProblem& p) {
  int64_t depth = 0;
  for (const int64_t d : p.depths) depth += d;
  return depth;
}

// Registers of a thread: products and sums are f32, the matrix is 16-bit.
int64_t registers(const ComputedMatrixProblem& p, const ComputedMatrixGroupTile& t) {
  const auto products = static_cast<int64_t>(p.depths.size());
  return p.cols / 2 + products * t.keys / 2 + t.keys / 4 + kOtherRegisters;
}
// What setmaxnreg leaves (lower/gpu/warp_group/warp_roles.cpp).
int64_t registers_left(const ComputedMatrixGroupTile& t) {
  return t.groups == 1 ? 232 : t.groups == 2 ? 232 : 160;
}
int64_t bytes(const ComputedMatrixProblem& p, const ComputedMatrixGroupTile& t) {
  return (t.rows() * depth_of(p) + t.stages * t.keys * (depth_of(p) + p.cols)) * kBytes +
         kOtherBytes;
}
// A ring needs several tiles, and no tile ends beyond the rows or the keys.
bool has_tiles(const ComputedMatrixProblem& p, const ComputedMatrixGroupTile& t) {
  return p.keys % t.keys == 0 && p.keys > t.keys && p.rows % t.rows() == 0;
}
bool fits(const ComputedMatrixProblem& p, const ComputedMatrixGroupTile& t) {
  return registers(p, t) <= registers_left(t) && bytes(p, t) <= p.gpu.smem_per_block &&
         (t.groups + 1) * kGroupThreads <= p.gpu.threads_per_block && has_tiles(p, t);
}

}  // namespace

ComputedMatrixGroupTile computed_matrix_group_tile(const ComputedMatrixProblem& p) {
  ComputedMatrixGroupTile t;
  // Blocks of one group hide each other's waits. Where they are few, two share a multiprocessor, so that
  // kernels of such blocks can share a launch. Where they are many, long tiles take less time: of 8 heads of
  // 2,048 tokens 0.146 ms of an H200, 0.163 with tiles of 64 keys and 0.162 to 0.172 with blocks of two groups.
  const bool few = ceil_div(p.rows, t.rows()) * p.batches <= p.gpu.sms;
  for (const int64_t keys : {128, 64}) {
    t.keys = keys;
    for (t.stages = few ? kMostStages : 2; t.stages > 1; --t.stages) {
      const bool share = 2 * (bytes(p, t) + p.gpu.smem_reserved) <= p.gpu.smem_per_sm;
      if (fits(p, t) && (share || !few)) return t;
    }
  }
  t.stages = 2;
  t.keys = 0;
  return t;
}

ComputedMatrixGroupKnobs ask_computed_matrix_group(TemplateBuilder& t,
                                                   const ComputedMatrixProblem& p, Param unit,
                                                   const Choice& choice) {
  ComputedMatrixGroupKnobs k;
  k.groups = t.knob("groups", {1, 2, 3}, choice);
  k.key_units = t.knob("group_key_units", {4, 8}, choice);
  k.stages = t.knob("group_stages", {2, 3, 4}, choice);
  const auto tile = [=](const auto& v) {
    return ComputedMatrixGroupTile{v(k.groups), kMatrixUnit * v(k.key_units), v(k.stages)};
  };
  t.require("the products of a warp group must fit its registers", [=](const auto& v) {
    return v(unit) == 0 || registers(p, tile(v)) <= registers_left(tile(v));
  });
  t.require("the tiles of warp groups must fit shared memory", [=](const auto& v) {
    return v(unit) == 0 || bytes(p, tile(v)) <= p.gpu.smem_per_block;
  });
  t.require("a block has no more threads than it may", [=](const auto& v) {
    return v(unit) == 0 || (v(k.groups) + 1) * kGroupThreads <= p.gpu.threads_per_block;
  });
  t.require("tiles of warp groups divide rows and keys",
            [=](const auto& v) { return v(unit) == 0 || has_tiles(p, tile(v)); });
  return k;
}

}  // namespace heddle::meta
