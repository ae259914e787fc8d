// Copies of a contraction's operands, in the order in which its register tile reads them.
#pragma once

#include "cpu/copy_loops.h"
#include "cpu/narrow_product.h"

namespace heddle::meta {

// Which operands are copied, by rule and as knobs; and the copies.
class OperandCopies {
 public:
  OperandCopies(TemplateBuilder& t, const StageGroup& g, int64_t lanes, const ContractionShape& sh,
                const std::optional<NarrowProduct>& narrow)
      : t_(t),
        g_(g),
        dag_(t.dag()),
        op_(dag_.stage(g.anchor)),
        lanes_(lanes),
        sh_(sh),
        narrow_(narrow) {}

  // What the contraction does with them.
  struct Use {
    Param tile_rows, tile_cols;
    bool pairs = false;  // copies may be in groups of two for an instruction
    bool parallel = false;
  };
  // What is done with the vector operand: nothing, it is read as it lies; a copy of it in panels
  // of tiles is made before anything else; or of each panel when a block comes to it. That passes
  // through memory once, not three times, and no thread waits for another.
  enum VectorCopy : int64_t { kAsItLies, kWhole, kPanels };

  // False where blocks have some rows of a batch only: each would copy all panels.
  void allow_panels(bool allow) { allow_panels_ = allow; }

  // By rule.
  VectorCopy of_vectors() const {
    if (!sh_.vector || sh_.vector_dim < 0 || !sh_.row) return kAsItLies;
    if (is_constant(*sh_.vector)) return kWhole;
    const bool last = sh_.vector_dim == contiguous_dim(*sh_.vector);
    const int64_t row_bytes = bytes_a_row(*sh_.vector);
    int64_t reuse = sh_.rows;
    for (int i : sh_.m_others) reuse *= op_.axes()[i].extent();
    // Rows of 512 bytes share few sets of L1: packed where a panel is not there anyway.
    const bool long_strides = row_bytes > 1024 || (row_bytes >= 512 && bytes_a_batch(*sh_.vector) >
                                                                           t_.target().l1d_bytes);
    if (halves()) return reuse >= 32 ? kWhole : kAsItLies;
    if (last && !long_strides) return kAsItLies;
    // All rows are one block then: of 2048 they come from beyond L2 too often.
    if (allow_panels_ && sh_.m_others.empty() && reuse >= 16 && reuse <= 1024) return kPanels;
    return reuse >= 32 ? kWhole : kAsItLies;
  }

  // Vectors of filters read an image that has its channels in planes (NCHW) by a line of memory for
  // each channel. Copied with its channels innermost it is read as one that lies so.
  void choose_channels() {
    channels_ = grouped_reduction(op_, sh_);
    if (!channels_ || sh_.m < 0 || sh_.row_dim >= 0 || !is_stored(*sh_.row)) return;
    if (channels_->row_dim + 1 == sh_.row->tensor.rank()) return;
    channels_chosen_ = channels_->extent >= lanes_;
    channels_last_ = t_.choice("channels_last", channels_chosen_,
                               channels_chosen_ ? "no line for each plane" : "few channels");
    t_.keep_at_root(sh_.row->producer, channels_last_, 1);
  }
  Param channels_last() const { return channels_last_; }
  bool channels_chosen() const { return channels_chosen_; }

