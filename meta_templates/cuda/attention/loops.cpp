#include "cuda/attention/loops.h"

namespace heddle::meta {

void AttentionLoops::inline_chain() {
  if (chain_.reader >= 0) t_.stage(chain_.total).compute_inline();
  if (g_.output_stage != g_.anchor) t_.stage(g_.anchor).compute_inline();
}

std::vector<Loop> AttentionLoops::batch_of(StageRef s) const {
  std::vector<Loop> out;
  for (int i = 0; i < row_dim(); ++i) out.push_back(s.axis(i));
  return out;
}

LayoutDigits AttentionLoops::accumulators() const {
  return mma::accumulator(row_dim(), row_dim() + 1);
}

Loop AttentionLoops::block_loops(StageRef s) const {
  const TailStrategy whole = TailStrategy::PredicateStores;
  Rows r = cut_rows(s, s.axis(in_parts_ ? row_dim() : chain_.row));
  auto [block, unit_of_block] = s.split(r.threads[0].first, cut_.units, whole);
  r.threads[0].first = unit_of_block;
  auto [units, unit] =
      s.split(s.axis(in_parts_ ? row_dim() + 1 : chain_.col), kAttentionUnit, whole);
  // A loop of one iteration surrounds all columns, so that the stages inside are computed for
  // whole units.
  const int64_t unit_cols = cut_.groups ? wgmma::kRows : kAttentionUnit;
  auto [all, many] =
      s.split(units, ceil_div(chain_.cols, unit_cols) * unit_cols / kAttentionUnit, whole);
  auto [col_tile, col] = s.split(unit, 8);
  auto [half, lane_row] = s.split(r.in, 8);
  auto [lane_col, pair] = s.split(col, 2);
  std::vector<Loop> batch, order;
  const int batches = static_cast<int>(chain_.batch.size());
  for (int i = 0; i < batches; ++i) batch.push_back(s.axis(in_parts_ ? i : chain_.batch[i]));
  order = batch;
  if (in_parts_) order.push_back(s.axis(batches));
  append(&order, {all, block});
  r.append_threads(&order);
  append(&order, {lane_row, lane_col, r.tile, many, col_tile, half, pair});
  s.reorder(order);
  s.bind(s.fuse(lane_row, lane_col), LoopKind::ThreadX);
  // Few rows have few tiles, and the batch may count the tokens of a step, too. Where rows have ends of their own, those
  // with the most keys come first, of the whole batch (the code of a kernel begins at its last blocks then).
  const bool wide = (in_parts_ || (chain_.reach.defined() && !cut_.groups)) && !batch.empty();
  if (!batch.empty()) s.bind(s.fuse(batch), wide ? LoopKind::BlockX : LoopKind::BlockZ);
  if (in_parts_) s.bind(s.axis(batches), LoopKind::BlockY);
  s.bind(block, wide ? LoopKind::BlockZ : LoopKind::BlockX);
  r.bind_threads(s);
  for (Loop u : {r.tile, many, col_tile, half}) s.unroll(u);
  s.vectorize(pair);
  return block;
}

void AttentionLoops::elements(StageRef s, const LayoutDigits& layout) const {
  const Rows r = cut_rows(s, s.axis(row_dim()));
  std::vector<Loop> order = batch_of(s);
  r.append_threads(&order);
  append(&order, {r.tile, r.in, s.axis(row_dim() + 1)});
  row_nest(s, order, r);
  lay_out(s, layout);
}

void AttentionLoops::row_values(StageRef s) const {
  const int m = row_dim();
  const Rows r = cut_rows(s, s.axis(m));
  const bool of_tile = s.num_axes() > m + 1;
  std::vector<Loop> order = batch_of(s);
  if (of_tile) order.push_back(s.axis(m + 1));
  r.append_threads(&order);
  append(&order, {r.tile, r.in, s.reduce_axis(0)});
  row_nest(s, order, r);
  lay_out(s, mma::row_values(m));
}

void AttentionLoops::partial_loops(StageRef s) const {
  const Rows r = cut_rows(s, s.axis(row_dim()));
  std::vector<Loop> order = batch_of(s);
  order.push_back(s.reduce_axis(0));
  r.append_threads(&order);
  append(&order, {r.tile, s.reduce_axis(1), r.in, s.axis(row_dim() + 1)});
  row_nest(s, order, r);
  s.unroll(s.reduce_axis(1));
  lay_out(s, accumulators());
}

void AttentionLoops::row_nest(StageRef s, const std::vector<Loop>& order, const Rows& r) {
  s.reorder(order);
  r.bind_threads(s);
  s.unroll(r.tile);
  s.tensorize(r.in, "lanes");
}

}  // namespace heddle::meta
