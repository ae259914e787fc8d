// Stages by cases (StageInfo::case_periods): transforms of small tiles, such as Winograd's.
//
//   parallel for tiles' rows {
//     [attached: the padded image]
//     for tiles, for vectors {
//       [attached: the transform along the other dimension, in registers]
//       the tile, unrolled: every case is decided here
//     }
//   }
//
// The axes are cut where the declaration cuts them (floordiv and floormod by constants), so that
// these quotients and remainders are loop variables of the nest.
#include <set>

#include "common/loops.h"
#include "cpu/vectors.h"

namespace heddle::meta::cpu {
namespace {

// The case periods of a group's output stage and of the stages that are inlined into it element by
// element.
std::vector<int64_t> periods_of(const ComputeDag& dag, const StageGroup& g) {
  std::vector<int64_t> out(dag.stage(g.output_stage).axes().size(), 1);
  auto add = [&](int s) {
    const std::vector<int64_t>& own = dag.info(s).case_periods;
    for (size_t i = 0; i < std::min(own.size(), out.size()); ++i) out[i] = std::max(out[i], own[i]);
  };
  add(g.output_stage);
  for (int s : g.inlined) add(s);
  return out;
}

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  if (target.kind != "llvm") return false;
  if (g.attached) return !dag.info(g.anchor).case_periods.empty() && !g.places.empty();
  if (g.anchor != g.output_stage || g.anchor_class != StageClass::DirectCompute) return false;
  for (int64_t p : periods_of(dag, g)) {
    if (p > 1) return true;
  }
  return false;
}

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

// The loops of a stage, by their use.
struct TransformLoops {
  std::vector<Loop> rows;   ///< outer loops; all but the last are fused and shared out
  std::vector<Loop> cases;  ///< of a tile, unrolled
  Loop chunk, vector;       ///< over vectors, and lanes of one; invalid without a vector axis
};

// There is no rule: the cases of the declaration determine the tiles, and the one knob has one
// value.
class Recipe {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g)
      : t_(t),
        g_(g),
        dag_(t.dag()),
        op_(dag_.stage(g.output_stage)),
        s_(t.stage(g.output_stage)),
        lanes_(native_lanes(t, g.output_stage)) {}

  void output_stage() {
    const std::vector<int64_t> periods = periods_of(dag_, g_);
    const int v = vector_axis(periods);
    TransformLoops l = cut_axes(periods, v);
    std::vector<Loop> order = l.rows;
    if (l.chunk.valid()) order.push_back(l.chunk);
    write_tile(l, order);
    share_out(l);
    t_.note("tiles unrolled, vectors along " +
            (v >= 0 ? op_.axes()[static_cast<size_t>(v)].name() : std::string("none")));
  }

  // Computes the stage within the tile of its reader, completely unrolled, so that its results are
  // in registers.
  void attached() {
    const int64_t at = static_cast<int64_t>(g_.places.size());
    const Param location = t_.knob("location", {at}, at, "in the tile of its reader");
    t_.set_location(g_.output_stage, location);
    const std::vector<int64_t>& periods = dag_.info(g_.output_stage).case_periods;
    const int v = vector_axis(periods);
    TransformLoops l;
    for (size_t a = 0; a < op_.axes().size(); ++a) {
      const Loop loop = s_.axis(static_cast<int>(a));
      if (static_cast<int>(a) == v)
        cut_vectors(loop, l);
      else
        (periods[a] > 1 ? l.cases : l.rows).push_back(loop);
    }
    std::vector<Loop> order = l.rows;
    if (l.chunk.valid()) order.push_back(l.chunk);
    const std::vector<Loop> unrolled = joined(order, l.cases);
    l.cases = unrolled;
    write_tile(l, {});
    const StageGroup::Place& place = g_.places.back();
    s_.compute_at(t_.stage(place.stage), place.loop);
  }

 private:
  void cut_vectors(Loop loop, TransformLoops& l) {
    auto [chunk, vector] = s_.split(loop, lanes_);
    l.chunk = chunk;
    l.vector = vector;
  }

