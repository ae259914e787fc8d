// Simple reductions: every operand element is read once (or by a small window), so the work is
// streaming memory through several independent accumulators. This includes matrix-vector products:
// the vector is reused, but reading the matrix dominates the time.
//
//   along a contiguous reduce axis ("rows"):
//     parallel for row blocks { for k { rows x vectors: rf += .. }  for rows { combine rf } }
//   along a strided reduce axis ("columns"):
//     parallel for j tiles { for k blocks { for j vectors { acc += several rows } } }
//   too few rows for the cores, or columns of which a core can hold all ("parts"):
//     parallel for k parts { one of the two above }  sum of the parts
//
// An attached reduction (one value per row of another group) has a location too, and is never
// parallel itself.
//
// Knobs: split_reduction, part_length; lanes_unroll, streams (rows read at a time), tile (columns);
// the same with the prefix part_ for parts; location, prefetch_rows (distance in rows) and
// prefetch_lines (distance in lines along a row) where it is attached. reduction_rule.cpp chooses
// the numbers.
#include "common/costs.h"
#include "cpu/location.h"
#include "cpu/products/packs_once.h"
#include "cpu/reductions/reduction_rule.h"
#include "cpu/reductions/vector_partials.h"
#include "cpu/streamed_rows.h"

namespace heddle::meta::cpu {
namespace {

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  if (target.kind != "llvm" || !dag.stage(g.anchor).is_reduction()) return false;
  return g.anchor_class == StageClass::SimpleReduction ||
         (g.anchor_class == StageClass::ComplexReduction && sums_rows(dag, g.anchor, target));
}

class Recipe {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g, const ReductionAxes& axes,
         const ReductionProblem& p, const Choice& choice)
      : t_(t), g_(g), axes_(axes), p_(p), choice_(choice) {}

  void write() {
    StageRef anchor = t_.stage(g_.anchor), output_stage = t_.stage(g_.output_stage);
    if (g_.attached) choose_location(output_stage);
    const Param parts = t_.choice("split_reduction", choice_);
    t_.when(parts, 0, [&] {
      if (p_.has_epilogue)
        reduce(anchor, output_stage);
      else
        reduce_to_memory(anchor);
    });
    if (p_.can_split) t_.when(parts, 1, [&] { in_parts(anchor, output_stage); });
  }

 private:
  void choose_location(StageRef output_stage) {
    const Param location = location_ = ask_location(t_, g_, "one value per row of the reader");
    for (size_t p = 0; p < g_.places.size(); ++p) {
      t_.when(location, static_cast<int64_t>(p) + 1,
              [&] { output_stage.compute_at(t_.stage(g_.places[p].stage), g_.places[p].loop); });
    }
  }

  // Computes parts of the reduction, then their sum.
  void in_parts(StageRef anchor, StageRef output_stage) {
    const int64_t cores = p_.target.cores;
    const Param length =
        t_.knob("part_length", {ceil_div(p_.cut_length, cores), ceil_div(p_.cut_length, 4 * cores)},
                choice_);
    StageRef parts = anchor.rfactor(anchor.reduce_axis(axes_.cut), length, false);
    of_parts_ = true;
    reduce_to_memory(parts);
    of_parts_ = false;
    if (p_.along_row || p_.scalar) return;
    // The parts are added by vectors. Each part is computed when it is needed.
    by_vectors(anchor);
    if (p_.has_epilogue) anchor.compute_at(output_stage, by_vectors(output_stage));
  }

  // Makes vectors of the last axis outside of the reduction. Returns the loop over them.
  Loop by_vectors(StageRef s) {
    std::vector<Loop> order = s.all_axes();
    auto [vector, lane] = s.split(order.back(), p_.lanes);
    order.back() = vector;
    s.reorder(joined(joined(order, s.all_reduce_axes()), {lane}));
    s.vectorize(lane);
    return vector;
  }

  // Reduces a stage that stores its result once. Columns accumulate in a private copy.
  void reduce_to_memory(StageRef s) {
    reduce(p_.along_row || s.num_axes() == 0 ? s : s.cache_write(), s);
  }

  // Shapes the loops of reduction `s`, which are its own or those of `host`, which stores its
  // result.
  void reduce(StageRef s, StageRef host) {
    if (p_.along_row)
      rows(s, host);
    else
      columns(s, host);
  }

  Param ask(const std::string& name, std::vector<int64_t> values) {
    return t_.knob((of_parts_ ? "part_" : "") + name, std::move(values), choice_);
  }

