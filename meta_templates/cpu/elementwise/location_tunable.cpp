// Location-tunable stages: cheap or data-movement stages inside another group (padding, a change of
// layout, an exponential that two readers share).
//
//   location = -1: substituted into the readers
//               0: at the root, rows in parallel:          parallel for rows { vectors }
//               n: at the n-th loop of the host group:     for .. { vectors of what it reads; .. }
//
// with_reader: at that place, but in the loop of a reduction that reads it, and stored for the
// other readers:
//
//   for row { for chunk { this stage; partial sums of it }  other readers }
//
// Where a product of 16-bit floats reads it one by one, it may be stored there in the type of the sums (widen), so that each element is
// converted once and not at each read.
//
// Knobs: location, width (elements per vector), prefetch_rows (distance in rows), with_reader, widen.
#include <set>

#include "common/contraction_shape.h"
#include "common/loops.h"
#include "cpu/cpu_features.h"
#include "cpu/products/tile_plan.h"
#include "cpu/streamed_rows.h"
#include "cpu/vectors.h"
#include "heddle/target/rule_constants.h"

namespace heddle::meta::cpu {
namespace {

bool matches(const ComputeDag&, const StageGroup& g, const Target& target) {
  return target.kind == "llvm" && g.attached && g.anchor_class == StageClass::LocationTunable;
}

enum Location : int64_t { kInlined = -1, kAtRoot = 0 };  // n > 0: at the n-th place

struct LocationProblem {
  Target target;
  CpuConstants constants = {};  ///< by which the rule judges
  int64_t lanes = 1;            ///< elements of a native vector
  int64_t deepest = 0;          ///< the deepest place that the readers allow
  bool may_go_along = false;    ///< a reduction that reads it offers one of its loops
  double bytes = 0;             ///< bytes read and written
  bool computes = false;  ///< it calls a transcendental function, or what is inlined into it does
  bool in_chain = false;  ///< part of a chain of products
  bool feeds_contraction = false;   ///< a contraction reads it
  double contraction_reads = 0;     ///< reads of an element by contractions
  double conversions = 0;           ///< of an element that products would convert one by one
  bool windows_along_rows = false;  ///< the reads are windows that slide along rows
  bool adds_up = false;             ///< arithmetic combines several stages to an element
  bool copied_for_tiles =
      false;  ///< a product in tile registers reads it once, for a copy of its own
  double elements_a_value = 1;  ///< of what is computed at the first place, for each of it
  int64_t parts = 1;            ///< stored stages whose elements it passes on, as `concat` does
  bool shared_out = false;      ///< threads share the rows of the group
  bool channels_apart =
      false;  ///< windows that read it sum no whole dimension: by channels, or groups of them
  bool read_by_groups = false;  ///< each block of a contraction's columns reads channels of its own
  int64_t row_length = 1;

