// Simple reductions on a GPU: each operand element is read once, so memory bandwidth is the limit.
// It takes 16-byte loads of neighbouring lanes, several in flight, and enough blocks.
//
//   along a contiguous reduce axis ("rows", reduce_rows.cpp): a warp or a block a row
//   along strided reduce axes ("columns", reduce_columns.cpp): lanes along the result
//   several reduce axes are taken as one, because each of them may be short (pixels of an image)
//   fewer rows or columns than keep the machine busy, and reductions to one value: cut into parts
//     (rfactor); a second kernel combines them, or, of one value, the block that finishes last
//   short windows (pooling), and what fits none of these: a thread for each element of the result
//
// simple_reduction_rule.h chooses among these and the number of parts. An attached reduction (one
// value per row of another group) has a location too. Knobs: split_reduction, part_length,
// one_launch; those of the shapes, with the prefix part_ for the parts and last_ for the stage that
// combines them; location.
#include "cuda/reductions/simple_reduction_rule.h"

#include "cuda/products/product_view.h"
#include "cuda/reductions/reductions.h"

namespace heddle::meta {
namespace {

using Shape = GpuReductionProblem::Shape;

// The most rows of threads of a block, and the most where a few parts of columns are combined.
constexpr int64_t kMostDown = 8, kMostDownOfParts = 32;
// Parts of a row that a thread loads at once where it combines them alone.
constexpr int64_t kPartsAtOnce = 8;
// Elements of a row that a thread unpacks at once: of 4 bits they are a word.
constexpr int64_t kLanesOfUnpacked = 8;

// Whether a long sum has too few results for a thread each, and no product of matrices.
bool sums_to_few(const ComputeDag& dag, int s, const Gpu& gpu) {
  const StageInfo& info = dag.info(s);
  return info.points < gpu.sms * gpu.threads_per_sm && info.reduce_points > info.points &&
         uses_few_times(dag, s) && !contraction_view(dag.stage(s));
}

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  if (!target.is_cuda() || !dag.stage(g.anchor).is_reduction()) return false;
  return g.anchor_class == StageClass::SimpleReduction ||
         (g.anchor_class == StageClass::ComplexReduction &&
          (streams_operands(dag, g.anchor) || sums_to_few(dag, g.anchor, target.gpu)));
}

class Recipe {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g)
      : t_(t),
        g_(g),
        op_(t.dag().stage(g.anchor)),
        r_(t.stage(g.anchor)),
        output_stage_(t.stage(g.output_stage)),
        problem_(reduction_problem(t.dag(), g.anchor, t.target().gpu, t.constants().gpu)) {}

  void write() {
    if (!g_.attached) return at_root("");
    // The host has enough rows for the machine. A separate kernel would read them once more.
    std::vector<int64_t> where;
    for (int p = 1; p <= g_.deepest; ++p) where.push_back(p);
    if (where.empty()) where.push_back(0);
    Param location = t_.knob("location", where, g_.deepest, "one value per row of the reader");
    t_.set_location(g_.output_stage, location);
    t_.when(location, 0, [&] { at_root("root_"); });
    for (size_t p = 0; p < g_.places.size(); ++p)
      t_.when(location, static_cast<int64_t>(p) + 1, [&] { at(g_.places[p]); });
    require_resident(t_, g_, location);
  }

 private:
  // Computes the reduction in a row of the host, shared among threads as the host shares it.
  void at(const StageGroup::Place& place) {
    const StageRef host = t_.stage(place.stage);
    r_.compute_at(host, place.loop);
    const auto& sharing = place.sharing;
    if (sharing.options.empty()) return unroll_all();
    if (problem_.shape != Shape::Rows) return;
    for_each_option(t_, sharing.threads, sharing.options, [&](int64_t n) {
      // With fewer vectors than threads, every thread adds all of them.
      if (n * sharing.vector > problem_.extent) return;
      const auto reduce = [&](Param unroll) {
        reduce_row(t_, r_, problem_.axes, n, sharing.vector, unroll, host, place.loop);
      };
      t_.when(sharing.resident, 1, [&] { reduce(0); });
      t_.when(sharing.resident, 0, [&] { reduce(sharing.unroll); });
    });
  }

  void unroll_all() {
    std::vector<int64_t> extents;
    for (const Axis& a : op_.reduce_axes()) extents.push_back(a.extent());
    unroll_short(r_, r_.all_reduce_axes(), extents, kShortBody);
  }

