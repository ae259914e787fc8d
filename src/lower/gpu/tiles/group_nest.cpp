#include "lower/gpu/tiles/group_nest.h"

namespace heddle::gpu {

using namespace instructions;

bool lies_along(const Place& p, const std::vector<NestLoop>& loops, std::string* why) {
  const int64_t row = tma::row_elements(p.buffer->dtype);
  return lies_as(p, loops, tma::along_depth(0, 1, row), {tma::kMostRows, row}, why);
}

namespace {

bool in_shared(const Buffer& b) { return b->scope == Scope::Shared; }

// Whether rows of the boxes of an operand run across the depth. Nullopt where the operand is not
// laid out in boxes.
std::optional<bool> lies_across(const Place& p, const std::vector<NestLoop>& loops,
                                std::string* why) {
  if (!in_shared(p.buffer)) {
    *why = "'" + p.buffer->name + "' is not in shared memory";
    return {};
  }
  if (lies_along(p, loops, why)) return false;
  // The instruction has no transposition bit for the other types.
  const int64_t row = tma::row_elements(p.buffer->dtype);
  std::string across;
  if (p.buffer->dtype.bytes() == 2 &&
      lies_as(p, loops, tma::across_depth(0, 1, row), {tma::kMostRows, row}, &across))
    return true;
  return {};
}

// The same for the left operand, which may be a fragment of 16-bit floats in registers. The rows of
// a fragment lie along the depth.
std::optional<bool> lies_as_left(const Place& p, const std::vector<NestLoop>& loops,
                                 std::string* why) {
  const DataType t = p.buffer->dtype;
  if (p.buffer->scope != Scope::Local || (t != f16 && t != bf16)) return lies_across(p, loops, why);
  if (!has_layout(p, loops, mma::left(0, 1, 2), why)) return {};
  return false;
}

}  // namespace

std::optional<TileNest> try_group_product(const std::vector<NestLoop>& loops, const Store& st,
                                          std::string* why) {
  for (const Unified& u : unify(wgmma_instruction(), loops, st, why)) {
    const NestLoop &m = u.loops[0], &n = u.loops[1], &k = u.loops[2];
    if (!has_layout(u.operands[0], {m, n}, mma::accumulator(0, 1), why)) continue;
    const std::optional<bool> a = lies_as_left(u.operands[1], {m, k}, why),
                              b = a ? lies_across(u.operands[2], {n, k}, why) : std::nullopt;
    if (!a || !b) continue;
    TileNest t;
    t.kind = TileNest::Kind::GroupProduct;
    t.c = u.first(0);
    t.a = u.first(1);
    t.b = u.first(2);
    t.columns = n.extent;
    t.pack = 2;
    t.a_across = *a;
    t.b_across = *b;
    return t;
  }
  return {};
}

}  // namespace heddle::gpu
