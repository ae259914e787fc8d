// The copies of boxes by TMA, from global memory and to it (group_nest.h).
#include "heddle/ir/print.h"
#include "heddle/ir/simplify.h"
#include "lower/gpu/tiles/group_nest.h"

namespace heddle::gpu {

using namespace instructions;
using lowering::Around;

namespace {

bool fail(std::string* why, const std::string& reason) {
  *why = reason;
  return false;
}

bool in_shared(const Buffer& b) { return b->scope == Scope::Shared; }

// Whether `e`, a sum of loop variables that start at zero, cannot be negative.
bool is_never_negative(const Expr& e) {
  if (const int64_t* c = as_int(e)) return *c >= 0;
  if (e.as<VarNode>()) return true;
  const Binary* b = e.as<Binary>();
  const bool keeps = b && (b->op == BinaryOp::Add || b->op == BinaryOp::Mul ||
                           b->op == BinaryOp::FloorDiv || b->op == BinaryOp::FloorMod);
  return keeps && is_never_negative(b->a) && is_never_negative(b->b);
}

// Whether `limit` keeps whole boxes of an axis below its extent, as o < 4 does for the index o*64 +
// i of an extent of 256, where `i` is a loop of the box that starts at zero; also for o*64 + u*32 +
// i, where boxes are parts of what the limit is for. Nothing is stored beyond the end.
bool whole_boxes_end(const Binary& limit, const Expr& index, const Expr& extent,
                     const std::vector<VarBinding>& start) {
  const int64_t* boxes = as_int(limit.b);
  const int64_t* elements = as_int(extent);
  if (limit.op != BinaryOp::Lt || !boxes || !elements || *boxes < 1 || *elements % *boxes != 0)
    return false;
  return is_never_negative(simplify(substitute(index, start) - limit.a * Expr(*elements / *boxes)));
}

// Whether `condition` says nothing but that indices of `buffer` are below the extents. `start` sets
// the loops of the box to zero.
bool only_ends(const Expr& condition, const Buffer& buffer, const std::vector<Expr>& indices,
               const std::vector<VarBinding>& start) {
  const Binary* b = condition.as<Binary>();
  if (!b) return false;
  if (b->op == BinaryOp::And)
    return only_ends(b->a, buffer, indices, start) && only_ends(b->b, buffer, indices, start);
  for (size_t d = 0; d < indices.size(); ++d) {
    const Expr &index = indices[d], &extent = buffer->shape[d];
    if (equal(simplify(index < extent), simplify(condition)) ||
        whole_boxes_end(*b, index, extent, start))
      return true;
  }
  return false;
}

// The only dimension of `indices` that uses `v`, if it is its value at zero plus `v`; otherwise -1.
int dimension_of(const std::vector<Expr>& indices, const Var& v) {
  int found = -1;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!uses_var(indices[d], v)) continue;
    const Expr rest = simplify(indices[d] - v.expr());
    if (found >= 0 || uses_var(rest, v)) return -1;
    found = static_cast<int>(d);
  }
  return found;
}

// The copy of a box whose tile is `tile` and whose other end is `outside`, in global memory.
std::optional<TileNest> box(TileNest::Kind kind, const std::vector<NestLoop>& loops,
                            const Place& tile, const Place& outside, std::string* why) {
  if (!lies_along(tile, loops, why)) return {};
  TileNest t;
  t.kind = kind;
  t.a = {tile.buffer, at(tile.indices, loops, {0, 0})};
  t.b = {outside.buffer, at(outside.indices, loops, {0, 0})};
  t.columns = loops[0].extent;
  return t;
}

// Whether the loops are those of a box of elements of type `t`.
bool is_box(const std::vector<NestLoop>& loops, DataType t, std::string* why) {
  const int64_t row = tma::row_elements(t);
  if (loops.size() != 2) return fail(why, std::to_string(loops.size()) + " loops, and not 2");
  if (loops[1].extent != row)
    return fail(why, "its rows have " + std::to_string(loops[1].extent) + " elements, and not " +
                         std::to_string(row) + " (128 bytes)");
  if (loops[0].extent > tma::kMostRows)
    return fail(why, "it has more than " + std::to_string(tma::kMostRows) + " rows");
  return true;
}