  void at_root(const std::string& prefix) {
    if (op_.axes().empty()) return to_one_value(prefix);
    const std::vector<int64_t> lengths = part_lengths(problem_);
    if (lengths.empty()) return whole(prefix);
    const Choice choice =
        with_prefix(t_.decide("cuda_split_reduction", problem_, split_reduction_rule), prefix);
    Param split = t_.choice(prefix + "split_reduction", choice);
    t_.when(split, 0, [&] { whole(prefix); });
    t_.when(split, 1, [&] {
      Param length = t_.knob(prefix + "part_length", lengths, choice);
      StageRef parts = r_.rfactor(reduce_axes_of(r_, problem_.cut_axes), length, false);
      if (problem_.shape == Shape::Columns) return parts_of_columns(parts, length, prefix);
      parts_of_rows(parts, length, ceil_div(problem_.cut_extent, lengths.back()), prefix);
    });
  }

  // The axes of a row or a column in the stage of parts.
  std::vector<int> axes_of_parts() const {
    if (problem_.cuts_row()) return {place_in_parts(problem_.axes[0], problem_.cut_axes)};
    std::vector<int> places;
    for (const int k : problem_.axes) places.push_back(place_in_parts(k, problem_.cut_axes));
    return places;
  }

  RowProblem rows(int64_t extent, int64_t lanes, int64_t rows) const {
    return {.extent = extent,
            .lanes = lanes,
            .rows = rows,
            .gpu = problem_.gpu,
            .constants = problem_.constants};
  }
  ColumnProblem columns(int64_t length, int64_t lanes, int64_t most_down) const {
    return {.columns = problem_.columns,
            .length = length,
            .lanes = lanes,
            .value_bytes = problem_.value_bytes,
            .most_down = most_down,
            .gpu = problem_.gpu};
  }

  // The bytes in memory that an element of read `a` is computed of, where it is computed of constants in the loops.
  double stored_bytes(const Access& a) const {
    const ComputeDag& dag = t_.dag();
    const auto among = [&](const std::vector<int>& stages) {
      return std::ranges::count(stages, a.producer) > 0;
    };
    if (!(among(g_.inlined) || among(g_.operands)) || !dag.info(a.producer).precomputable)
      return a.tensor.dtype().bytes();
    double bytes = 0;
    for (const Access& in : dag.info(a.producer).reads)
      bytes += stored_bytes(in) * static_cast<double>(in.tensor.size());
    return bytes / static_cast<double>(a.tensor.size());
  }

  // Whether the elements of rows are computed, where they are read, of constants of fewer bytes than those of the
  // operand take that all rows share.
  bool unpacked_rows() const {
    if (problem_.shape != Shape::Rows || op_.axes().empty() || op_.num_outputs() != 1) return false;
    // The rows of a thread are neighbours along the last axis, of what is stored, too.
    const std::vector<Axis>& stored = t_.dag().stage(g_.output_stage).axes();
    if (stored.size() != op_.axes().size() ||
        !equal(stored.back()->extent, op_.axes().back()->extent))
      return false;
    constexpr double kFewer = 1.75;
    double rows = 0, shared = 0;
    for (const Access& a : t_.dag().info(g_.anchor).reads)
      (a.depends_on(op_.axes().back()) ? rows : shared) += stored_bytes(a);
    return rows > 0 && kFewer * rows <= shared;
  }

  void whole(const std::string& prefix) {
    switch (problem_.shape) {
      case Shape::Rows: {
        RowProblem p = rows(problem_.extent, problem_.lanes, problem_.results);
        p.by_clusters = true;
        p.heavy = problem_.heavy;
        // Vectors of a short row may be too long for two threads.
        RowProblem unpacked = p;
        unpacked.lanes = std::max(p.lanes, kLanesOfUnpacked);
        unpacked.unpacked = unpacked_rows() && !share_rows(unpacked).options.empty();
        if (unpacked.unpacked) p = unpacked;
        p.product = problem_.product || p.unpacked;
        p.in_line = problem_.columns;
        reduce_rows(t_, output_stage_, r_, problem_.axes, p, prefix);
        return;
      }
      case Shape::Columns:
        return reduce_columns(t_, output_stage_, r_, problem_.axes,
                              columns(problem_.extent, problem_.lanes, kMostDown), prefix);
      case Shape::Points: point_per_thread(t_, output_stage_, g_.anchor, prefix); return;
    }
  }

  void parts_of_columns(StageRef parts, Param length, const std::string& prefix) {
    const int64_t chosen = t_.chosen(length);
    reduce_columns(t_, parts, parts, axes_of_parts(), columns(chosen, problem_.lanes, kMostDown),
                   prefix + "part_");
    // The parts take little memory, and single elements give more blocks.
    reduce_columns(t_, output_stage_, r_, {0},
                   columns(ceil_div(problem_.cut_extent, chosen), 1, kMostDownOfParts),
                   prefix + "last_");
  }