  void choose(const Use& use) {
    use_ = use;
    auto constant = [&](const Access* a) { return a && is_constant(*a); };
    if (sh_.vector && sh_.vector_dim >= 0 && sh_.row) {  // else nothing of it is used again
      const int64_t chosen = of_vectors();
      std::vector<int64_t> forms{kAsItLies, kWhole};
      if (!constant(sh_.vector)) forms.push_back(kPanels);
      pack_vector_ = t_.knob("pack_vectors", forms, chosen,
                             constant(sh_.vector) ? "constant: packed once"
                             : chosen == kPanels  ? "2: long strides, a panel at a time"
                             : chosen == kWhole   ? "long strides, read often"
                                                  : "read in order as it lies");
      // The lines of a panel are each of another page, where no stream runs ahead: the next panel's
      // are fetched while one is copied.
      if (!constant(sh_.vector) && is_stored(*sh_.vector) && sh_.cols >= 64)
        ahead_ = t_.knob("prefetch_panels", {0, 16, 32, 64}, chosen == kPanels ? 32 : 0,
                         "columns ahead of those that are copied");
    }
    if (sh_.row && sh_.row_dim >= 0) {
      // As it lies, a block is many rows that compete for sets of L2. Worth it from where it no
      // longer fits there and is read often (docs/benchmarks.md, "packing the broadcast operand").
      bool large = sh_.cols >= 512 && bytes_a_batch(*sh_.row) >= t_.target().l2_bytes;
      // A line for each step of k otherwise, of which a tile uses some elements.
      const Axis* along = row_reduction();
      bool across = sh_.cols >= 256 && sh_.depth >= 128 && (!along || along->extent() == 1);
      bool chosen = constant(sh_.row) || large || across;
      const std::string reason = constant(sh_.row) ? "constant: packed once"
                                 : large           ? "larger than L2, read for many columns"
                                 : across          ? "rows lie across the lines of memory"
                                                   : "broadcasts read it in order";
      if (halves()) {
        pack_row_ = t_.knob("pack_broadcasts", {0, 1, 2}, sh_.cols >= 32 ? 2 : 0,
                            sh_.cols >= 32 ? "2: widened as it lies, for many columns" : reason);
      } else {
        pack_row_ = t_.choice("pack_broadcasts", chosen, reason);
      }
    }
    for (int64_t form : {kWhole, kPanels}) {
      if (!pack_vector_.is_const()) t_.keep_at_root(sh_.vector->producer, pack_vector_, form);
    }
    if (!pack_row_.is_const()) {
      t_.keep_at_root(sh_.row->producer, pack_row_, 1);
      if (halves()) t_.keep_at_root(sh_.row->producer, pack_row_, 2);
    }
    choose_widening();
  }

  // The copies that `reader` reads; of panels, at loop `panel` of `host`.
  void write(StageRef reader, StageRef host, Loop panel, bool channels_last) {
    auto widened = [&](StageRef p, Param widen) {
      if (!widen.is_const()) t_.when(widen, 1, [&] { p.widen(narrow_->wide); });
    };
    if (!pack_vector_.is_const()) {
      const bool squares = !is_constant(*sh_.vector) && sh_.vector->tensor.dtype().bits == 32;
      const int inner = channels_last ? channels_->vector_dim : -1;
      auto copy = [&](bool whole) {
        StageRef p =
            pack(*sh_.vector, sh_.vector_dim, use_.tile_cols, inner, reader, squares, whole);
        widened(p, widen_vector_);
        return p;
      };
      t_.when(pack_vector_, kWhole, [&] { copy(true); });
      if (!is_constant(*sh_.vector))
        t_.when(pack_vector_, kPanels, [&] {
          StageRef p = copy(false).compute_at(host, panel);
          if (ahead_.is_const()) return;
          prefetch_ahead(t_, p, t_.stage(sh_.vector->producer), sh_.vector_dim, ahead_,
                         {16, 32, 64});
        });
    }
    if (channels_last) {
      StageRef p = t_.stage(sh_.row->producer).cache_read({reader});
      const bool squares = sh_.row->tensor.dtype().bits == 32;
      share_out(*sh_.row, p, innermost_copy(p, channels_->row_dim, squares, lanes_));
      if (halves()) p.widen(narrow_->wide);
    }
    if (pack_row_.is_const()) return;
    t_.when(pack_row_, 1, [&] {
      widened(pack(*sh_.row, sh_.row_dim, use_.tile_rows, -1, reader, false, true), widen_row_);
    });
    if (halves()) t_.when(pack_row_, 2, [&] { widen_whole(*sh_.row, narrow_->wide, reader); });
  }

