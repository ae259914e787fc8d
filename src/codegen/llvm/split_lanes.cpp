// rewrite: B[ramp(b, 1, 24)] = A[ramp(a, 1, 24)] + 1     (8 lanes fill a register)
//      --> let v0 = A[ramp(a, 1, 8)] + 1; v1 = A[ramp(a + 8, 1, 8)] + 1; v2 = ...
//          B[ramp(b, 1, 8)] = v0; B[ramp(b + 8, 1, 8)] = v1; B[ramp(b + 16, 1, 8)] = v2
// All pieces are computed before the first is stored, because the store may overlap the loads.
#include <algorithm>
#include <bit>

#include "codegen/llvm/generator.h"

namespace heddle::codegen {

namespace {

Expr sliced(const Expr& e, int begin, int count, RewriteMemo& memo);

Expr slice_node(const Expr& e, int begin, int count, RewriteMemo& memo) {
  if (e.dtype().is_scalar()) return e;
  if (auto* ramp = e.as<Ramp>()) {
    Expr offset = ramp->stride * make_int(ramp->stride->dtype, begin);
    return make_ramp(ramp->base + offset, ramp->stride, count);
  }
  if (auto* broadcast = e.as<Broadcast>()) return make_broadcast(broadcast->value, count);
  auto part = [&](const Expr& child) { return sliced(child, begin, count, memo); };
  switch (e.kind()) {
    case ExprKind::Cast: return cast(e.dtype(), part(e.as<Cast>()->value));
    case ExprKind::Unary: return make_unary(e.as<Unary>()->op, part(e.as<Unary>()->a));
    case ExprKind::Binary: {
      auto* binary = e.as<Binary>();
      return make_binary(binary->op, part(binary->a), part(binary->b));
    }
    case ExprKind::Select: {
      auto* select = e.as<Select>();
      return make_select(part(select->condition), part(select->on_true), part(select->on_false));
    }
    case ExprKind::Load: return make_load(e.as<Load>()->buffer, {part(e.as<Load>()->indices[0])});
    default: return {};
  }
}

Expr sliced(const Expr& e, int begin, int count, RewriteMemo& memo) {
  return memo(e, [&](const Expr& x) { return slice_node(x, begin, count, memo); });
}

}  // namespace

Expr slice_lanes(const Expr& e, int begin, int count) {
  RewriteMemo memo;
  return sliced(e, begin, count, memo);
}

namespace {

// The widest element in `e`, and whether every vector in it can be sliced.
void inspect(const Expr& e, int& bytes, bool& possible) {
  visit(e, [&](const Expr& x) {
    if (x.dtype().is_scalar()) return;
    if (x.kind() == ExprKind::Var || x.kind() == ExprKind::Reduce) possible = false;
    if (auto* load = x.as<Load>(); load && load->indices.size() != 1) possible = false;
    // Addresses become mostly scalar arithmetic, so their 8 bytes do not count.
    if (x.kind() != ExprKind::Ramp && x.dtype().element() != i64) {
      bytes = std::max(bytes, x.dtype().element().bytes());
    }
  });
}

Stmt split_store(const Store& s, int vector_bytes) {
  const int lanes = s.value.dtype().lanes;
  int bytes = s.buffer->dtype.bytes();
  bool possible = s.indices.size() == 1;
  inspect(s.value, bytes, possible);
  if (possible) inspect(s.indices[0], bytes, possible);
  const int step = std::max(1, vector_bytes / bytes);
  if (!possible || lanes <= step || std::has_single_bit(static_cast<unsigned>(lanes))) return {};
  std::vector<Stmt> stores;
  std::vector<VarBinding> values;
  for (int begin = 0; begin < lanes; begin += step) {
    const int count = std::min(step, lanes - begin);
    Expr value = slice_lanes(s.value, begin, count);
    Var v("piece", value.dtype());
    stores.push_back(make_store(s.buffer, {slice_lanes(s.indices[0], begin, count)}, v, s.hint));
    values.push_back({v, value});
  }
  Stmt result = make_block(std::move(stores));
  for (size_t i = values.size(); i-- > 0;)
    result = make_let(values[i].var, values[i].value, result);
  return result;
}

}  // namespace

Stmt split_lanes(const Stmt& s, int vector_bytes) {
  if (auto* store = s.as<Store>()) {
    Stmt split = split_store(*store, vector_bytes);
    return split ? split : s;
  }
  // The mask of a store is for all its lanes.
  if (auto* branch = s.as<If>(); branch && branch->condition.dtype().is_vector()) return s;
  return map_children(
      s, [&](const Stmt& child) { return split_lanes(child, vector_bytes); },
      [](const Expr& e) { return e; });
}

std::vector<LoweredFunction> split_lanes(std::vector<LoweredFunction> functions, int vector_bytes) {
  for (LoweredFunction& f : functions) {
    if (f.body) f.body = split_lanes(f.body, vector_bytes);
  }
  return functions;
}

}  // namespace heddle::codegen
