// Location-tunable stages on a GPU: stages between a reduction and its reader, padding, an
// exponential that two readers share.
//
//   location = -1: substituted into the readers      0: at the root, a kernel of its own
//            =  n: at the n-th place that the host group offers: one value a row by every thread,
//                  a row by the threads that share it (in their registers)
#include <algorithm>

#include "cuda/direct.h"
#include "cuda/elementwise/location_rule.h"
#include "cuda/products/tensor_core_shape.h"
#include "cuda/reductions/rows.h"

namespace heddle::meta {
namespace {

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return target.is_cuda() && g.attached && !dag.stage(g.output_stage).is_reduction();
}

// The most elements of a stage that is less work than the start of a kernel, and the most
// operations of each that its readers repeat.
constexpr int64_t kTinyStage = 1024;
constexpr double kTinyWork = 4;

enum class Part { Value, Row, Other };

// The part of stage `s` that an iteration of the place needs: one value, a row like that of its
// host, or something else.
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

// Whether all readers of stage `s` are convolutions whose tiles are loaded from computed addresses,
// and `s` only moves elements or pads. A padded copy then gains nothing.
bool fetched_by_tiles(const TemplateBuilder& t, int s, bool allow_tf32) {
  const ComputeDag& dag = t.dag();
  const std::vector<int>& readers = dag.info(s).consumers;
  return has_tensor_cores(t.target()) && dag.info(s).flops_per_point == 0 &&
         !calls_transcendentals(dag, s, t.group().inlined) &&
         std::all_of(readers.begin(), readers.end(), [&](int c) {
           return dag.info(c).stage_class == StageClass::ComplexReduction &&
                  tensor_core_view(dag, c, allow_tf32);
         });
}

// Whether all readers of stage `s` go over its last dimension by an axis, not by steps or windows.
bool read_along_rows(const ComputeDag& dag, int s) {
  return std::ranges::all_of(dag.info(s).consumers, [&](int c) {
    return std::ranges::all_of(dag.info(c).reads, [&](const Access& a) {
      return a.producer != s || a.indices.empty() || a.indices.back().as<VarNode>();
    });
  });
}

// Whether stage `s` pads the last dimension of what it reads, whose rows are no whole vectors.
bool pads_short_rows(const ComputeDag& dag, int s) {
  const Operation& op = dag.stage(s);
  const Select* select = op.bodies().size() == 1 ? op.bodies()[0].as<Select>() : nullptr;
  const Load* load = select ? select->on_true.as<Load>() : nullptr;
  if (!load || op.axes().empty() || load->indices.empty()) return false;
  constexpr int64_t kVectorBytes = 16;
  const Axis& last = op.axes().back();
  const int64_t n = tensor_of(load->buffer).extents().back();
  return load->indices.back().get() == last.var().get() && n < last.extent() &&
         n * load->dtype.bytes() % kVectorBytes != 0;
}

// Whether stage `s` moves vectors of elements, neighbours along its last axis, to products that stream
// their other operand. A copy would be read no faster than its source.
bool moves_vectors(const ComputeDag& dag, int s) {
  const Operation& op = dag.stage(s);
  const Load* load = op.bodies().size() == 1 ? op.bodies()[0].as<Load>() : nullptr;
  const bool streamed =
      std::ranges::all_of(dag.info(s).consumers, [&](int c) { return streams_operands(dag, c); });
  if (!load || !streamed || op.axes().empty() || dag.info(s).precomputable) return false;
  const Axis& last = op.axes().back();
  const int64_t lanes = read_lanes(dag, s);
  if (last.extent() % lanes != 0) return false;
  const Var vector("vector"), lane("lane");
  Ranges ranges;
  ranges.set(vector, {0, last.extent() / lanes - 1});
  ranges.set(lane, {0, lanes - 1});
  const Expr first = vector.expr() * lanes;
  for (size_t d = 0; d < load->indices.size(); ++d) {
    const Expr& index = load->indices[d];
    const Expr step = substitute(index, {{last.var(), first + lane.expr()}}) -
                      substitute(index, {{last.var(), first}});
    const Expr wanted = d + 1 == load->indices.size() ? lane.expr() : Expr(int64_t{0});
    if (!equal(simplify(step, ranges), wanted)) return false;
  }
  return true;
}

LocationProblem problem_of(const TemplateBuilder& t, const StageGroup& g) {
  const ComputeDag& dag = t.dag();
  const StageInfo& info = dag.info(g.output_stage);
  LocationProblem p;
  for (int c : info.consumers) {
    const StageInfo& reader = dag.info(c);
    const double reads = static_cast<double>(reader.points * reader.reduce_points) /
                         static_cast<double>(std::max<int64_t>(1, info.points));
    (reader.stage_class == StageClass::ComplexReduction ? p.contraction_reads : p.other_reads) +=
        reads;
  }
  p.may_inline = p.contraction_reads == 0 || info.transcendentals_per_point == 0;
  p.tiny = info.points <= kTinyStage && info.transcendentals_per_point <= 1 &&
           info.flops_per_point <= kTinyWork;
  p.fetched_by_tiles = fetched_by_tiles(t, g.output_stage, g.allow_tf32);
  p.moves_vectors = moves_vectors(dag, g.output_stage);
  p.makes_vectors = p.fetched_by_tiles && pads_short_rows(dag, g.output_stage) &&
                    read_along_rows(dag, g.output_stage);
  for (size_t i = 0; i < g.places.size(); ++i) {
    const auto location = static_cast<int64_t>(i) + 1;
    const Part part = part_at(dag, g.output_stage, g.places[i]);
    if (part == Part::Other || location > g.deepest) continue;
    const auto& sharing = g.places[i].sharing;
    p.places.push_back({location, part == Part::Value || sharing.options.empty() ||
                                      t.chosen(sharing.resident) == 1});
  }
  return p;
}

// Whether stage `s` must be in memory where all knobs have their defaults. No template of a GPU
// inlines a stage into a copy at the root.
bool kept_by_default(const TemplateBuilder& t, int s) {
  const auto& kept = t.group().kept;
  return std::any_of(kept.begin(), kept.end(), [&](const GroupPlaces::KeptAtRoot& k) {
    return k.stage == s && t.chosen(k.knob) == k.value;
  });
}

// Whether stage `s` pads what stages by cases read, along the same rows: a thread loads each element
// of a tile once, into registers.
bool padded_by_tiles(const ComputeDag& dag, int s) {
  const StageInfo& info = dag.info(s);
  const std::vector<Access>& reads = info.reads;
  if (info.flops_per_point > 0 || reads.size() != 1 || dag.stage(s).axes().empty()) return false;
  const Axis* along = contiguous_axis(reads[0], dag.stage(s).axes());
  return along && along->same_as(dag.stage(s).axes().back()) &&
         std::ranges::all_of(info.consumers,
                             [&](int c) { return !dag.info(c).case_periods.empty(); });
}

class Recipe {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g)
      : t_(t), dag_(t.dag()), g_(g), op_(dag_.stage(g.output_stage)), s_(t.stage(g.output_stage)) {}