  void write_groups(StageRef reader, const GroupedReduction& g, int64_t size, bool k_inner) {
    auto pack = [&](const Access& a, int k, int dim, Param tile, int last, Param widen) {
      StageRef p = pack_groups(a, k, size, dim, tile, last, k_inner, reader);
      if (size == 2 && narrow_->integers() && !widen.is_const())
        t_.when(widen, 1, [&] { p.widen(i16); });
    };
    pack(*sh_.vector, g.vector_dim, sh_.vector_dim, use_.tile_cols, g.lane_dim, widen_vector_);
    auto row = [&](int dim) { pack(*sh_.row, g.row_dim, dim, use_.tile_rows, -1, widen_row_); };
    if (pack_row_.is_const()) return row(-1);
    t_.when(pack_row_, 0, [&] { row(-1); });
    t_.when(pack_row_, 1, [&] { row(sh_.row_dim); });
    if (halves()) t_.when(pack_row_, 2, [&] { row(-1); });
  }

  // The reduce axis along which the broadcast operand is contiguous, or null.
  const Axis* row_reduction() const {
    if (is_stored(*sh_.row)) return contiguous_axis(*sh_.row, op_.reduce_axes());
    const int dim = contiguous_dim(*sh_.row);
    for (const Axis& k : op_.reduce_axes()) {
      if (dim >= 0 && plain_dim(*sh_.row, k, &op_) == dim) return &k;
    }
    return nullptr;
  }

  // The reduce axis that goes innermost: along which the broadcast operand is contiguous.
  int innermost_reduce(bool channels_last) const {
    if (channels_last) return channels_->axis;
    int last = static_cast<int>(op_.reduce_axes().size()) - 1;
    // The window of a 1x1 convolution is no loop.
    while (last > 0 && op_.reduce_axes()[static_cast<size_t>(last)].extent() == 1) --last;
    if (!sh_.row) return last;
    const Axis* c = row_reduction();
    for (size_t i = 0; c && i < op_.reduce_axes().size(); ++i) {
      if (op_.reduce_axes()[i].same_as(*c) && c->extent() >= 4) last = static_cast<int>(i);
    }
    return last;
  }

 private:
  // Packing converts each element once, the inner loop each time that it is read. What is read
  // little is better kept short.
  void choose_widening() {
    if (!narrow_) return;
    const bool pairs = use_.pairs, floats = halves();
    auto choose = [&](const char* name, const Access* a, Param pack, bool chosen) {
      const bool narrow = a && a->tensor.dtype().bits < 16;
      if (floats ? pack.is_const() : !pairs || !narrow) return Param(0);
      return t_.choice(name, chosen, chosen ? "converted once, read often" : "kept short");
    };
    widen_vector_ = choose("widen_vectors", sh_.vector, pack_vector_, sh_.rows >= 8);
    widen_row_ = choose("widen_broadcasts", sh_.row, pack_row_, true);
  }
  // 16-bit floats: their conversions cost more than the multiply-adds that they are for.
  bool halves() const { return narrow_ && !narrow_->integers(); }
  int64_t bytes_a_batch(const Access& a) const {
    int64_t bytes = bytes_of(a.tensor);
    for (int i : sh_.batch) bytes /= op_.axes()[i].extent();
    return bytes;
  }

  // How far apart the rows of an operand lie that is read along a reduction.
  int64_t bytes_a_row(const Access& a) const {
    const Axis& k = op_.reduce_axes()[static_cast<size_t>(innermost_reduce(false))];
    const int dim = plain_dim(a, k, &op_);
    const int64_t step = dim < 0 || is_stored(a) ? a.tensor.extents().back() : stride(a, dim);
    return step * a.tensor.dtype().bytes();
  }

  // Weights, or what is made of them alone: computed and packed once.
  bool is_constant(const Access& a) const {
    return a.tensor.op()->is_constant() || dag_.info(a.producer).precomputable;
  }

  // It has memory of its own, and is no mere change of index.
  bool is_stored(const Access& a) const {
    auto has = [&](const std::vector<int>& stages) {
      return std::find(stages.begin(), stages.end(), a.producer) != stages.end();
    };
    return !has(g_.operands) && !has(g_.inlined);
  }

