#include "cpu/products/operand_copies.h"

#include <algorithm>

#include "cpu/copy_loops.h"
#include "cpu/streamed_rows.h"

namespace heddle::meta::cpu {

void OperandCopies::write(StageRef reader, StageRef host, Loop panel, bool channels_last) {
  copy_vectors(reader, host, panel, channels_last);
  if (channels_last) copy_with_channels_last(reader);
  const Param form = k_.copies.pack_broadcasts;
  if (form.is_const()) return;
  t_.when(form, kPackTiles, [&] {
    StageRef p = pack(*sh_.row, sh_.row_dim, k_.tile_rows, -1, reader, false, true);
    if (c_.is_constant(*sh_.row)) fetch_ahead(reader, p, c_.grouped ? c_.grouped->row_dim : -1);
    const Param widen = k_.copies.widen_broadcasts;
    if (!widen.is_const()) t_.when(widen, 1, [&] { p.widen(c_.narrow->wide); });
  });
  if (c_.halves()) t_.when(form, kWidenInPlace, [&] { widen_in_place(*sh_.row, reader); });
}

void OperandCopies::copy_vectors(StageRef reader, StageRef host, Loop panel, bool channels_last) {
  const Param form = k_.copies.pack_vectors, widen = k_.copies.widen_vectors;
  if (form.is_const()) return;
  const Access& a = *sh_.vector;
  const bool constant = c_.is_constant(a), squares = !constant && a.tensor.dtype().bits == 32;
  const auto copy = [&](bool whole) {
    StageRef p = pack(a, sh_.vector_dim, k_.tile_cols, channels_last ? c_.grouped->vector_dim : -1,
                      reader, squares, whole);
    if (!widen.is_const()) t_.when(widen, 1, [&] { p.widen(c_.narrow->wide); });
    return p;
  };
  t_.when(form, kPackWhole, [&] {
    StageRef p = copy(true);
    if (constant) fetch_ahead(reader, p, c_.grouped ? c_.grouped->vector_dim : -1);
  });
  if (constant) return;
  t_.when(form, kPackPanels, [&] {
    StageRef p = copy(false).compute_at(host, panel);
    const Param ahead = k_.copies.prefetch_panels;
    if (!ahead.is_const())
      prefetch_ahead(t_, p, t_.stage(a.producer), sh_.vector_dim, ahead, {16, 32, 64});
  });
}

// Lets `reader` touch what it will read of the packed constant `p` some steps later along dimension
// `dim`, where the knob asks for it.
void OperandCopies::fetch_ahead(StageRef reader, StageRef p, int dim) {
  const Param ahead = k_.copies.prefetch_packed;
  if (!ahead.is_const() && dim >= 0) prefetch_ahead(t_, reader, p, dim, ahead, {16, 32, 64});
}

void OperandCopies::copy_with_channels_last(StageRef reader) {
  StageRef p = copy_of(*sh_.row, reader);
  const bool squares = sh_.row->tensor.dtype().bits == 32;
  share_out(*sh_.row, p, innermost_copy(p, c_.grouped->row_dim, squares, c_.lanes));
  if (c_.halves()) p.widen(c_.narrow->wide);
}

void OperandCopies::write_groups(StageRef reader, int64_t size, bool k_inner) {
  const GroupedReduction& g = *c_.grouped;
  pack_groups(*sh_.vector, g.vector_dim, size, sh_.vector_dim, k_.tile_cols, g.lane_dim, k_inner,
              reader, k_.copies.widen_vectors);
  const auto row = [&](int dim) {
    pack_groups(*sh_.row, g.row_dim, size, dim, k_.tile_rows, -1, k_inner, reader,
                k_.copies.widen_broadcasts);
  };
  const auto as_it_lies = [&] {
    if (!lies_in_groups(size)) row(-1);
  };
  const Param form = k_.copies.pack_broadcasts;
  if (form.is_const()) return as_it_lies();
  t_.when(form, kBroadcastAsItLies, as_it_lies);
  t_.when(form, kPackTiles, [&] { row(sh_.row_dim); });
  if (c_.halves()) t_.when(form, kWidenInPlace, [&] { row(-1); });
}

// Whether the broadcast operand has groups of `size` elements of the reduction next to each other
// without a copy. Pairs of bytes are copied as pairs of i16.
bool OperandCopies::lies_in_groups(int64_t size) const {
  const Tensor& tensor = sh_.row->tensor;
  return size * tensor.dtype().bits == 32 && c_.grouped->row_dim == tensor.rank() - 1 &&
         c_.grouped->extent % size == 0;
}

// Both operands may be parts of one stage (the queries and keys of a joined product). The copy then
// has the elements of one alone.
StageRef OperandCopies::copy_of(const Access& a, StageRef reader) {
  const std::vector<Access>& reads = c_.dag.info(c_.group.anchor).reads;
  const auto of_stage = std::count_if(reads.begin(), reads.end(), [&](const Access& other) {
    return other.producer == a.producer;
  });
  const int own = &a == sh_.vector ? sh_.v : sh_.m;
  if (of_stage < 2 || own < 0) return t_.stage(a.producer).cache_read({reader});
  const int first = reader.num_axes() - static_cast<int>(c_.op.axes().size());
  return t_.stage(a.producer).cache_read(reader, reader.axis(first + own));
}

// Copies operand `a` into tiles of `tile` elements along `dim`. `inner` is the dimension next to
// that of the tile. `squares` says that a tile has whole vectors. `shared` says that the threads
// share the copy, which is made before everything else.
StageRef OperandCopies::pack(const Access& a, int dim, Param tile, int inner, StageRef reader,
                             bool squares, bool shared) {
  StageRef p = copy_of(a, reader);
  const std::vector<int> runs = squares ? runs_of(a, dim) : std::vector<int>();
  if (runs.size() > 1) inner = -1;  // in their order, else squares have no rows
  const std::vector<Loop> order = tile_copy(p, dim, tile, inner, runs, c_.lanes);
  if (shared) share_out(a, p, order);
  return p;
}

// The dimensions along which operand `a` is contiguous, for a transposition by squares, whose rows are
// whole vectors of the operand: the last one, or, where that is shorter than a vector, all those behind
// `dim`, as the channels and taps of a filter [k, c, r, s]. None where squares do not fit.
std::vector<int> OperandCopies::runs_of(const Access& a, int dim) const {
  const int run = c_.contiguous_dim(a);
  if (run < 0 || run == dim) return {};
  if (a.tensor.extent(run) >= c_.lanes) return {run};
  if (run != a.tensor.rank() - 1) return {};
  std::vector<int> runs;
  int64_t length = 1;
  for (int d = dim + 1; d <= run; ++d) {
    runs.push_back(d);
    length *= a.tensor.extent(d);
  }
  return length >= c_.lanes ? runs : std::vector<int>();
}

// Copies operand `a` in its own layout and in the wide type.
void OperandCopies::widen_in_place(const Access& a, StageRef reader) {
  StageRef p = copy_of(a, reader);
  p.widen(c_.narrow->wide);
  std::vector<Loop> order = p.all_axes();
  auto [outer, lane] = p.split(order.back(), c_.lanes);
  order.back() = outer;
  order.push_back(lane);
  p.vectorize(lane);
  share_out(a, p, order);
}

// Copies operand `a` so that groups of `size` elements along dimension `k_dim` are adjacent
// (group_copy).
void OperandCopies::pack_groups(const Access& a, int k_dim, int64_t size, int dim, Param tile,
                                int last, bool k_inner, StageRef reader, Param widen) {
  StageRef p = copy_of(a, reader);
  share_out(a, p, group_copy(p, k_dim, size, dim, tile, last, k_inner, c_.lanes));
  if (size == 2 && c_.narrow->integers() && !widen.is_const())
    t_.when(widen, 1, [&] { p.widen(i16); });
}

void OperandCopies::share_out(const Access& a, StageRef p, const std::vector<Loop>& order) {
  // A constant is packed once, so the copy is not shared among threads.
  if (!parallel_ || c_.is_constant(a)) return;
  p.parallel(order.size() > 2 ? p.fuse(order[0], order[1]) : order[0]);
}

}  // namespace heddle::meta::cpu