// The dimension of `indices` that rows of the box run along, where their elements run along the last
// one; otherwise -1.
int row_dim_of(const Place& outside, const std::vector<NestLoop>& loops, std::string* why) {
  const int row_dim = dimension_of(outside.indices, loops[0].var),
            last = dimension_of(outside.indices, loops[1].var);
  if (row_dim >= 0 && last + 1 == static_cast<int>(outside.indices.size()) && row_dim != last)
    return row_dim;
  *why = "its rows and their elements do not each run along one dimension of " +
         to_string(make_load(outside.buffer, outside.indices)) + ", elements along the last one";
  return -1;
}

// `e` where all variables are zero.
Expr at_zero(const Expr& e) {
  std::vector<VarBinding> bind;
  visit(e, [&](const Expr& x) {
    if (x.kind() == ExprKind::Var) bind.push_back({Var::from(x), Expr(0)});
  });
  return simplify(substitute(e, bind));
}

// Where windows of an image begin, and where within each of them a box is. The loop over the depth,
// the innermost serial one around, begins at the first element of the windows, so that its variable
// at zero gives the window, and the rest of each index is the offset within it.
bool place_windows(const Var& depth, TileNest* t, std::string* why) {
  std::vector<Expr>& at = t->b.indices;
  if (uses_var(at[0], depth)) return fail(why, "its depth runs over images");
  for (size_t d = 1; d + 1 < at.size(); ++d) {
    const Expr first = simplify(substitute(at[d], {{depth, Expr(0)}})), least = at_zero(first);
    const int64_t* begin = as_int(least);
    if (!begin) return fail(why, "its windows begin at no constant");
    t->windows[d - 1].first = *begin;
    t->offsets.push_back(simplify(at[d] - first));
    at[d] = first;
  }
  return true;
}

// Whether `condition` keeps rows below the number of windows: r < windows, or a < windows / n for the row
// r = a * n + i of a box of n rows. `row` is that of the box.
bool ends_windows(const Expr& condition, const Load& source, const TileNest& t,
                  const Around& around, const NestLoop& row) {
  const Binary* less = condition.as<Binary>();
  const int64_t *end = less && less->op == BinaryOp::Lt ? as_int(less->b) : nullptr,
                *images = as_int(source.buffer->shape[0]);
  if (!end || !images || *end < 1) return false;
  int64_t windows = *images;
  for (const WindowDim& w : t.windows) windows *= w.points;
  const int64_t each = windows / *end;
  if (windows % *end != 0 || (each > 1 && row.extent > each)) return false;
  Expr rest = each > 1 ? less->a * Expr(each) + row.var.expr() : less->a;
  for (size_t d = t.windows.size(); d-- > 0;) {
    const WindowDim& w = t.windows[d];
    const Expr at = substitute(source.indices[d + 1], {{*around.serial, Expr(0)}}),
               wanted = Expr(w.first) + Expr(w.stride) * floormod(rest, Expr(w.points));
    if (!is_const(simplify(at - wanted, around.ranges), 0)) return false;
    rest = floordiv(rest, Expr(w.points));
  }
  return true;
}

// Whether `condition` holds for all elements that windows of the source have. What TMA makes zero is
// beyond the ends of the image, or in a row behind the last window.
bool takes_all(const Expr& condition, const Load& source, const TileNest& t, const Around& around,
               const NestLoop& row) {
  const Binary* both = condition.as<Binary>();
  if (both && both->op == BinaryOp::And)
    return takes_all(both->a, source, t, around, row) && takes_all(both->b, source, t, around, row);
  if (ends_windows(condition, source, t, around, row)) return true;
  Expr beyond(false);
  for (size_t d = 0; d < source.indices.size(); ++d) {
    const Expr& index = source.indices[d];
    beyond = beyond || index < Expr(0) || index >= source.buffer->shape[d];
    if (d == 0 || d > t.windows.size()) continue;
    const WindowDim& w = t.windows[d - 1];
    const Expr window = substitute(index, {{*around.serial, Expr(0)}});
    beyond = beyond || window >= Expr(w.first + w.points * w.stride);
  }
  return prove(beyond || condition, around.ranges);
}

