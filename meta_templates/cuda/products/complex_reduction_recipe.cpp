// clang-format off
//   for blocks (blockIdx): a tile of rows x columns              x batch and the like (blockIdx.z)
//     acc[..] = 0                                              each thread a few rows x columns
//     for ko, of tile_k steps each:                            `stages` tiles under way
//       A.copy, B.copy = a tile of each operand                shared memory, cp.async
//       for threads (threadIdx.y, threadIdx.x): for ki:        unrolled
//         acc[..] += A.copy[ki][rows] * B.copy[ki][columns]
//     output stage[..] = epilogue(acc)
//
//   rows    -> (tile, group, thread, row in group)             columns -> (tile, group, thread, lane)
//              blockIdx.x    threadIdx.y                                  blockIdx.y    threadIdx.x
//
// reduction = split_k: each block reduces a part of k_part steps; a second kernel adds the parts up.
// clang-format on
//
// A thread's rows and columns are in groups at distances of threads * group, so that the reads of a
// warp from shared memory are 16 bytes wide and free of bank conflicts.
#include "cuda/products/complex_reduction_recipe.h"

#include "cuda/products/product_loops.h"

namespace heddle::meta {
namespace {

class Recipe {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g, const SimtShape& shape, const SimtKnobs& knobs)
      : t_(t), g_(g), shape_(shape), axes_(shape.axes), view_(shape.view), knobs_(knobs) {}

  void whole() {
    StageRef anchor = t_.stage(g_.anchor), output_stage = t_.stage(g_.output_stage);
    StageRef acc = view_            ? viewed_sum(knobs_.tile_k)
                   : has_epilogue() ? anchor
                                    : anchor.cache_write();
    const Loop place = block_loops(output_stage, 0, true);
    accumulate(acc, 0, output_stage, place);
  }

  void parts() {
    StageRef sum = view_ ? viewed_sum(knobs_.k_part) : t_.stage(g_.anchor);
    const Loop depth = sum.reduce_axis(view_ ? 0 : shape_.step_axis);
    StageRef partial = sum.rfactor(depth, knobs_.k_part, false);
    StageRef acc = partial.cache_write();
    const Loop place = block_loops(partial, 1, false);
    accumulate(acc, 1, partial, place);
    if (view_) return sum_of_parts(t_, g_, sum);
    sum_of_parts(t_, g_);
  }

 private:
  bool has_epilogue() const { return g_.output_stage != g_.anchor; }

  // The sum as a product of matrices of full tiles. Its depth is a multiple of `depth`.
  StageRef viewed_sum(Param depth) {
    StageRef anchor = t_.stage(g_.anchor);
    StageRef::ProductView v = product_step(anchor, *view_);
    v.row_multiple = {knobs_.group_rows, knobs_.row_groups, knobs_.row_threads};
    v.col_multiple = {kColumnLanes, knobs_.col_groups, knobs_.col_threads};
    v.depth_multiple = {depth, 1, 1};
    const StageRef::Product made = anchor.as_product(v);
    operands_ = {made.rows, made.cols};
    if (has_epilogue()) anchor.compute_inline();
    return made.sum;
  }

  // ---- the loops over tiles ----

  struct Loops {
    std::vector<Loop> others;   // batch axes
    Loop row_tile, col_tile;    // blocks; invalid where there are none
    std::vector<Loop> threads;  // loops over threads of rows, if any, then of columns
    std::vector<Loop> inner;    // groups of rows, rows in a group, groups of columns
    Loop lane;
  };

  // The loops of stage `s` over rows (an invalid loop if there are none) and columns. Batch loops
  // are added to `others`. The stage has the axes of the sum after `first` others, or, as an output
  // stage, those of the declaration.
  std::array<Loop, 2> rows_and_columns(StageRef s, int first, bool output_stage,
                                       std::vector<Loop>* others) const {
    for (int i = 0; i < first; ++i) others->push_back(s.axis(i));
    if (view_ && output_stage) {
      const ProductLoops p = taken_together(s, *view_);
      others->insert(others->end(), p.batch.begin(), p.batch.end());
      return {p.rows, p.cols};
    }
    if (view_) {
      const int batch = first + static_cast<int>(view_->batch.size());
      for (int i = first; i < batch; ++i) others->push_back(s.axis(i));
      return {s.axis(batch), s.axis(batch + 1)};
    }
    for (const auto* list : {&axes_.batch, &axes_.m_others, &axes_.v_others}) {
      for (int i : *list) others->push_back(s.axis(first + i));
    }
    return {axes_.m >= 0 ? s.axis(first + axes_.m) : Loop(), s.axis(first + axes_.v)};
  }

