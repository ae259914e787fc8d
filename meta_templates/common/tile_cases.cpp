#include "common/tile_cases.h"

#include <algorithm>

namespace heddle::meta {
namespace {

// The constants that axis `a` of stage `s` is divided by.
void divisors_of(const Operation& op, size_t a, std::set<int64_t>* out) {
  if (a >= op.axes().size()) return;
  const Var v = op.axes()[a].var();
  for (const Expr& body : op.bodies()) {
    visit(body, [&](const Expr& e) {
      const auto* b = e.as<Binary>();
      if (!b || (b->op != BinaryOp::FloorDiv && b->op != BinaryOp::FloorMod)) return;
      const int64_t* n = as_int(b->b);
      const auto* x = b->a.as<VarNode>();
      if (n && x && x == v.get() && *n > 1 && *n < op.axes()[a].extent()) out->insert(*n);
    });
  }
}

}  // namespace

std::vector<int64_t> case_periods_of(const ComputeDag& dag, const StageGroup& g) {
  std::vector<int64_t> out(dag.stage(g.output_stage).axes().size(), 1);
  const auto add = [&](int s) {
    const std::vector<int64_t>& own = dag.info(s).case_periods;
    for (size_t i = 0; i < std::min(own.size(), out.size()); ++i) out[i] = std::max(out[i], own[i]);
  };
  add(g.output_stage);
  for (int s : g.inlined) add(s);
  return out;
}

bool is_by_cases(const ComputeDag& dag, const StageGroup& g) {
  if (g.attached) return !dag.info(g.anchor).case_periods.empty() && !g.places.empty();
  if (g.anchor != g.output_stage || g.anchor_class != StageClass::DirectCompute) return false;
  const std::vector<int64_t> periods = case_periods_of(dag, g);
  return std::any_of(periods.begin(), periods.end(), [](int64_t p) { return p > 1; });
}

std::vector<Loop> TransformLoops::outer() const {
  std::vector<Loop> out = rows;
  if (chunk.valid()) out.push_back(chunk);
  return out;
}

TileCases::TileCases(TemplateBuilder& t, const StageGroup& g, int64_t lanes)
    : t_(t),
      g_(g),
      dag_(t.dag()),
      op_(dag_.stage(g.output_stage)),
      s_(t.stage(g.output_stage)),
      lanes_(lanes),
      periods_(g.attached ? dag_.info(g.output_stage).case_periods : case_periods_of(dag_, g)) {}

void TileCases::cut_vectors(Loop loop, TransformLoops& l) {
  auto [chunk, vector] = s_.split(loop, lanes_);
  l.chunk = chunk;
  l.vector = vector;
}

TransformLoops TileCases::cut() {
  TransformLoops l;
  const int v = vector_axis();
  for (size_t a = 0; a < op_.axes().size(); ++a) {
    const Loop loop = s_.axis(static_cast<int>(a));
    if (static_cast<int>(a) == v)
      cut_vectors(loop, l);
    else if (periods_[a] > 1)
      l.cases.push_back(cut_rows(loop, periods_[a] < op_.axes()[a].extent() ? periods_[a] : 0, l));
    else
      l.rows.push_back(cut_rows(loop, innermost_cut(a), l));
  }
  return l;
}

TransformLoops TileCases::cut_attached() {
  TransformLoops l;
  const int v = vector_axis();
  for (size_t a = 0; a < op_.axes().size(); ++a) {
    const Loop loop = s_.axis(static_cast<int>(a));
    if (static_cast<int>(a) == v)
      cut_vectors(loop, l);
    else
      (periods_[a] > 1 ? l.cases : l.rows).push_back(loop);
  }
  l.cases = joined(l.outer(), l.cases);
  return l;
}

void TileCases::write_tile(const TransformLoops& l, const std::vector<Loop>& outer) {
  std::vector<Loop> order = joined(outer, l.cases);
  if (l.vector.valid()) order.push_back(l.vector);
  s_.reorder(order);
  for (Loop x : l.cases) s_.unroll(x);
  if (l.vector.valid()) s_.vectorize(l.vector);
}

void TileCases::attach() {
  const auto at = static_cast<int64_t>(g_.places.size());
  const Param location = t_.knob("location", {at}, at, "in the tile of its reader");
  t_.set_location(g_.output_stage, location);
  write_tile(cut_attached(), {});
  const StageGroup::Place& place = g_.places.back();
  s_.compute_at(t_.stage(place.stage), place.loop);
}

// Splits `loop` into blocks of `size`. The loop over blocks is added to the rows, and the part
// inside is returned. With size 0 all of it is inside.
Loop TileCases::cut_rows(Loop loop, int64_t size, TransformLoops& l) {
  if (size == 0) return loop;
  auto [blocks, inside] = s_.split(loop, size);
  l.rows.push_back(blocks);
  return inside;
}

// The innermost cut of axis `a` in the declaration; 0 where there is none. Only this one is used,
// because the loops outside of it are fused and shared out.
int64_t TileCases::innermost_cut(size_t a) const {
  std::set<int64_t> cuts;
  divisors_of(op_, a, &cuts);
  for (int r : g_.tunable) inherited_cuts(r, a, &cuts);
  return cuts.empty() ? 0 : *cuts.begin();
}

// Collects the cuts of an attached stage's reader, for axes that correspond by position and extent.
void TileCases::inherited_cuts(int s, size_t a, std::set<int64_t>* out) const {
  const Operation& op = dag_.stage(s);
  if (a < op.axes().size() && op.axes()[a].extent() == op_.axes()[a].extent())
    divisors_of(op, a, out);
}

int TileCases::vector_axis() const {
  for (int a = static_cast<int>(op_.axes().size()) - 1; a >= 0; --a) {
    if (periods_[static_cast<size_t>(a)] > 1) continue;
    return op_.axes()[static_cast<size_t>(a)].extent() > 1 ? a : -1;
  }
  return -1;
}

}  // namespace heddle::meta