  // How far apart in memory neighbours along dimension `dim` of `a` are, in elements. A mere change
  // of index (a transposition) has no memory of its own: what it reads counts. -1: it varies.
  int64_t stride(const Access& a, int dim) const {
    if (is_stored(a)) {
      int64_t step = 1;
      for (int d = dim + 1; d < a.tensor.rank(); ++d) step *= a.tensor.extent(d);
      return step;
    }
    const StageInfo& info = dag_.info(a.producer);
    if (info.reads.size() != 1) return -1;
    const Access& source = info.reads[0];
    const Var axis = dag_.stage(a.producer).axes()[static_cast<size_t>(dim)].var();
    int64_t step = 0;
    for (size_t d = 0; d < source.affine.size(); ++d) {
      if (!source.affine[d]) return -1;
      const int64_t factor = source.affine[d]->coefficient(axis);
      const int64_t inner = factor == 0 ? 0 : stride(source, static_cast<int>(d));
      if (inner < 0) return -1;
      step += factor * inner;
    }
    return step;
  }

  // The dimension along which the elements of `a` lie side by side, or -1.
  int contiguous_dim(const Access& a) const {
    for (int d = a.tensor.rank() - 1; d >= 0; --d) {
      if (a.tensor.extent(d) > 1 && stride(a, d) == 1) return d;
    }
    return a.tensor.rank() > 0 && stride(a, a.tensor.rank() - 1) == 1 ? a.tensor.rank() - 1 : -1;
  }

  // Copies operand `a` into tiles of `tile` along `dim`. `inner`: the dimension next to the tile's.
  // `squares`: the tile is whole vectors. `shared`: among the threads, before all else.
  StageRef pack(const Access& a, int dim, Param tile, int inner, StageRef reader, bool squares,
                bool shared) {
    StageRef p = t_.stage(a.producer).cache_read({reader});
    // A transposition goes by squares, whose rows are whole vectors of the operand.
    const int run = contiguous_dim(a);
    squares = squares && run >= 0 && run != dim && a.tensor.extent(run) >= lanes_;
    const std::vector<Loop> order = tile_copy(p, dim, tile, inner, squares ? run : -1, lanes_);
    if (shared) share_out(a, p, order);
    return p;
  }

  // Copies operand `a` as it lies, in the wide type.
  void widen_whole(const Access& a, DataType wide, StageRef reader) {
    StageRef p = t_.stage(a.producer).cache_read({reader});
    p.widen(wide);
    std::vector<Loop> order = p.all_axes();
    auto [lo, li] = p.split(order.back(), lanes_);
    order.back() = lo;
    order.push_back(li);
    p.vectorize(li);
    share_out(a, p, order);
  }

  // Copies operand `a` with groups of `size` along dimension `k` in one place (group_copy).
  StageRef pack_groups(const Access& a, int k, int64_t size, int dim, Param tile, int last,
                       bool k_inner, StageRef reader) {
    StageRef p = t_.stage(a.producer).cache_read({reader});
    share_out(a, p, group_copy(p, k, size, dim, tile, last, k_inner, lanes_));
    return p;
  }

  void share_out(const Access& a, StageRef p, const std::vector<Loop>& order) {
    // Not worth waking the threads for a constant, which is packed once.
    if (!use_.parallel || is_constant(a)) return;
    p.parallel(order.size() > 2 ? p.fuse(order[0], order[1]) : order[0]);
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const ComputeDag& dag_;
  const Operation& op_;
  int64_t lanes_;
  const ContractionShape& sh_;
  const std::optional<NarrowProduct>& narrow_;
  Use use_;
  std::optional<GroupedReduction> channels_;
  Param channels_last_;
  bool allow_panels_ = true, channels_chosen_ = false;
  Param pack_vector_, pack_row_, ahead_, widen_vector_, widen_row_;
};

}  // namespace heddle::meta