  // Splits a loop into full tiles. The accumulators of a shorter tile would not be registers,
  // because its loops have no constant extents.
  std::array<Loop, 2> cut(StageRef s, Loop loop, Param factor) const {
    return s.split(loop, factor, TailStrategy::PredicateStores);
  }

  Loops tile_loops(StageRef s, int first, bool has_tiles, bool output_stage) const {
    Loops l;
    const auto [rows, cols] = rows_and_columns(s, first, output_stage, &l.others);
    if (rows.valid()) {
      auto [groups, row] = cut(s, rows, knobs_.group_rows);
      auto [group, thread] = cut(s, groups, knobs_.row_threads);
      if (has_tiles) {
        auto [tile, group_of_tile] = cut(s, group, knobs_.row_groups);
        l.row_tile = tile;
        group = group_of_tile;
      }
      l.threads.push_back(thread);
      l.inner = {group, row};
    }
    auto [lanes, lane] = cut(s, cols, kColumnLanes);
    auto [group, thread] = cut(s, lanes, knobs_.col_threads);
    if (has_tiles) {
      auto [tile, group_of_tile] = cut(s, group, knobs_.col_groups);
      l.col_tile = tile;
      group = group_of_tile;
    }
    l.threads.push_back(thread);
    l.inner.push_back(group);
    l.lane = lane;
    return l;
  }

  static void bind_threads(StageRef s, const Loops& l) {
    if (l.threads.size() == 2) s.bind(l.threads[0], LoopKind::ThreadY);
    s.bind(l.threads.back(), LoopKind::ThreadX);
    for (Loop i : l.inner) s.unroll(i);
    s.vectorize(l.lane);
  }

  // The loops of the root stage that a tile of results is stored to. Returns the innermost block
  // loop.
  Loop block_loops(StageRef s, int first, bool output_stage) const {
    const Loops l = tile_loops(s, first, true, output_stage);
    std::vector<Loop> order = l.others;
    if (l.col_tile.valid()) order.push_back(l.col_tile);
    if (l.row_tile.valid()) order.push_back(l.row_tile);
    order.insert(order.end(), l.threads.begin(), l.threads.end());
    order.insert(order.end(), l.inner.begin(), l.inner.end());
    order.push_back(l.lane);
    s.reorder(order);
    if (!l.others.empty()) s.bind(s.fuse(l.others), LoopKind::BlockZ);
    s.bind(l.col_tile, LoopKind::BlockY);
    if (l.row_tile.valid()) s.bind(l.row_tile, LoopKind::BlockX);
    bind_threads(s, l);
    return l.row_tile.valid() ? l.row_tile : l.col_tile;
  }

  // Writes the accumulators in registers with the whole reduction inside, and operands in shared
  // memory.
  void accumulate(StageRef acc, int first, StageRef host, Loop place) {
    const Loops l = tile_loops(acc, first, false, false);
    const std::vector<Loop> reduce = acc.all_reduce_axes();
    const size_t steps = view_ ? 0 : static_cast<size_t>(shape_.step_axis);
    auto [ko, ki] = acc.split(reduce[steps], knobs_.tile_k);
    std::vector<Loop> order = l.others;
    for (size_t i = 0; i < reduce.size(); ++i) {
      if (!view_ && i != steps) order.push_back(reduce[i]);
    }
    order.push_back(ko);
    order.insert(order.end(), l.threads.begin(), l.threads.end());
    order.push_back(ki);
    order.insert(order.end(), l.inner.begin(), l.inner.end());
    order.push_back(l.lane);
    acc.reorder(order);
    acc.unroll(ki);
    bind_threads(acc, l);
    acc.compute_at(host, place);
    if (view_) {
      share_viewed(view_->row_operand, operands_[0], acc, ko);
      return share_viewed(view_->col_operand, operands_[1], acc, ko);
    }
    // If both operands are the same tensor, a copy would have to hold its rows and its columns.
    // Caches do that.
    if (axes_.row && axes_.vector && axes_.row->producer == axes_.vector->producer) return;
    for (const Access* a : {axes_.row, axes_.vector}) {
      // A tile of what is read at places that are data has no bounds.
      if (a && !read_by_data(*a)) share(*a, acc, ko);
    }
  }