  NamedFeatures features() const {
    NamedFeatures f = cpu_features(target);
    const auto add = [&](std::string_view name, auto value) {
      f.push_back({name, static_cast<double>(value)});
    };
    add("lanes", lanes);
    add("deepest", deepest);
    add("may_go_along", may_go_along);
    add("bytes", bytes);
    add("computes", computes);
    add("in_chain", in_chain);
    add("feeds_contraction", feeds_contraction);
    add("contraction_reads", contraction_reads);
    add("windows_along_rows", windows_along_rows);
    add("row_length", row_length);
    add("adds_up", adds_up);
    add("read_by_groups", read_by_groups);
    add("channels_apart", channels_apart);
    add("copied_for_tiles", copied_for_tiles);
    add("elements_a_value", elements_a_value);
    return f;
  }
};

// The number of stages that arithmetic combines to an element of stage `s`, where `inlined` are
// substituted. Stages that only move elements take each from one stage.
int64_t stages_combined(const ComputeDag& dag, int s, const std::vector<int>& inlined) {
  int64_t sum = 0, most = 0;
  for (const int p : dag.info(s).producers) {
    if (dag.info(p).precomputable) continue;
    const bool passes_on = std::find(inlined.begin(), inlined.end(), p) != inlined.end();
    const int64_t count = passes_on ? stages_combined(dag, p, inlined) : 1;
    sum += count;
    most = std::max(most, count);
  }
  return dag.info(s).flops_per_point > 0 ? sum : most;
}

// The number of stages that are stored and of which stage `s` reads elements, where `inlined` are substituted.
int64_t stored_parts(const ComputeDag& dag, int s, const std::vector<int>& inlined) {
  int64_t sum = 0;
  for (const int p : dag.info(s).producers) {
    if (dag.info(p).precomputable) continue;
    const bool passes_on = std::find(inlined.begin(), inlined.end(), p) != inlined.end();
    sum += passes_on ? stored_parts(dag, p, inlined) : 1;
  }
  return sum;
}

// How often an element of stage `s` is converted and broadcast by the tiles of product `reader`, of which it is the row operand; 0 where
// the target multiplies its type as it is.
double conversions_of(const ComputeDag& dag, int s, int reader, const ContractionShape& shape,
                      const Target& target) {
  constexpr double kColumnsOfATile = 64;
  const std::optional<NarrowProduct> narrow = narrow_product(dag.stage(reader));
  if (!narrow || narrow->integers() || !dot_sizes(*narrow, target).empty() ||
      has_tiles(target, *narrow))
    return 0;
  if (!shape.row || shape.row->producer != s || (shape.vector && shape.vector->producer == s))
    return 0;
  const StageInfo& info = dag.info(reader);
  return static_cast<double>(info.points * info.reduce_points) / kColumnsOfATile /
         static_cast<double>(std::max<int64_t>(1, dag.info(s).points));
}

// Whether stage `reader` sums windows alone of what it reads by `a`, and no dimension as a whole, as convolutions of single channels
// and of groups do.
bool sums_windows_alone(const ComputeDag& dag, int reader, const Access& a) {
  const auto& reduced = dag.stage(reader).reduce_axes();
  const auto whole = [&](const std::optional<Affine>& index) {
    if (!index || index->terms.size() != 1) return false;
    return std::ranges::any_of(reduced, [&](const Axis& x) {
      return x.extent() > 1 && x.var().same_as(index->terms[0].var);
    });
  };
  return std::ranges::none_of(a.affine, whole);
}

// Whether product `reader` copies its rows, which stage `s` computes, for tile registers.
bool copies_for_tiles(const ComputeDag& dag, int s, int reader, const ContractionShape& shape,
                      const Target& target) {
  StageGroup alone;
  alone.anchor = alone.output_stage = reader;
  alone.anchor_class = StageClass::ComplexReduction;
  alone.tunable = {s};
  return shape.row && shape.row->producer == s && tile_plan(dag, alone, target).has_value();
}

// Whether threads share the rows of the group of stage `s`, whose output is at `place`: the work of what reads the stage, of the
// reductions that it reads, and its own.
bool rows_are_shared_out(const TemplateBuilder& t, int s, int place) {
  const ComputeDag& dag = t.dag();
  std::set<int> stages{s, place};
  for (const int c : dag.info(s).consumers) stages.insert(c);
  for (const int p : dag.info(s).producers) {
    if (dag.stage(p).is_reduction()) stages.insert(p);
  }
  double work = 0;
  for (const int x : stages) work += stage_work(dag, x);
  return worth_parallel_rows(t, work);
}

LocationProblem location_problem(const TemplateBuilder& t, const StageGroup& g) {
  const ComputeDag& dag = t.dag();
  const StageInfo& info = dag.info(g.output_stage);
  const Operation& op = dag.stage(g.output_stage);
  LocationProblem p;
  p.target = t.target();
  p.constants = t.constants().cpu;
  p.lanes = native_lanes(t, g.output_stage);
  p.deepest = g.deepest;
  p.may_go_along = !g.reader_loops.empty();
  p.bytes = stage_bytes(dag, g.output_stage);
  p.computes = calls_transcendentals(dag, g.output_stage, t.group().inlined);
  p.in_chain = g.in_chain;
  p.parts = stored_parts(dag, g.output_stage, t.group().inlined);
  p.adds_up = stages_combined(dag, g.output_stage, t.group().inlined) > 1;
  if (!g.places.empty()) p.shared_out = rows_are_shared_out(t, g.output_stage, g.places[0].stage);
  if (!g.places.empty())
    p.elements_a_value = static_cast<double>(dag.info(g.places[0].stage).points) /
                         static_cast<double>(std::max<int64_t>(1, info.points));
  if (!op.axes().empty()) p.row_length = op.axes().back().extent();
  for (int c : info.consumers) {
    const StageInfo& reader = dag.info(c);
    if (reader.stage_class != StageClass::ComplexReduction) continue;
    p.feeds_contraction = true;
    p.contraction_reads += static_cast<double>(reader.points * reader.reduce_points) /
                           static_cast<double>(std::max<int64_t>(1, info.points));
    const ContractionShape shape = contraction_shape(dag, c, p.lanes, Columns::InGroups);
    p.read_by_groups |=
        shape.row && shape.row->producer == g.output_stage && shape.col_group < shape.cols;
    p.copied_for_tiles |= copies_for_tiles(dag, g.output_stage, c, shape, p.target);
    p.conversions += conversions_of(dag, g.output_stage, c, shape, p.target);
    for (const Access& a : reader.reads) {
      if (a.producer != g.output_stage) continue;
      p.windows_along_rows |=
          !a.affine.empty() && a.affine.back() && a.affine.back()->terms.size() > 1;
      p.channels_apart |= sums_windows_alone(dag, c, a);
    }
  }
  return p;
}

// The loops of a contraction split where a padded read is inside of its bounds. Storing the padded
// copy therefore pays only if it is read often, or if many vectors would cross a bound
// (docs/internals/decisions/measured-choices.md, "padding in place").
bool cheap_to_repeat(const LocationProblem& p) {
  // A contraction has a loop of its own, with a whole tile, for each part that it reads.
  constexpr int64_t kMostParts = 4;
  if (p.parts > kMostParts) return false;
  const CpuConstants& by = p.constants;
  const bool short_rows = p.windows_along_rows && p.row_length < by.short_row_vectors * p.lanes;
  // A sum of several stages would be loaded and added up for each tap of a window.
  const double most = p.adds_up    ? by.inline_reads_of_sums
                      : short_rows ? by.inline_reads_of_short_rows
                                   : by.inline_reads;
  const double of_tiles = p.copied_for_tiles ? by.inline_reads_of_tiles : 0;
  return !p.computes && p.contraction_reads <= std::max(most, of_tiles);
}

// Whether rows are so short that most lanes of a vector of functions would be idle, and all rows stay near: then the stage is
// computed for all of them first. Threads that share rows would wait for it.
bool whole_for_short_rows(const LocationProblem& p) {
  const double row =
      p.elements_a_value > 1 ? p.elements_a_value : static_cast<double>(p.row_length);
  const double near = static_cast<double>(p.target.l2_bytes);
  constexpr double kVectorsOfOneThread = 2;
  const double vectors =
      std::max(p.constants.whole_row_vectors, p.shared_out ? 0 : kVectorsOfOneThread);
  return p.computes && row <= vectors * static_cast<double>(p.lanes) &&
         p.bytes * p.elements_a_value <= near;
}

// The stage is computed once for all readers at the root. In a group that goes row by row it is
// computed where the row is still in a cache. What a block of channels reads of an image with all
// channels innermost lies in a few sets of the cache; computed in the block, it lies together.
void choose_location(const LocationProblem& p, Choice& choice) {
  const bool whole = !p.feeds_contraction && whole_for_short_rows(p);
  const bool in_row = !p.feeds_contraction || p.in_chain || p.read_by_groups;
  const int64_t chosen = whole                ? kAtRoot
                         : in_row             ? p.deepest
                         : cheap_to_repeat(p) ? kInlined
                                              : kAtRoot;
  constexpr double kReadAgain = 2;
  choice.set("widen", chosen > kAtRoot && p.conversions >= kReadAgain,
             "converted once, and not by each tile that reads it");
  choice.set("location", chosen,
             whole                ? "rows are short: computed for all of them first"
             : chosen == kAtRoot  ? "read many times by a contraction: computed once, whole"
             : chosen == kInlined ? "cheap, and read few times"
                                  : "computed where it is read, while it is in cache");
}

Choice location_rule(const LocationProblem& p) {
  // In a group that goes row by row, memory is idle while a transcendental function is computed.
  // Later rows are prefetched in that time.
  constexpr int64_t kRowsAhead = 2;
  const bool from_memory = p.bytes > static_cast<double>(2 * p.target.l2_bytes);
  Choice choice;
  choose_location(p, choice);
  choose_vector_width(p.lanes, choice);
  choice.set("prefetch_rows", p.computes && from_memory ? kRowsAhead : 0,
             "memory works while this computes");
  // Between two products the rows of a block are near anyway, and whole rows are computed faster:
  // attention of BERT-base takes 0.54 of the time on two AVX-512 cores.
  if (p.in_chain)
    choice.set("with_reader", false, "its rows stay near from product to product");
  else
    choice.set("with_reader", p.computes, "one pass over the row in place of two");
  return choice;
}

class Recipe {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g, const LocationProblem& p, const Choice& choice)
      : t_(t), g_(g), p_(p), choice_(choice), s_(t.stage(g.output_stage)) {}

