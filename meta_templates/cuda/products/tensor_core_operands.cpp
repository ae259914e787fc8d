// An operand's tile and its fragments:
//
// clang-format off
//   for k_tile {
//     tile[..] = operand[..]                     16 bytes a thread by cp.async, `stages` copies
//     for warps: for step {
//       for 16 rows: frag[..] = tile[..]         one ldmatrix; two copies, loaded a step ahead
//       ..mma
//     }
//   }
// clang-format on
//
// Bytes of an operand that is not contiguous along the depth are transposed on the way to the tile:
// a thread loads 4 x 4 of them to registers and stores them transposed.
#include "cuda/products/tensor_core_operands.h"

namespace heddle::meta {
namespace {

// The number of elements in flight where each element is loaded through a register by its own
// index.
constexpr int64_t kElementsUnderWay = 8;
// Bytes of a register, and of a word of shared memory.
constexpr int64_t kWord = 4;

class Operand {
 public:
  Operand(const TensorCoreShape& shape, const TensorCoreKnobs& knobs, size_t which,
          const TensorCoreOperand& operand)
      : knobs_(knobs),
        rows_(which == 0),
        turned_(shape.turned(which)),
        by_elements_(shape.view() && shape.by_elements(which)),
        pack_(shape.pack()),
        layout_(shape.layout(which)),
        source_(operand.source),
        tile_(operand.tile) {}

  void schedule(StageRef acc, Loop k_tile, Loop step) {
    fragments(acc, step);
    tile_.compute_at(acc, k_tile);
    tile_.set_scope(Scope::Shared);
    tile_.storage_pad(pad());
    tile_.multi_buffer(knobs_.stages);
    turned_ ? turn() : copy();
  }

 private:
  // Calls `fn` for the dimensions of `s` that are neither lines (rows or columns) nor the depth.
  template <typename Fn>
  void for_each_other_dim(StageRef s, Fn fn) const {
    for (int d = 0; d < s.num_axes(); ++d) {
      if (d != layout_.line_dim && d != layout_.depth_dim) fn(d);
    }
  }

  void fragments(StageRef acc, Loop step) {
    StageRef frag = tile_.cache_read({acc});
    frag.compute_at(acc, step);
    std::vector<Loop> order;
    for_each_other_dim(frag, [&](int d) { order.push_back(frag.axis(d)); });
    // One ldmatrix.x4 loads two tiles of columns at once.
    auto [line_tile, line] = frag.split(frag.axis(layout_.line_dim), 16);
    const Loop k = frag.axis(layout_.depth_dim);
    if (rows_) {
      order.insert(order.end(), {line_tile, line, k});
    } else {
      order.insert(order.end(), {line_tile, k, line});
    }
    const int s = layout_.line_dim, depth = layout_.depth_dim;
    lay_out(frag, rows_ ? mma::left(s, depth, pack_) : mma::right(depth, s, pack_));
    frag.multi_buffer(2);  // the next step's fragments are loaded while this one's multiply
    frag.reorder(order);
    frag.unroll(line_tile);
    frag.tensorize(rows_ ? line : k, "ldmatrix");
  }

  // Elements after each row of the tile. 16 bytes put the rows of a matrix into different banks.
  // For f32 with the depth outside, the lanes of a warp read eight elements of each of four rows,
  // and eight elements put these rows into different banks.
  int64_t pad() const { return pack_ == 1 && layout_.depth_dim < layout_.line_dim ? 8 : 4 * pack_; }

  // Shares a loop over pieces of the tile among all threads of the block. Returns the loop over the
  // pieces of a thread.
  Loop over_threads(Loop pieces, const std::vector<Loop>& inner) {
    auto [o, x] = tile_.split(pieces, kWarp);
    auto [o2, y] = tile_.split(o, knobs_.col_warps);
    auto [each, z] = tile_.split(o2, knobs_.row_warps);
    std::vector<Loop> order{z, y, x, each};
    order.insert(order.end(), inner.begin(), inner.end());
    tile_.reorder(order);
    tile_.bind(x, LoopKind::ThreadX);
    tile_.bind(y, LoopKind::ThreadY);
    tile_.bind(z, LoopKind::ThreadZ);
    return each;
  }

  void copy() {
    const Loop all = tile_.fuse(tile_.all_axes());
    auto [vectors, lane] = tile_.split(all, layout_.vector);
    const Loop each = over_threads(vectors, {lane});
    tile_.unroll(by_elements_ ? tile_.split(each, kElementsUnderWay)[1] : each);
    tile_.vectorize(lane);
  }

  // Transposes: a thread loads 4 x 4 bytes, four along the operand's lines, and stores four along
  // the depth.
  void turn() {
    std::vector<StageRef::StorageDim> dims;
    std::vector<Loop> order;
    for_each_other_dim(tile_, [&](int d) {
      dims.push_back({d, 1, 0});
      order.push_back(tile_.axis(d));
    });
    dims.insert(dims.end(), {{layout_.line_dim, 1, 0}, {layout_.depth_dim, 1, 0}});
    tile_.layout(dims);
    auto [line_word, line] = tile_.split(tile_.axis(layout_.line_dim), kWord);
    auto [k_word, k] = tile_.split(tile_.axis(layout_.depth_dim), kWord);
    // Eight lanes go along k. At most two of their stores fall into one bank, and the reads of the
    // other lanes are adjacent.
    auto [k_outer, k_lane] = tile_.split(k_word, 8);
    auto [line_outer, line_lane] = tile_.split(line_word, 2);
    order.insert(order.end(), {k_outer, line_outer, k_lane, line_lane});
    std::vector<Loop> all = order;
    all.insert(all.end(), {line, k});
    tile_.reorder(all);
    const Loop each = over_threads(tile_.fuse(order), {line, k});
    for (Loop u : {each, line}) tile_.unroll(u);
    tile_.vectorize(k);
    load_block(each);
  }

  // Loads the 4 x 4 bytes to registers along the operand's lines.
  void load_block(Loop each) {
    StageRef block = source_;
    block.compute_at(tile_, each);
    const Loop k = block.axis(layout_.depth_dim), line = block.axis(layout_.line_dim);
    std::vector<Loop> order;
    for_each_other_dim(block, [&](int d) { order.push_back(block.axis(d)); });
    order.insert(order.end(), {k, line});
    block.reorder(order);
    block.unroll(k);
    if (layout_.vector % kWord == 0) {
      block.vectorize(line);
    } else {
      block.unroll(line);
    }
  }

  const TensorCoreKnobs& knobs_;
  const bool rows_, turned_, by_elements_;
  const int64_t pack_;
  const TensorCoreShape::Layout layout_;
  StageRef source_, tile_;
};

}  // namespace

void schedule_operand(const TensorCoreShape& shape, const TensorCoreKnobs& knobs, size_t which,
                      const TensorCoreOperand& operand, StageRef acc, Loop k_tile, Loop step) {
  Operand(shape, knobs, which, operand).schedule(acc, k_tile, step);
}

}  // namespace heddle::meta
