// Stages by cases on a CPU: transforms of small tiles, such as Winograd's.
//
//   parallel for tiles' rows {
//     [attached: the padded image]
//     for tiles, for vectors {
//       [attached: the transform along the other dimension, in registers]
//       the tile, unrolled: every case is decided here
//     }
//   }
#include "common/tile_cases.h"
#include "cpu/vectors.h"

namespace heddle::meta::cpu {
namespace {

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return target.kind == "llvm" && is_by_cases(dag, g);
}

double work_of(const ComputeDag& dag, const StageGroup& g) {
  double work = stage_work(dag, g.output_stage);
  for (int x : g.inlined) work += stage_work(dag, x);
  for (int x : g.tunable) work += stage_work(dag, x);
  return work;
}

// Shares out rows and offers them, and tiles too, to attached stages.
void share_out(TemplateBuilder& t, const StageGroup& g, StageRef s, TransformLoops& l) {
  Loop inner, rows;
  if (l.rows.size() > 1) {
    inner = l.rows.back();
    l.rows.pop_back();
  }
  if (!l.rows.empty()) {
    rows = s.fuse(l.rows);
    if (worth_parallel(t, work_of(t.dag(), g))) s.parallel(rows);
    t.offer_place(s, rows, "rows");
  }
  const Loop deepest = l.chunk.valid() ? l.chunk : inner.valid() ? inner : rows;
  if (deepest.valid() && !(deepest == rows)) t.offer_place(s, deepest, "tile");
}

// There is no rule: the cases of the declaration determine the tiles, and the one knob has one
// value.
void build(TemplateBuilder& t, const StageGroup& g) {
  TileCases cases(t, g, native_lanes(t, g.output_stage));
  if (g.attached) return cases.attach();
  TransformLoops l = cases.cut();
  cases.write_tile(l, l.outer());
  share_out(t, g, cases.stage(), l);
  const int v = cases.vector_axis();
  const Operation& op = t.dag().stage(g.output_stage);
  t.note("tiles unrolled, vectors along " +
         (v >= 0 ? op.axes()[static_cast<size_t>(v)].name() : std::string("none")));
}

HEDDLE_REGISTER_META_TEMPLATE({"tile_transform", 1, matches, build});

}  // namespace
}  // namespace heddle::meta::cpu