  void write() {
    std::vector<int64_t> where{kAtRoot};
    if (!p_.feeds_contraction || !p_.computes) where.push_back(kInlined);
    for (size_t p = 0; p < g_.places.size(); ++p) where.push_back(static_cast<int64_t>(p) + 1);
    location_ = t_.knob("location", where, choice_);
    t_.set_location(g_.output_stage, location_);
    const bool computes = has_transcendentals(t_.dag(), g_.output_stage, g_.inlined);
    width_ = ask_vector_width(t_, p_.lanes, computes && p_.elements_a_value <= 1, choice_);
    if (s_.all_axes().empty()) return;
    ask_prefetch();
    ask_with_reader();
    ask_widen();
    for (int64_t value : where) t_.when(location_, value, [&] { write_at(value); });
  }

 private:
  // There is no knob where nothing can be prefetched.
  void ask_prefetch() {
    if (!g_.places.empty() && !rows_read(t_.dag(), g_.output_stage).empty())
      rows_ahead_ = ask_rows_ahead(t_, choice_);
  }

  // Asks whether to compute the stage in a loop of a reduction that reads it too (the exponentials
  // of a softmax with their sum). There is no knob where there is no such loop.
  void ask_with_reader() {
    if (g_.reader_loops.empty()) return;
    const StageGroup::ReaderLoop& with = g_.reader_loops.front();
    with_reader_ = t_.choice("with_reader", choice_);
    t_.require(
        "'" + t_.dag().stage(g_.output_stage).name() + "' must be computed where its reader is",
        [along = with_reader_, location = location_, theirs = with.location,
         needs = with.needs](const TemplateBuilder::Value& v) {
          return v(along) == 0 || v(location) <= 0 ||
                 (v(theirs) == v(location) &&
                  std::all_of(needs.begin(), needs.end(),
                              [&](const auto& need) { return v(need.first) == need.second; }));
        });
  }

