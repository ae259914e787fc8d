#include "cuda/products/computed_matrix_loops.h"

namespace heddle::meta {

std::vector<ComputedMatrixLoops::Made> ComputedMatrixLoops::pad_products(Param keys,
                                                                         Param key_units) const {
  std::vector<Made> made;
  for (const ComputedMatrix::Product& p : m_.products) {
    StageRef s = t_.stage(p.stage);
    StageRef row_tile = t_.stage(p.rows.stage).cache_read({s}),
             key_tile = t_.stage(p.keys.stage).cache_read({s});
    StageRef sum = s.pad({rows_of(s, p.row_dim),
                          {s.axis(p.key_dim), keys, key_units},
                          {s.reduce_axis(0), kMatrixUnit}});
    made.push_back({sum, row_tile, key_tile});
  }
  for (const int s : m_.fused) t_.stage(s).compute_inline();
  return made;
}

std::vector<Loop> ComputedMatrixLoops::without(StageRef s, int a, int b) {
  std::vector<Loop> others;
  for (int d = 0; d < s.num_axes(); ++d) {
    if (d != a && d != b) others.push_back(s.axis(d));
  }
  return others;
}

void ComputedMatrixLoops::bind_blocks(StageRef s, const std::vector<Loop>& batch, Loop block) {
  if (!batch.empty()) s.bind(s.fuse(batch), LoopKind::BlockZ);
  s.bind(block, LoopKind::BlockX);
}

Loop ComputedMatrixLoops::columns_of_blocks(StageRef s) const {
  const std::vector<Loop> batch = without(s, m_.row, m_.col);
  Rows r = cut_rows(s, m_.row);
  auto [block, unit_of_block] = s.split(r.threads[0].first, cut_.units, kWhole);
  r.threads[0].first = unit_of_block;
  auto [units, unit] = s.split(s.axis(m_.col), kMatrixUnit, kWhole);
  // A loop of one iteration surrounds all columns.
  auto [all, wide] = s.split(units, ceil_div(m_.cols, kMatrixUnit), kWhole);
  auto [col_tile, col] = s.split(unit, mma::kCols);
  auto [half, lane_row] = s.split(r.in, 8);
  auto [lane_col, pair] = s.split(col, 2);
  std::vector<Loop> loops{all, block};
  r.append_threads(&loops);
  loops.insert(loops.end(), {lane_row, lane_col, r.tile, wide, col_tile, half, pair});
  order(s, batch, loops);
  bind_lanes(s, lane_row, lane_col);
  bind_blocks(s, batch, block);
  r.bind_threads(s);
  for (Loop u : {r.tile, wide, col_tile, half}) s.unroll(u);
  s.vectorize(pair);
  return block;
}

std::vector<Loop> ComputedMatrixLoops::batch_of_sum(StageRef s) const {
  std::vector<Loop> batch = without(s, m_.row, m_.col);
  const std::vector<Loop> reduce = s.all_reduce_axes();
  for (size_t k = 0; k < reduce.size(); ++k) {
    if (static_cast<int>(k) != m_.key) batch.push_back(reduce[k]);
  }
  return batch;
}

void ComputedMatrixLoops::elements(StageRef s, const LayoutDigits& layout) const {
  const Rows r = cut_rows(s, m_.row_dim);
  std::vector<Loop> loops;
  r.append_threads(&loops);
  loops.insert(loops.end(), {r.tile, r.in, s.axis(m_.key_dim)});
  order(s, without(s, m_.row_dim, m_.key_dim), loops);
  r.bind_threads(s);
  s.unroll(r.tile);
  s.tensorize(r.in, "lanes");
  lay_out(s, layout);
}

}  // namespace heddle::meta
