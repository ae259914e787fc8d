#include "cuda/products/row_loops.h"

namespace heddle::meta {

RowLoops cut_rows(StageRef s, Loop rows, const RowCut& cut) {
  const TailStrategy whole = TailStrategy::PredicateStores;
  auto [units, in] = s.split(rows, mma::kRows, whole);
  if (!cut.groups) {
    auto [warp, tile] = s.split(units, cut.tiles, whole);
    return {{{warp, LoopKind::ThreadZ}}, tile, in};
  }
  auto [tiles, warp] = s.split(units, wgmma::kWarps, whole);
  auto [group, tile] = s.split(tiles, cut.tiles, whole);
  return {{{group, LoopKind::ThreadZ}, {warp, LoopKind::ThreadY}}, tile, in};
}

}  // namespace heddle::meta