  void write() {
    const LocationProblem p = problem_of(t_, g_);
    Choice choice = t_.decide("cuda_location", p, location_rule);
    if (p.may_inline && padded_by_tiles(dag_, g_.output_stage))
      choice.set("location", -1, "the threads of tiles load with zeros around them");
    if (kept_by_default(t_, g_.output_stage))
      choice.set("location", 0, "its reader loads it from memory");
    std::vector<int64_t> where;
    if (p.may_inline) where.push_back(-1);
    // A stage that uses the results of a row's reductions is computed with them.
    if (g_.deepest == 0) where.push_back(0);
    for (const LocationProblem::Place& place : p.places) where.push_back(place.location);
    if (where.empty()) where.push_back(0);
    const Param location = t_.knob("location", where, choice);
    t_.set_location(g_.output_stage, location);
    require_resident(t_, g_, location);
    require_memory(location);
    const bool at_root = std::find(where.begin(), where.end(), 0) != where.end();
    if (at_root || t_.chosen(location) == 0)
      t_.when(location, 0, [&] {
        if (!rows_over_threads(t_, g_.output_stage, "root_"))
          flat_over_threads(t_, g_.output_stage, "root_");
      });
    if (p.may_inline) t_.when(location, -1, [&] { s_.compute_inline(); });
    for (const LocationProblem::Place& place : p.places) at_place(place.location, location);
  }

 private:
  void require_memory(Param location) {
    for (const GroupPlaces::KeptAtRoot& k : t_.group().kept) {
      if (k.stage != g_.output_stage) continue;
      const Param knob = k.knob;
      const int64_t value = k.value;
      t_.require(
          "'" + op_.name() + "' must be in memory where its reader loads it from there",
          [=](const TemplateBuilder::Value& v) { return v(location) == 0 || v(knob) != value; });
    }
  }

  void at_place(int64_t at, Param location) {
    const StageGroup::Place& place = g_.places[static_cast<size_t>(at) - 1];
    const Part part = part_at(dag_, g_.output_stage, place);
    t_.when(location, at, [&] {
      s_.compute_at(t_.stage(place.stage), place.loop);
      if (part != Part::Value && s_.num_axes() > 0) share_row(place);
    });
    if (part == Part::Row && !place.sharing.options.empty()) {
      const Param resident = place.sharing.resident;
      t_.require(
          "'" + op_.name() + "' is kept only where rows fit the registers",
          [=](const TemplateBuilder::Value& v) { return v(location) != at || v(resident) == 1; });
    }
  }

  // Distributes the elements of a row over the threads that share it.
  void share_row(const StageGroup::Place& place) {
    const std::vector<Loop> axes = s_.all_axes();
    if (place.sharing.options.empty()) {
      std::vector<int64_t> extents;
      for (const Axis& a : op_.axes()) extents.push_back(a.extent());
      return unroll_short(s_, axes, extents, kShortBody);
    }
    for_each_option(t_, place.sharing.threads, place.sharing.options, [&](int64_t n) {
      s_.unroll(share(s_, axes.back(), n, place.sharing.vector).round);
    });
    // The leading axes are those of the row and have one element. The axes between are the stage's
    // own.
    for (size_t d = 0; d + 1 < axes.size(); ++d) s_.unroll(axes[d]);
  }

  TemplateBuilder& t_;
  const ComputeDag& dag_;
  const StageGroup& g_;
  const Operation& op_;
  StageRef s_;
};

void build(TemplateBuilder& t, const StageGroup& g) { Recipe(t, g).write(); }

HEDDLE_REGISTER_META_TEMPLATE({"cuda_location_tunable", 0, matches, build});

}  // namespace
}  // namespace heddle::meta
