#include "lower/gpu/tiles/group_nest.h"

#include "heddle/ir/simplify.h"
#include "lower/gpu/tiles/fragment_load.h"

namespace heddle::gpu {
namespace {

constexpr int64_t kMostColumns = 256, kMostRows = 256;

std::vector<Expr> at(const std::vector<Expr>& indices, const std::vector<VarBinding>& bind) {
  std::vector<Expr> out;
  for (const Expr& i : indices) out.push_back(simplify(substitute(i, bind)));
  return out;
}

const Load* operand_of(const Expr& e) {
  const Cast* c = e.as<Cast>();
  return c ? c->value.as<Load>() : e.as<Load>();
}

bool uses(const Load& l, const Var& v) {
  for (const Expr& i : l.indices) {
    if (uses_var(i, v)) return true;
  }
  return false;
}

// The distance in elements from the first element of an operand to that of line `x` (a row or
// column of the product) and step `k`, in boxes with rows of `row` elements.
using Layout = int64_t (*)(int64_t x, int64_t k, int64_t row);
int64_t along_depth(int64_t x, int64_t k, int64_t row) { return x * row + k; }
int64_t across_depth(int64_t x, int64_t k, int64_t row) {
  return x / row * row * row + k * row + x % row;
}

bool lies(const TileNest::Place& p, const Var& x, int64_t lines, const Var& k, int64_t depth,
          Layout layout) {
  const auto position = [&](int64_t i, int64_t j) {
    return flat_index(p.buffer, at(p.indices, {{x, Expr(i)}, {k, Expr(j)}}));
  };
  const Expr first = position(0, 0);
  for (int64_t i = 0; i < lines; i += (i % 8 == 0 ? 1 : 7)) {
    for (const int64_t j : {int64_t{0}, int64_t{1}, depth / 2, depth - 1}) {
      const Expr distance = simplify(position(i, j) - first);
      const int64_t* d = as_int(distance);
      if (!d || *d != layout(i, j, box_row(p.buffer->dtype))) return false;
    }
  }
  return true;
}

// Whether rows of the boxes of an operand run across the depth. Nullopt where the operand is not
// laid out in boxes.
std::optional<bool> lies_across(const Load& l, const Var& x, const Var& k, int64_t lines) {
  const TileNest::Place p{l.buffer, l.indices};
  const int64_t steps = group_step(l.dtype);
  if (lies(p, x, lines, k, steps, along_depth)) return false;
  // The instruction has no transposition bit for the other types.
  if (l.dtype.bytes() == 2 && lies(p, x, lines, k, steps, across_depth)) return true;
  return {};
}

bool in_shared(const Load* l) { return l && l->buffer->scope == Scope::Shared; }

// The left operand may be a fragment in registers, of 16-bit floats.
bool in_registers(const Load& l) {
  return l.buffer->scope == Scope::Local && (l.dtype == f16 || l.dtype == bf16);
}

// The same for the left operand. The rows of a fragment lie along the depth.
std::optional<bool> lies_as_left(const Load& l, const Var& m, const Var& k, int64_t rows) {
  if (!in_registers(l)) return lies_across(l, m, k, rows);
  if (!laid_out(l.indices, m, k, Fragment::A, 2)) return {};
  return false;
}

bool is_byte(DataType t) { return t == i8 || t == u8; }

// The pairs of types that wgmma multiplies.
bool is_group_pair(DataType a, DataType b) {
  if ((is_byte(a) && is_byte(b)) || (a.is_float8() && b.is_float8())) return true;
  return a == b && (a == f16 || a == bf16 || a == f32);
}

struct Factors {
  const Load *c, *a, *b;
};

// Matches C = C + a * b, a with index m and b with index n. b is a tile in shared memory; a is one,
// or a fragment.
std::optional<Factors> factors_of(const Store& st, const Var& m) {
  const Binary* add = st.value.as<Binary>();
  if (!add || add->op != BinaryOp::Add) return {};
  const Expr self = make_load(st.buffer, st.indices);
  const bool first = equal(add->a, self);
  if (!first && !equal(add->b, self)) return {};
  const Binary* mul = (first ? add->b : add->a).as<Binary>();
  if (!mul || mul->op != BinaryOp::Mul) return {};
  const Load *x = operand_of(mul->a), *y = operand_of(mul->b);
  if (!x || !y || !is_group_pair(x->dtype, y->dtype)) return {};
  if (uses(*y, m)) std::swap(x, y);
  if (!in_shared(y) || !(in_shared(x) || in_registers(*x))) return {};
  return Factors{(first ? add->a : add->b).as<Load>(), x, y};
}

}  // namespace

bool column_tiles_follow(const std::vector<Expr>& indices, const Var& m, const Var& n,
                         int64_t columns) {
  const size_t tile = lane_dim(Fragment::C, indices.size()) - 1;
  const std::vector<Expr> first = at(indices, {{m, Expr(0)}, {n, Expr(0)}});
  for (int64_t t = 1; t < columns / 8; ++t) {
    const std::vector<Expr> there = at(indices, {{m, Expr(0)}, {n, Expr(8 * t)}});
    for (size_t d = 0; d < indices.size(); ++d) {
      if (!equal(there[d], d == tile ? simplify(first[d] + Expr(t)) : first[d])) return false;
    }
  }
  return true;
}

std::optional<TileNest> try_group_product(const std::vector<NestLoop>& loops, const Store& st) {
  if (loops.size() != 3) return {};
  const Var &m = loops[0].var, &n = loops[1].var, &k = loops[2].var;
  const int64_t columns = loops[1].extent;
  if (loops[0].extent != kGroupRows / kGroupWarps || columns % 8 != 0 || columns < 8 ||
      columns > kMostColumns)
    return {};
  const std::optional<Factors> f = factors_of(st, m);
  if (!f || uses(*f->a, n) || uses(*f->b, m)) return {};
  const bool bytes = is_byte(f->a->dtype);
  // For bytes, odd numbers of tiles of 8 columns are allowed only among the smallest.
  if (bytes && columns % 16 != 0 && columns > 24) return {};
  if (st.buffer->dtype != (bytes ? i32 : f32) || loops[2].extent != group_step(f->a->dtype))
    return {};
  if (!laid_out(f->c->indices, m, n, Fragment::C, 2) ||
      !column_tiles_follow(f->c->indices, m, n, columns))
    return {};
  const std::optional<bool> a = lies_as_left(*f->a, m, k, loops[0].extent),
                            b = lies_across(*f->b, n, k, columns);
  if (!a || !b) return {};
  const std::vector<VarBinding> zero{{m, Expr(0)}, {n, Expr(0)}, {k, Expr(0)}};
  TileNest t;
  t.kind = TileNest::Kind::GroupProduct;
  t.c = {st.buffer, at(st.indices, zero)};
  t.a = {f->a->buffer, at(f->a->indices, zero)};
  t.b = {f->b->buffer, at(f->b->indices, zero)};
  t.columns = columns;
  t.pack = 2;
  t.across = (*a ? 1 : 0) | (*b ? 2 : 0);
  return t;
}

namespace {

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

// The copy of rows that are windows of an image (im2col). The tile's buffer tells that its rows are
// all windows of the source in row-major order (as_product), so each row follows from the first.
// Elements outside of the image, and rows beyond the last window, are zero.
std::optional<TileNest> try_window_load(const std::vector<NestLoop>& loops, const Store& st) {
  const Var &row = loops[0].var, &i = loops[1].var;
  Expr value = st.value;
  while (const Select* s = value.as<Select>()) {
    if (!is_const(s->on_false, 0)) return {};
    value = s->on_true;
  }
  const Load* source = value.as<Load>();
  if (!source || in_shared(source) || source->buffer->scope == Scope::Local ||
      source->indices.size() != st.buffer->windows.size() + 2)
    return {};
  const int last = dimension_of(source->indices, i);
  if (last + 1 != static_cast<int>(source->indices.size()) || uses_var(source->indices.back(), row))
    return {};
  if (!lies({st.buffer, st.indices}, row, loops[0].extent, i, loops[1].extent, along_depth))
    return {};
  const std::vector<VarBinding> zero{{row, Expr(0)}, {i, Expr(0)}};
  TileNest t;
  t.kind = TileNest::Kind::BulkLoad;
  t.a = {st.buffer, at(st.indices, zero)};
  t.b = {source->buffer, at(source->indices, zero)};
  t.columns = loops[0].extent;
  return t;
}

}  // namespace

std::optional<TileNest> try_bulk_load(const std::vector<NestLoop>& loops, const Store& st) {
  if (loops.size() != 2 || st.buffer->scope != Scope::Shared || st.buffer->dtype.bytes() > 4)
    return {};
  const Var &row = loops[0].var, &i = loops[1].var;
  const int64_t length = box_row(st.buffer->dtype);
  if (loops[1].extent != length || loops[0].extent > kMostRows) return {};
  if (!st.buffer->windows.empty()) return try_window_load(loops, st);
  const Select* select = st.value.as<Select>();
  const Load* source = (select ? select->on_true : st.value).as<Load>();
  if (!source || in_shared(source) || source->buffer->scope == Scope::Local) return {};
  const std::vector<VarBinding> zero{{row, Expr(0)}, {i, Expr(0)}};
  if (select && (!is_const(select->on_false, 0) ||
                 !only_ends(select->condition, source->buffer, source->indices, zero)))
    return {};
  const int row_dim = dimension_of(source->indices, row), last = dimension_of(source->indices, i);
  if (row_dim < 0 || last + 1 != static_cast<int>(source->indices.size()) || row_dim == last)
    return {};
  if (!lies({st.buffer, st.indices}, row, loops[0].extent, i, length, along_depth)) return {};
  TileNest t;
  t.kind = TileNest::Kind::BulkLoad;
  t.a = {st.buffer, at(st.indices, zero)};
  t.b = {source->buffer, at(source->indices, zero)};
  t.columns = loops[0].extent;
  t.row_dim = row_dim;
  return t;
}

std::optional<TileNest> try_bulk_store(const std::vector<NestLoop>& loops, const Store& st,
                                       const std::vector<Expr>& conditions) {
  const Load* tile = st.value.as<Load>();
  if (loops.size() != 2 || !tile || !in_shared(tile) || tile->dtype.bytes() > 2 ||
      st.buffer->scope == Scope::Shared || st.buffer->scope == Scope::Local)
    return {};
  const Var &row = loops[0].var, &i = loops[1].var;
  if (loops[1].extent != box_row(tile->dtype) || loops[0].extent > kMostRows) return {};
  const int row_dim = dimension_of(st.indices, row), last = dimension_of(st.indices, i);
  if (row_dim < 0 || last + 1 != static_cast<int>(st.indices.size()) || row_dim == last) return {};
  if (!lies({tile->buffer, tile->indices}, row, loops[0].extent, i, loops[1].extent, along_depth))
    return {};
  const std::vector<VarBinding> zero{{row, Expr(0)}, {i, Expr(0)}};
  for (const Expr& c : conditions) {
    if (!only_ends(c, st.buffer, st.indices, zero)) return {};
  }
  TileNest t;
  t.kind = TileNest::Kind::BulkStore;
  t.a = {tile->buffer, at(tile->indices, zero)};
  t.b = {st.buffer, at(st.indices, zero)};
  t.columns = loops[0].extent;
  t.row_dim = row_dim;
  return t;
}

}  // namespace heddle::gpu