  // ---- operands in shared memory ----

  static bool read_by_data(const Access& a) {
    return std::any_of(a.indices.begin(), a.indices.end(), [](const Expr& index) {
      return any_below(index, [](const Expr& e) { return e.as<Load>() != nullptr; });
    });
  }

  // Whether dimension `d` of operand `a` runs along rows or columns, and not along the reduction
  // only.
  bool on_spatial(const Access& a, int d) const {
    const auto& f = a.affine[static_cast<size_t>(d)];
    if (!f) return true;
    const auto& spatial = shape_.op->axes();
    return std::any_of(spatial.begin(), spatial.end(),
                       [&](const Axis& x) { return f->coefficient(x.var()) != 0; });
  }

  // Copies a tile of operand `a`. The dimensions of the reduction are outermost, so that elements
  // that neighbouring threads read are adjacent.
  void share(const Access& a, StageRef acc, Loop at) {
    StageRef p = t_.stage(a.producer).cache_read({acc});
    p.compute_at(acc, at);
    p.set_scope(Scope::Shared);
    p.multi_buffer(knobs_.stages);
    std::vector<StageRef::StorageDim> reduce_dims, dims;
    const int rank = p.num_axes();
    bool last_is_reduce = false;
    for (int d = 0; d < rank; ++d) {
      const bool spatial = on_spatial(a, d);
      (spatial ? dims : reduce_dims).push_back({d, 1, 0});
      if (d == rank - 1) last_is_reduce = !spatial;
    }
    const bool transposed = last_is_reduce && !dims.empty();
    if (!reduce_dims.empty() && !dims.empty()) {
      reduce_dims.insert(reduce_dims.end(), dims.begin(), dims.end());
      p.layout(reduce_dims);
    }
    fill(p, transposed, kColumnLanes);
  }

  // As `share`, for the stage of an operand of a viewed sum.
  void share_viewed(const ViewOperand& operand, StageRef p, StageRef acc, Loop at) {
    p.compute_at(acc, at);
    p.set_scope(Scope::Shared);
    p.multi_buffer(knobs_.stages);
    const int rank = p.num_axes(), depth = operand.along_depth ? rank - 1 : rank - 2;
    std::vector<StageRef::StorageDim> dims{{depth, 1, 0}};
    for (int d = 0; d < rank; ++d) {
      if (d != depth) dims.push_back({d, 1, 0});
    }
    p.layout(dims);
    fill(p, operand.along_depth, whole_vector(operand.vector, kColumnLanes));
  }

  // All threads load, 16 bytes each where source and tile are contiguous along the same dimension.
  void fill(StageRef p, bool transposed, int64_t vector) {
    if (transposed) p.storage_pad(4);  // the elements of a column lie in different banks
    Loop pieces = p.fuse(p.all_axes());
    if (!transposed) {
      auto [vectors, lane] = p.split(pieces, vector);
      p.vectorize(lane);
      pieces = vectors;
    }
    auto [o, x] = p.split(pieces, knobs_.col_threads);
    if (shape_.has_rows()) {
      auto [each, y] = p.split(o, knobs_.row_threads);
      p.bind(y, LoopKind::ThreadY);
      p.unroll(each);
      p.reorder({y, x, each});
    }
    p.bind(x, LoopKind::ThreadX);
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const SimtShape& shape_;
  const ContractionShape& axes_;
  const std::optional<ContractionView>& view_;
  const SimtKnobs& knobs_;
  std::vector<StageRef> operands_;  // operands of the viewed sum: of rows, of columns
};

}  // namespace

void simt_whole(TemplateBuilder& t, const StageGroup& g, const SimtShape& shape,
                const SimtKnobs& knobs) {
  Recipe(t, g, shape, knobs).whole();
}

void simt_parts(TemplateBuilder& t, const StageGroup& g, const SimtShape& shape,
                const SimtKnobs& knobs) {
  Recipe(t, g, shape, knobs).parts();
}

}  // namespace heddle::meta