  // Reduces along a contiguous axis: vectors of partial results for some rows at a time.
  void rows(StageRef s, StageRef host) {
    PartialVectors v;
    v.run = of_parts_ ? axes_.part_run : axes_.run;
    v.lanes = p_.lanes;
    v.width = terms_at_once(p_, of_parts_ ? p_.part_row_length : p_.row_length);
    std::vector<int64_t> chunks{v.lanes, 2 * v.lanes, 4 * v.lanes, 8 * v.lanes};
    std::erase_if(chunks, [&](int64_t c) { return c % v.width != 0; });
    v.chunk = ask("lanes_unroll", chunks);
    std::vector<Loop> outer = host.all_axes();
    if (outer.empty()) return;  // for one value, the parts are the loops
    // The rows that are read at a time are those of the results or, where all rows are summed, of
    // the reduction.
    if (!p_.scalar || v.run.front() > 0) v.streams = ask("streams", {1, 2, 4, 8});
    if (!p_.scalar) {
      v.row_axis = axes_.row_axis + (of_parts_ ? 1 : 0);  // after the loop over parts
      unroll_rows(host, outer, v);
    }
    const Loop row = host.fuse(outer);
    if (p_.parallel) host.parallel(row);
    if (host.id() != s.id()) s.compute_at(host, row);
    const auto [partial, vectors] = vector_partials(s, v, host, row);
    if (!g_.attached) return;
    if (v.run.size() == 1) t_.offer_reader_loop(g_.anchor, partial, vectors, location_);
    fetch_ahead(partial);
  }

  // Unrolls the rows of a step. `outer` then goes over steps.
  void unroll_rows(StageRef host, std::vector<Loop>& outer, const PartialVectors& v) {
    const auto at = static_cast<size_t>(v.row_axis);
    auto [step, row] = host.split(outer[at], v.streams);
    outer[at] = step;
    if (at + 1 < outer.size()) host.reorder(joined(outer, {row}));
    host.unroll(row);
  }

  // In a group that goes row by row, prefetches the next rows, or the next lines of a row.
  void fetch_ahead(StageRef partial) {
    const std::vector<Access> reads = rows_read(t_.dag(), g_.anchor, g_.inlined);
    if (reads.empty()) return;
    prefetch_rows(t_, partial, reads, ask_rows_ahead(t_, choice_));
    if (p_.computes || g_.places.empty() || p_.reads_again) return;
    const std::vector<int64_t> lines{kLinesAhead / 2, kLinesAhead};
    const Param ahead = t_.knob("prefetch_lines", {0, lines[0], lines[1]}, choice_);
    for (const Access& a : reads) {
      const int64_t line = kLineBytes / a.tensor.dtype().bytes();
      for (const int64_t n : lines) {
        if (n * line > a.tensor.extent(1)) continue;
        t_.when(ahead, n, [&] { partial.prefetch(t_.stage(a.producer), 1, n * line); });
      }
    }
  }

  // Reduces along a strided axis: vectors over the last spatial axis, accumulators in the nearest
  // cache, several rows added to each at a time.
  void columns(StageRef s, StageRef host) {
    std::vector<Loop> outer = host.all_axes();
    if (outer.empty()) return;
    if (p_.scalar) {
      if (p_.parallel) host.parallel(outer[0]);
      return;
    }
    const int64_t lanes = p_.lanes;
    const Param tile = ask("tile", {lanes, 4 * lanes, 16 * lanes, 64 * lanes, columns_in_l1(p_)});
    auto [tiles, in_tile] = host.split(outer.back(), tile);
    outer.back() = tiles;
    const Loop all = host.fuse(outer);
    if (p_.parallel) host.parallel(all);
    host.vectorize(host.split(in_tile, lanes)[1]);
    s.compute_at(host, all);
    std::vector<Loop> order = s.all_axes(), reduce = s.all_reduce_axes();
    auto [vector, lane] = s.split(order.back(), lanes);
    const Param streams = ask("streams", {1, 2, 4, 8, 16});
    order.pop_back();
    order.insert(order.end(), reduce.begin(), reduce.end() - 1);
    auto [step, row] = s.split(reduce.back(), streams);
    s.reorder(joined(order, {step, vector, row, lane}));
    s.unroll(row);
    s.vectorize(lane);
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const ReductionAxes& axes_;
  const ReductionProblem& p_;
  const Choice& choice_;
  Param location_;
  bool of_parts_ = false;  ///< the loops being written are those of parts
};

void build(TemplateBuilder& t, const StageGroup& g) {
  const ReductionAxes axes = reduction_axes(t, g);
  const ReductionProblem problem = reduction_problem(t, g, axes);
  const Choice choice = t.decide("reduction", problem, reduction_rule);
  Recipe(t, g, axes, problem, choice).write();
}

HEDDLE_REGISTER_META_TEMPLATE({"simple_reduction", 0, matches, build});

}  // namespace
}  // namespace heddle::meta::cpu