  // `fewest` is the least number of parts of a row.
  void parts_of_rows(StageRef parts, Param length, int64_t fewest, const std::string& prefix) {
    const int64_t chosen = t_.chosen(length);
    const bool cuts_row = problem_.cuts_row();
    // Where rows are no whole vectors, their parts do not begin at vectors either.
    const int64_t lanes =
        problem_.results > 1 ? whole_vector(problem_.extent, problem_.lanes) : problem_.lanes;
    RowProblem p = rows(cuts_row ? chosen : problem_.extent, lanes,
                        problem_.results * ceil_div(problem_.cut_extent, chosen));
    p.heavy = problem_.heavy;
    reduce_rows(t_, parts, parts, axes_of_parts(), p, prefix + "part_",
                {.length = cuts_row ? length : Param()});
    if (fewest < kWarp) {
      point_per_thread(t_, output_stage_, g_.anchor, prefix + "last_", kPartsAtOnce);
      return;
    }
    // The parts of a row are adjacent for the warp that combines them.
    std::vector<StageRef::StorageDim> dims;
    for (int d = 1; d < parts.num_axes(); ++d) dims.push_back({d});
    dims.push_back({0});
    parts.layout(dims);
    reduce_rows(t_, output_stage_, r_, {0}, rows(fewest, 1, problem_.results), prefix + "last_");
  }

  // A reduction to one value has no loop for partial results. Blocks store whole warps of parts,
  // and the threads of one block combine them: the block that finishes last, or one of another
  // kernel.
  void to_one_value(const std::string& prefix) {
    if (!problem_.commutative) return;
    const std::vector<int64_t> lengths = one_value_lengths(problem_);
    if (lengths.empty()) return thread_per_part(prefix);
    const Choice choice =
        with_prefix(t_.decide("cuda_reduce_to_one_value", problem_, one_value_rule), prefix);
    Param length = t_.knob(prefix + "part_length", lengths, choice);
    StageRef parts = r_.rfactor(reduce_axes_of(r_, problem_.cut_axes), length, false);
    if (one_value_by_rows(problem_)) {
      one_value_of_rows(parts, length, prefix);
    } else {
      point_per_thread(t_, parts, parts.id(), prefix + "part_");
    }
    r_.bind(r_.reduce_axis(0), LoopKind::ThreadX);
  }

  void thread_per_part(const std::string& prefix) {
    if (problem_.cut_extent < kWarp) return;
    const int64_t threads =
        std::min(problem_.cut_extent / kWarp * kWarp, most_block_threads(problem_.gpu));
    StageRef parts = r_.rfactor(reduce_axes_of(r_, problem_.cut_axes), threads, true);
    point_per_thread(t_, parts, parts.id(), prefix + "part_");
    r_.bind(r_.reduce_axis(0), LoopKind::ThreadX);
  }

  void one_value_of_rows(StageRef parts, Param length, const std::string& prefix) {
    const bool cuts_row = problem_.cuts_row();
    const int64_t row = cuts_row ? t_.chosen(length) : problem_.extent;
    const int64_t extent = problem_.cut_extent, least = ceil_div(extent, t_.chosen(length));
    // There are twice as many threads as parts, if each gets a vector.
    const int64_t threads = 2 * least * problem_.lanes <= row ? 2 * least : least;
    const RowsKnobs knobs =
        reduce_rows(t_, parts, parts, axes_of_parts(), rows(row, problem_.lanes, least),
                    prefix + "part_", {.length = cuts_row ? length : Param(), .threads = threads});
    const OneLaunchProblem end{least, t_.chosen(knobs.threads)};
    Param one = t_.choice(
        prefix + "one_launch",
        with_prefix(t_.decide("cuda_reduce_in_one_launch", end, one_launch_rule), prefix));
    t_.require("the last block has a thread for each part", [=](const TemplateBuilder::Value& v) {
      return v(one) == 0 ||
             (v(knobs.rows_per_block) == 1 && ceil_div(extent, v(length)) <= v(knobs.threads));
    });
    t_.when(one, 1, [&] { r_.by_last_block(); });
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const Operation& op_;
  StageRef r_, output_stage_;
  const GpuReductionProblem problem_;
};

void build(TemplateBuilder& t, const StageGroup& g) { Recipe(t, g).write(); }

// The priority is above that of complex reductions, for sums that stream one operand.
HEDDLE_REGISTER_META_TEMPLATE({"cuda_simple_reduction", 1, matches, build});

}  // namespace
}  // namespace heddle::meta
