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
// what it computes of its indices is a loop variable in the nest.
#include <set>

#include "cpu/vectors.h"

namespace heddle::meta {
namespace {

// The case periods of a group's output stage and of what is inlined into it element by element.
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

class Writer {
 public:
  Writer(TemplateBuilder& t, const StageGroup& g)
      : t_(t),
        g_(g),
        dag_(t.dag()),
        op_(dag_.stage(g.output_stage)),
        lanes_(native_lanes(t, g.output_stage)) {}

  void output_stage() {
    StageRef s = t_.stage(g_.output_stage);
    const std::vector<int64_t> periods = periods_of(dag_, g_);
    const size_t rank = op_.axes().size();
    double work = stage_work(dag_, g_.output_stage);
    for (int x : g_.inlined) work += stage_work(dag_, x);
    for (int x : g_.tunable) work += stage_work(dag_, x);
    const int v = vector_axis(periods);

    std::vector<Loop> outer, tile;
    Loop vector, chunk;
    for (size_t a = 0; a < rank; ++a) {
      Loop loop = s.axis(static_cast<int>(a));
      if (static_cast<int>(a) == v) {
        std::tie(chunk, vector) = pair(s.split(loop, lanes_));
        continue;
      }
      if (periods[a] > 1) {
        if (periods[a] < op_.axes()[a].extent()) {
          auto [o, i] = s.split(loop, periods[a]);
          outer.push_back(o);
          loop = i;
        }
        tile.push_back(loop);
        continue;
      }
      std::set<int64_t> cuts;
      divisors_of(op_, a, &cuts);
      for (int r : g_.tunable) inherited_cuts(r, a, &cuts);
      // The innermost cut alone: what is outside of it is fused and shared out.
      if (!cuts.empty()) {
        auto [o, i] = s.split(loop, *cuts.begin());
        outer.push_back(o);
        loop = i;
      }
      outer.push_back(loop);
    }
    std::vector<Loop> order = outer;
    if (chunk.valid()) order.push_back(chunk);
    order.insert(order.end(), tile.begin(), tile.end());
    if (vector.valid()) order.push_back(vector);
    s.reorder(order);
    for (Loop l : tile) s.unroll(l);
    if (vector.valid()) s.vectorize(vector);

    Loop inner;
    if (outer.size() > 1) {
      inner = outer.back();
      outer.pop_back();
    }
    Loop rows;
    if (!outer.empty()) {
      rows = s.fuse(outer);
      if (worth_parallel(t_, work)) s.parallel(rows);
      t_.offer_place(s, rows, "rows");
    }
    const Loop deepest = chunk.valid() ? chunk : inner.valid() ? inner : rows;
    if (deepest.valid() && !(deepest == rows)) t_.offer_place(s, deepest, "tile");
    t_.note("tiles unrolled, vectors along " +
            (v >= 0 ? op_.axes()[static_cast<size_t>(v)].name() : std::string("none")));
  }

  // Within the tile of its reader, all of it unrolled: its results are registers.
  void attached() {
    StageRef s = t_.stage(g_.output_stage);
    const int64_t at = static_cast<int64_t>(g_.places.size());
    Param location = t_.knob("location", {at}, at, "in the tile of its reader");
    t_.set_location(g_.output_stage, location);
    const std::vector<int64_t>& periods = dag_.info(g_.output_stage).case_periods;
    const int v = vector_axis(periods);
    std::vector<Loop> order, cases;
    Loop chunk, vector;
    for (size_t a = 0; a < op_.axes().size(); ++a) {
      Loop loop = s.axis(static_cast<int>(a));
      if (static_cast<int>(a) == v) {
        std::tie(chunk, vector) = pair(s.split(loop, lanes_));
      } else {
        (periods[a] > 1 ? cases : order).push_back(loop);
      }
    }
    if (chunk.valid()) order.push_back(chunk);
    order.insert(order.end(), cases.begin(), cases.end());
    std::vector<Loop> unrolled = order;
    if (vector.valid()) order.push_back(vector);
    s.reorder(order);
    for (Loop l : unrolled) s.unroll(l);
    if (vector.valid()) s.vectorize(vector);
    const StageGroup::Place& place = g_.places.back();
    s.compute_at(t_.stage(place.stage), place.loop);
  }

 private:
  static std::tuple<Loop, Loop> pair(const std::array<Loop, 2>& l) { return {l[0], l[1]}; }

  // Of a attached reader's axes that correspond by position and extent.
  void inherited_cuts(int s, size_t a, std::set<int64_t>* out) {
    const Operation& op = dag_.stage(s);
    if (a < op.axes().size() && op.axes()[a].extent() == op_.axes()[a].extent())
      divisors_of(op, a, out);
  }

  // The last axis without cases that is long enough, else none.
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
  int64_t lanes_;
};

void build(TemplateBuilder& t, const StageGroup& g) {
  Writer w(t, g);
  g.attached ? w.attached() : w.output_stage();
}

HEDDLE_REGISTER_META_TEMPLATE({"tile_transform", 1, matches, build});

}  // namespace
}  // namespace heddle::meta
