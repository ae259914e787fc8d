// Location-tunable stages on a GPU: what lies between a reduction and its reader, padding, an
// exponential that two readers share.
//
//   location = -1: substituted into the readers      0: at the root, a kernel of its own
//            =  n: at the n-th place that the host group offers: one value a row by every thread,
//                  a row by the threads that share it (in their registers)
#include "cuda/direct.h"
#include "cuda/rows.h"
#include "cuda/tensor_core.h"

namespace heddle::meta {
namespace {

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return target.is_cuda() && g.attached && !dag.stage(g.output_stage).is_reduction();
}

enum class Part { Value, Row, Other };

// What of stage `s` an iteration of the place needs: one value, a row like its host's, or something
// else.
Part part_at(const ComputeDag& dag, int s, const StageGroup::Place& place) {
  const auto &own = dag.stage(s).axes(), &host = dag.stage(place.stage).axes();
  size_t same = 0;
  while (same < std::min(own.size(), host.size()) && own[same].extent() == host[same].extent())
    ++same;
  if (same == own.size() && same == host.size()) return Part::Row;
  for (size_t d = same; d < own.size(); ++d) {
    if (own[d].extent() != 1) return Part::Other;
  }
  return same < host.size() ? Part::Value : Part::Other;
}

// Reads of an element by contractions, and by everything else.
struct Reads {
  double contractions = 0, others = 0;
};
Reads reads_of(const ComputeDag& dag, int s) {
  Reads r;
  for (int c : dag.info(s).consumers) {
    const StageInfo& reader = dag.info(c);
    const double n = static_cast<double>(reader.points * reader.reduce_points) /
                     static_cast<double>(std::max<int64_t>(1, dag.info(s).points));
    (reader.stage_class == StageClass::ComplexReduction ? r.contractions : r.others) += n;
  }
  return r;
}

// Whether all readers of stage `s` are convolutions whose tiles come by computed addresses, and `s`
// but moves elements, or pads: then nothing is gained by a padded copy.
bool fetched_by_tiles(const ComputeDag& dag, int s, const Target& target, bool allow_tf32) {
  const std::vector<int>& readers = dag.info(s).consumers;
  return has_tensor_cores(target) && dag.info(s).flops_per_point == 0 &&
         std::all_of(readers.begin(), readers.end(), [&](int c) {
           return dag.info(c).stage_class == StageClass::ComplexReduction &&
                  tensor_core_view(dag, c, allow_tf32);
         });
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const ComputeDag& dag = t.dag();
  StageRef s = t.stage(g.output_stage);
  const StageInfo& info = dag.info(g.output_stage);
  const Reads reads = reads_of(dag, g.output_stage);
  std::vector<int64_t> where;
  const bool may_inline = reads.contractions == 0 || info.transcendentals_per_point == 0;
  if (may_inline) where.push_back(-1);
  // What the row's reductions are made into is computed with them.
  if (g.deepest == 0) where.push_back(0);
  int64_t chosen = 0;
  std::string reason = "computed once for all readers";
  for (size_t p = 0; p < g.places.size(); ++p) {
    const Part part = part_at(dag, g.output_stage, g.places[p]);
    if (part == Part::Other) continue;
    const auto at = static_cast<int64_t>(p) + 1;
    if (at > g.deepest) continue;
    where.push_back(at);
    const auto& sharing = g.places[p].sharing;
    if (part == Part::Value || sharing.options.empty() || t.chosen(sharing.resident) == 1) {
      chosen = at;
      reason = "computed where it is read, in registers";
    } else if (may_inline) {
      chosen = -1;
      reason = "computed again by each pass over the row";
    }
  }
  if (chosen == 0 && may_inline) {
    const bool padding = reads.contractions > 0 && reads.contractions <= 32;
    const bool few = reads.contractions == 0 && reads.others <= 2;
    if (padding || few) {
      chosen = -1;
      reason = "cheaper to compute again than to store and read";
    } else if (fetched_by_tiles(dag, g.output_stage, t.target(), g.allow_tf32)) {
      chosen = -1;
      reason = "the tiles of its readers are fetched with zeros around them";
    }
  }
  if (where.empty()) where.push_back(0);
  Param location = t.knob("location", where, chosen, reason);
  t.set_location(g.output_stage, location);
  // Where a row stays in registers, what reads them must be computed there as well.
  for (const auto& place : g.places) {
    if (place.sharing.options.empty()) continue;
    const Param resident = place.sharing.resident;
    t.require(
        "'" + dag.stage(g.output_stage).name() + "' is computed where the row is resident",
        [=](const TemplateBuilder::Value& v) { return v(location) != 0 || v(resident) == 0; });
  }

  if (chosen == 0 || std::find(where.begin(), where.end(), 0) != where.end())
    t.when(location, 0, [&] { flat_over_threads(t, g.output_stage, "root_"); });
  if (may_inline) t.when(location, -1, [&] { s.compute_inline(); });
  for (int64_t at : where) {
    if (at <= 0) continue;
    const StageGroup::Place& place = g.places[static_cast<size_t>(at) - 1];
    t.when(location, at, [&] {
      s.compute_at(t.stage(place.stage), place.loop);
      std::vector<Loop> axes = s.all_axes();
      if (part_at(dag, g.output_stage, place) == Part::Value || axes.empty()) return;
      if (place.sharing.options.empty()) {
        std::vector<int64_t> extents;
        for (const Axis& a : dag.stage(g.output_stage).axes()) extents.push_back(a.extent());
        return unroll_short(s, axes, extents, 64);
      }
      for_each_option(t, place.sharing.threads, place.sharing.options, [&](int64_t n) {
        s.unroll(share(s, axes.back(), n, place.sharing.vector).round);
      });
      // The leading axes are the row's, of one element; those between are its own.
      for (size_t d = 0; d + 1 < axes.size(); ++d) s.unroll(axes[d]);
    });
    if (part_at(dag, g.output_stage, place) == Part::Row && !place.sharing.options.empty()) {
      const Param resident = place.sharing.resident;
      t.require(
          "'" + dag.stage(g.output_stage).name() + "' is kept only where rows fit the registers",
          [=](const TemplateBuilder::Value& v) { return v(location) != at || v(resident) == 1; });
    }
  }
}

HEDDLE_REGISTER_META_TEMPLATE({"cuda_location_tunable", 0, matches, build});

}  // namespace
}  // namespace heddle::meta