  // At the root the product copies and widens it itself.
  void ask_widen() {
    if (p_.conversions == 0 || g_.places.empty()) return;
    widen_ = t_.choice("widen", choice_);
  }

  void write_at(int64_t location) {
    if (location == kInlined) {
      s_.compute_inline();
    } else if (location == kAtRoot) {
      at_root();
    } else {
      in_place(g_.places[static_cast<size_t>(location) - 1]);
    }
  }

  void at_root() {
    const std::vector<Loop> axes = s_.all_axes();
    vectorize(axes.back());
    const int s = g_.output_stage;
    const double work = static_cast<double>(t_.dag().info(s).points) *
                        (1 + operations_per_point(t_.dag(), s, t_.group().inlined));
    if (axes.size() < 2 || !worth_parallel(t_, work)) return;
    s_.parallel(s_.fuse(std::vector<Loop>(axes.begin(), axes.end() - 1)));
  }

  void in_place(const StageGroup::Place& place) {
    if (!widen_.is_const()) t_.when(widen_, 1, [&] { s_.widen(f32); });
    vectorize(s_.all_axes().back());
    if (!rows_ahead_.is_const())
      prefetch_rows(t_, s_, rows_read(t_.dag(), g_.output_stage), rows_ahead_);
    const auto whole_row = [&] { s_.compute_at(t_.stage(place.stage), place.loop); };
    if (with_reader_.is_const()) return whole_row();
    t_.when(with_reader_, 0, whole_row);
    t_.when(with_reader_, 1, [&] {
      const StageGroup::ReaderLoop& with = g_.reader_loops.front();
      s_.compute_at(t_.stage(with.stage), with.loop);
      s_.store_at(t_.stage(place.stage), place.loop);
    });
  }

  void vectorize(Loop loop) { s_.vectorize(s_.split(loop, width_)[1]); }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const LocationProblem& p_;
  const Choice& choice_;
  StageRef s_;
  Param location_, width_, rows_ahead_, with_reader_, widen_;
};

void build(TemplateBuilder& t, const StageGroup& g) {
  const LocationProblem problem = location_problem(t, g);
  const Choice choice = t.decide("location", problem, location_rule);
  Recipe(t, g, problem, choice).write();
}

HEDDLE_REGISTER_META_TEMPLATE({"location_tunable", 0, matches, build});

}  // namespace
}  // namespace heddle::meta::cpu