// The copy of rows that are windows of an image (im2col). The tile's buffer tells that its rows are
// all windows of the source in row-major order (as_product), so each row follows from the first.
// Elements outside of the image, and rows beyond the last window, are zero.
std::optional<TileNest> try_window_load(const MarkedNest& nest, std::string* why) {
  const Store& st = *nest.store;
  *why = "it does not read windows of an image, or zero";
  std::vector<Expr> conditions;
  Expr value = st.value;
  while (const Select* s = value.as<Select>()) {
    if (!is_const(s->on_false, 0)) return {};
    conditions.push_back(s->condition);
    value = s->on_true;
  }
  const Load* source = value.as<Load>();
  if (!source || in_shared(source->buffer) || source->buffer->scope == Scope::Local ||
      source->indices.size() != st.buffer->windows.size() + 2)
    return {};
  const int last = dimension_of(source->indices, nest.loops[1].var);
  if (last + 1 != static_cast<int>(source->indices.size()) ||
      uses_var(source->indices.back(), nest.loops[0].var))
    return {};
  *why = "it is not inside of a loop over the depth";
  if (!nest.around.serial) return {};
  auto t = box(TileNest::Kind::BulkLoad, nest.loops, {st.buffer, st.indices},
               {source->buffer, source->indices}, why);
  if (!t) return {};
  t->windows = st.buffer->windows;
  if (!place_windows(*nest.around.serial, &*t, why)) return {};
  for (const Expr& c : conditions) {
    if (takes_all(c, *source, *t, nest.around, nest.loops[0])) continue;
    *why =
        "condition " + to_string(c) + " may leave out elements of '" + source->buffer->name + "'";
    return {};
  }
  return t;
}

}  // namespace

std::optional<TileNest> try_bulk_load(const MarkedNest& nest, std::string* why) {
  const std::vector<NestLoop>& loops = nest.loops;
  const Store& st = *nest.store;
  *why = "'" + st.buffer->name + "' is no tile in shared memory";
  if (!in_shared(st.buffer) || st.buffer->dtype.bytes() > 4) return {};
  if (!is_box(loops, st.buffer->dtype, why)) return {};
  if (!st.buffer->windows.empty()) return try_window_load(nest, why);
  const Select* select = st.value.as<Select>();
  const Load* source = (select ? select->on_true : st.value).as<Load>();
  *why = "it does not copy from global memory";
  if (!source || in_shared(source->buffer) || source->buffer->scope == Scope::Local) return {};
  const std::vector<VarBinding> zero{{loops[0].var, Expr(0)}, {loops[1].var, Expr(0)}};
  *why = "it tests something else than the ends of its source";
  if (select && (!is_const(select->on_false, 0) ||
                 !only_ends(select->condition, source->buffer, source->indices, zero)))
    return {};
  const Place outside{source->buffer, source->indices};
  const int row_dim = row_dim_of(outside, loops, why);
  if (row_dim < 0) return {};
  auto t = box(TileNest::Kind::BulkLoad, loops, {st.buffer, st.indices}, outside, why);
  if (t) t->row_dim = row_dim;
  return t;
}

std::optional<TileNest> try_bulk_store(const std::vector<NestLoop>& loops, const Store& st,
                                       const std::vector<Expr>& conditions, std::string* why) {
  const Load* tile = st.value.as<Load>();
  *why = "it does not copy from a tile of at most 16-bit elements in shared memory";
  if (!tile || !in_shared(tile->buffer) || tile->dtype.bytes() > 2) return {};
  *why = "it does not copy to global memory";
  if (in_shared(st.buffer) || st.buffer->scope == Scope::Local) return {};
  if (!is_box(loops, tile->dtype, why)) return {};
  const Place outside{st.buffer, st.indices};
  const int row_dim = row_dim_of(outside, loops, why);
  if (row_dim < 0) return {};
  auto t = box(TileNest::Kind::BulkStore, loops, {tile->buffer, tile->indices}, outside, why);
  if (!t) return {};
  const std::vector<VarBinding> zero{{loops[0].var, Expr(0)}, {loops[1].var, Expr(0)}};
  for (const Expr& c : conditions) {
    if (only_ends(c, st.buffer, st.indices, zero)) continue;
    *why = "condition " + to_string(c) + " is not one on the ends of '" + st.buffer->name + "'";
    return {};
  }
  t->row_dim = row_dim;
  return t;
}

}  // namespace heddle::gpu