  TransformLoops cut_axes(const std::vector<int64_t>& periods, int vector_axis) {
    TransformLoops l;
    for (size_t a = 0; a < op_.axes().size(); ++a) {
      const Loop loop = s_.axis(static_cast<int>(a));
      if (static_cast<int>(a) == vector_axis)
        cut_vectors(loop, l);
      else if (periods[a] > 1)
        l.cases.push_back(cut(loop, periods[a] < op_.axes()[a].extent() ? periods[a] : 0, l));
      else
        l.rows.push_back(cut(loop, innermost_cut(a), l));
    }
    return l;
  }

  // Splits `loop` into blocks of `size`. The loop over blocks is added to the rows, and the part
  // inside is returned. With size 0 all of it is inside.
  Loop cut(Loop loop, int64_t size, TransformLoops& l) {
    if (size == 0) return loop;
    auto [blocks, inside] = s_.split(loop, size);
    l.rows.push_back(blocks);
    return inside;
  }

  // The innermost cut of axis `a` in the declaration; 0 where there is none. Only this one is used,
  // because the loops outside of it are fused and shared out.
  int64_t innermost_cut(size_t a) const {
    std::set<int64_t> cuts;
    divisors_of(op_, a, &cuts);
    for (int r : g_.tunable) inherited_cuts(r, a, &cuts);
    return cuts.empty() ? 0 : *cuts.begin();
  }

  // Orders the loops: `outer`, then the unrolled cases and the lanes.
  void write_tile(const TransformLoops& l, const std::vector<Loop>& outer) {
    std::vector<Loop> order = joined(outer, l.cases);
    if (l.vector.valid()) order.push_back(l.vector);
    s_.reorder(order);
    for (Loop x : l.cases) s_.unroll(x);
    if (l.vector.valid()) s_.vectorize(l.vector);
  }

  // Shares out rows and offers them, and tiles too, to attached stages.
  void share_out(TransformLoops& l) {
    Loop inner, rows;
    if (l.rows.size() > 1) {
      inner = l.rows.back();
      l.rows.pop_back();
    }
    if (!l.rows.empty()) {
      rows = s_.fuse(l.rows);
      if (worth_parallel(t_, work())) s_.parallel(rows);
      t_.offer_place(s_, rows, "rows");
    }
    const Loop deepest = l.chunk.valid() ? l.chunk : inner.valid() ? inner : rows;
    if (deepest.valid() && !(deepest == rows)) t_.offer_place(s_, deepest, "tile");
  }

  double work() const {
    double work = stage_work(dag_, g_.output_stage);
    for (int x : g_.inlined) work += stage_work(dag_, x);
    for (int x : g_.tunable) work += stage_work(dag_, x);
    return work;
  }

  // Collects the cuts of an attached stage's reader, for axes that correspond by position and
  // extent.
  void inherited_cuts(int s, size_t a, std::set<int64_t>* out) const {
    const Operation& op = dag_.stage(s);
    if (a < op.axes().size() && op.axes()[a].extent() == op_.axes()[a].extent())
      divisors_of(op, a, out);
  }

  // The last axis without cases that is long enough; -1 where there is none.
  int vector_axis(const std::vector<int64_t>& periods) const {
    for (int a = static_cast<int>(op_.axes().size()) - 1; a >= 0; --a) {
      if (periods[static_cast<size_t>(a)] > 1) continue;
      return op_.axes()[static_cast<size_t>(a)].extent() > 1 ? a : -1;
    }
    return -1;
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const ComputeDag& dag_;
  const Operation& op_;
  StageRef s_;
  int64_t lanes_;
};

void build(TemplateBuilder& t, const StageGroup& g) {
  Recipe recipe(t, g);
  g.attached ? recipe.attached() : recipe.output_stage();
}

HEDDLE_REGISTER_META_TEMPLATE({"tile_transform", 1, matches, build});

}  // namespace
}  // namespace heddle::meta::cpu
