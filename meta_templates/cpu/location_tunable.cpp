// Location-tunable stages: cheap or data-movement stages inside another group (padding, layout
// change, an exponential that two readers share).
//
//   location = -1: substituted into the readers      0: at the root, rows in parallel
//            =  n: at the n-th loop that the host group offers, only what that iteration needs
//
// with_reader: there, but in the loop of a reduction that reads it, and kept for the other readers.
#include "cpu/streamed_rows.h"
#include "cpu/vectors.h"

namespace heddle::meta {
namespace {

bool matches(const ComputeDag&, const StageGroup& g, const Target& target) {
  return target.kind == "llvm" && g.attached && g.anchor_class == StageClass::LocationTunable;
}

// How many rows ahead to fetch (0: none); no knob where there is nothing to fetch.
Param fetch_ahead(TemplateBuilder& t, const StageGroup& g) {
  const ComputeDag& dag = t.dag();
  if (g.places.empty() || rows_read(dag, g.output_stage).empty()) return {};
  bool worth = dag.info(g.output_stage).transcendentals_per_point > 0 &&
               stage_bytes(dag, g.output_stage) > static_cast<double>(2 * t.target().l2_bytes);
  return rows_ahead(t, worth ? 2 : 0, "memory works while this computes");
}

// Whether to compute it in a loop of a reduction that reads it as well (a softmax's exponentials
// with their sum); no knob where there is no such loop.
Param along_with_reader(TemplateBuilder& t, const StageGroup& g, Param location) {
  if (g.reader_loops.empty()) return {};
  const StageGroup::ReaderLoop& with = g.reader_loops.front();
  const bool dear = t.dag().info(g.output_stage).transcendentals_per_point > 0;
  Param along = t.choice("with_reader", dear, "one pass over the row in place of two");
  t.require("'" + t.dag().stage(g.output_stage).name() + "' must be computed where its reader is",
            [along, location, theirs = with.location,
             needs = with.needs](const TemplateBuilder::Value& v) {
              return v(along) == 0 || v(location) <= 0 ||
                     (v(theirs) == v(location) &&
                      std::all_of(needs.begin(), needs.end(),
                                  [&](const auto& need) { return v(need.first) == need.second; }));
            });
  return along;
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const ComputeDag& dag = t.dag();
  StageRef s = t.stage(g.output_stage);
  const StageInfo& info = dag.info(g.output_stage);
  bool feeds_contraction = false, windows_along_rows = false;
  double reads = 0;  // of an element, by contractions
  for (int c : info.consumers) {
    const StageInfo& reader = dag.info(c);
    if (reader.stage_class != StageClass::ComplexReduction) continue;
    feeds_contraction = true;
    for (const Access& a : reader.reads)
      windows_along_rows |= a.producer == g.output_stage && !a.affine.empty() && a.affine.back() &&
                            a.affine.back()->terms.size() > 1;
    reads += static_cast<double>(reader.points * reader.reduce_points) /
             static_cast<double>(std::max<int64_t>(1, info.points));
  }
  // The loops of a contraction split where a padded read is inside of its bounds, so that writing
  // the padded copy is worth it only for one that is read often, or in which many vectors would lie
  // across a bound (docs/decisions/measured-choices.md, "padding in place").
  const bool short_rows = windows_along_rows && dag.stage(g.output_stage).axes().back().extent() <
                                                    6 * native_lanes(t, g.output_stage);
  const bool cheap = info.transcendentals_per_point == 0 && reads <= (short_rows ? 32 : 128);

  std::vector<int64_t> where{0};
  if (!feeds_contraction || info.transcendentals_per_point == 0) where.push_back(-1);
  for (size_t p = 0; p < g.places.size(); ++p) where.push_back(static_cast<int64_t>(p) + 1);
  // Computed once for all readers at the root; or, when it goes row by row, where the row is still
  // in cache.
  int64_t chosen = !feeds_contraction || g.in_chain ? g.deepest : cheap ? -1 : 0;
  Param location = t.knob("location", where, chosen,
                          chosen == 0    ? "read many times by a contraction: computed once, whole"
                          : chosen == -1 ? "cheap, and read few times"
                                         : "computed where it is read, while it is in cache");
  t.set_location(g.output_stage, location);

  // (One value a row, the reciprocal of a sum, is no work.)
  const bool row_value =
      !g.places.empty() && dag.info(g.places[0].stage).points > dag.info(g.output_stage).points;
  Param width = vector_width(t, g.output_stage,
                             has_transcendentals(dag, g.output_stage, g.inlined) && !row_value);
  std::vector<Loop> axes = s.all_axes();
  if (axes.empty()) return;
  auto shape = [&](bool root) {
    auto [vo, vi] = s.split(axes.back(), width);
    (void)vo;
    s.vectorize(vi);
    if (!root || axes.size() < 2 || !worth_parallel(t, stage_work(dag, g.output_stage))) return;
    s.parallel(s.fuse(std::vector<Loop>(axes.begin(), axes.end() - 1)));
  };
  // Row by row, memory idles while a dear function (an exponential) is computed: let it fetch the
  // rows that come next.
  Param ahead = fetch_ahead(t, g);
  const Param along = along_with_reader(t, g, location);
  for (int64_t value : where) {
    t.when(location, value, [&] {
      if (value == -1) {
        s.compute_inline();
        return;
      }
      shape(value == 0);
      if (value > 0 && ahead.knob >= 0) prefetch_rows(t, s, rows_read(dag, g.output_stage), ahead);
      if (value <= 0) return;
      const StageGroup::Place& place = g.places[static_cast<size_t>(value) - 1];
      const auto whole_row = [&] { s.compute_at(t.stage(place.stage), place.loop); };
      if (along.knob < 0) return whole_row();
      t.when(along, 0, whole_row);
      t.when(along, 1, [&] {
        const StageGroup::ReaderLoop& with = g.reader_loops.front();
        s.compute_at(t.stage(with.stage), with.loop);
        s.store_at(t.stage(place.stage), place.loop);
      });
    });
  }
}

HEDDLE_REGISTER_META_TEMPLATE({"location_tunable", 0, matches, build});

}  // namespace
}  // namespace heddle::meta
