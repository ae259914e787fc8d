#include "cuda/reductions/simple_reduction_rule.h"

#include "cuda/reductions/rows_rule.h"

namespace heddle::meta {
namespace {

using Shape = GpuReductionProblem::Shape;

// Axes shorter than this are neither shared by threads nor cut.
constexpr int64_t kLeastShared = 8;
// The most parts of a reduction that knobs offer.
constexpr int64_t kMostParts = 512;
// What the constants of wanted_parts were measured by. Rows of a strip of columns from which a second kernel pays, whatever the bytes: the threads of a
// block that share a column go through its rows one after the other. (H100, us of a sum in one
// piece and in parts: 256 x 8 2.2 and 1.9, 4096 x 2 40 and 2.5, 47722 x 5 573 and 5.3.)
// Blocks per multiprocessor that suffice. A row keeps up to 1024 threads busy. A strip of columns
// keeps fewer, as do heavy elements. (argmax of 256 rows of 65536 on an H200: 20.6 us in two parts
// each, 21.9 us whole.)
// For a reduction to one value: blocks per multiprocessor, and the least elements of a part.
constexpr int64_t kBlocksOfSm = 2, kWorthPart = 1024;

int64_t extent_of(const Operation& op, int k) {
  return op.reduce_axes()[static_cast<size_t>(k)].extent();
}

int64_t extent_of(const Operation& op, const std::vector<int>& ks) {
  int64_t n = 1;
  for (const int k : ks) n *= extent_of(op, k);
  return n;
}

// All reduce axes of several values, of which `last`, if there is one, varies fastest.
std::vector<int> taken_as_one(const Operation& op, int last) {
  std::vector<int> all;
  for (int i = 0; i < std::ssize(op.reduce_axes()); ++i) {
    if (i != last && extent_of(op, i) > 1) all.push_back(i);
  }
  if (last >= 0) all.push_back(last);
  if (all.empty()) all.push_back(0);
  return all;
}

// The neighbouring elements among which vectors lie: all of a row that is one run in memory, and else
// those of its last axis `k`.
int64_t run_of(const ComputeDag& dag, int s, int k) {
  const std::vector<int> run = contiguous_reduce_axes(dag, s);
  const Operation& op = dag.stage(s);
  const bool whole = extent_of(op, run) == extent_of(op, taken_as_one(op, k));
  return whole ? extent_of(op, run) : extent_of(op, k);
}

// The longest reduce axis; among equals the first.
int longest_axis(const Operation& op) {
  int longest = 0;
  for (int i = 0; i < std::ssize(op.reduce_axes()); ++i) {
    if (extent_of(op, i) > extent_of(op, longest)) longest = i;
  }
  return longest;
}

// Whether a warp reads whole runs of `a` along `last`: the index is that axis, or its remainder by whole
// warps, as where heads lie apart (x[b, c / 64, i, c % 64]).
bool runs_along(const Access& a, const Axis& last, const std::vector<Axis>& axes) {
  if (contiguous_axis(a, axes) == &last) return true;
  const Binary* index = a.indices.empty() ? nullptr : a.indices.back().as<Binary>();
  const int64_t* run = index && index->op == BinaryOp::FloorMod ? as_int(index->b) : nullptr;
  return run && *run % kWarp == 0 && index->a.get() == last.var().get();
}

// Whether the largest operand is contiguous along the last axis of the result.
bool along_last_axis(const ComputeDag& dag, int s) {
  const Operation& op = dag.stage(s);
  const Access* largest = nullptr;
  for (const Access& a : dag.info(s).reads) {
    if (!largest || bytes_of(a.tensor) > bytes_of(largest->tensor)) largest = &a;
  }
  return largest && !op.axes().empty() && runs_along(*largest, op.axes().back(), op.axes());
}

void find_shape(const ComputeDag& dag, int s, GpuReductionProblem* p) {
  const Operation& op = dag.stage(s);
  p->axes = p->cut_axes = {longest_axis(op)};
  if (!p->commutative) return;
  const int k = contiguous_reduce_axis(dag, s, axis_of_run);
  RowProblem row;
  row.lanes = p->lanes;
  const std::vector<int> all = taken_as_one(op, k);
  if (k >= 0) row.extent = op.axes().empty() ? extent_of(op, k) : extent_of(op, all);
  // The vectors of a short row, or of an index beside each element, are those that are read.
  const int64_t lanes = read_lanes(dag, s);
  if (p->heavy || p->product || row.extent < lanes * kWarp) row.lanes = lanes;
  // Vectors stay within a run of neighbouring elements.
  if (k >= 0 && op.reduce_axes().size() > 1) row.lanes = whole_vector(run_of(dag, s, k), row.lanes);
  if (k >= 0 && !share_rows(row).options.empty()) {
    p->shape = Shape::Rows;
    p->lanes = row.lanes;
    if (!op.axes().empty()) {
      p->axes = p->cut_axes = all;
      return;
    }
    p->axes = p->cut_axes = {k};
    // Of one value, an axis other than the contiguous one is cut, if there is one, so that rows stay
    // whole.
    for (int i = 0; i < std::ssize(op.reduce_axes()); ++i) {
      if (i != k && extent_of(op, i) >= kLeastShared) p->cut_axes = {i};
    }
  } else if (k < 0 && along_last_axis(dag, s) && extent_of(op, all) >= kLeastShared) {
    p->shape = Shape::Columns;
    p->axes = p->cut_axes = all;
  }
}

// The number of parts that keeps the machine busy; 1 where no cut is needed.
int64_t wanted_parts(const GpuReductionProblem& p) {
  const GpuConstants& by = p.constants;
  const bool columns = p.shape == Shape::Columns;
  int64_t blocks = p.results;
  if (columns) blocks = p.results / p.columns * ceil_div(p.columns, kWarp * p.lanes);
  const int64_t enough = (columns || p.heavy ? by.enough_strips : by.enough_rows) * p.gpu.sms;
  if (blocks >= enough) return 1;
  if (p.bytes < by.worth_bytes && !(columns && p.cut_extent >= by.long_column)) return 1;
  const int64_t most = columns        ? p.cut_extent / by.worth_rows
                       : p.cuts_row() ? p.cut_extent / by.worth_elements
                                      : p.cut_extent;
  const int64_t all = by.parts_an_sm * p.gpu.sms;
  return std::max<int64_t>(1, std::min(most, p.heavy ? all / blocks : ceil_div(all, blocks)));
}

}  // namespace

NamedFeatures GpuReductionProblem::features() const {
  const auto number = [](auto x) { return static_cast<double>(x); };
  return {{"by_rows", number(shape == Shape::Rows)},
          {"by_columns", number(shape == Shape::Columns)},
          {"extent", number(extent)},
          {"cut_extent", number(cut_extent)},
          {"cuts_row", number(cuts_row())},
          {"columns", number(columns)},
          {"lanes", number(lanes)},
          {"results", number(results)},
          {"bytes", bytes},
          {"heavy", number(heavy)},
          {"sms", number(gpu.sms)},
          {"block_threads", number(most_block_threads(gpu))}};
}

GpuReductionProblem reduction_problem(const ComputeDag& dag, int stage, const Gpu& gpu,
                                      const GpuConstants& constants) {
  const Operation& op = dag.stage(stage);
  const auto& combiner = op.bodies()[0].as<Reduce>()->combiner;
  GpuReductionProblem p;
  p.commutative = combiner->commutative;
  p.heavy = combiner->size() > 1;
  p.results = spatial_points(op);
  p.lanes = access_lanes(dag, stage);
  p.product = dag.info(stage).stage_class == StageClass::ComplexReduction &&
              read_lanes(dag, stage) > p.lanes;
  p.bytes = stage_bytes(dag, stage);
  p.value_bytes = 0;
  for (int o = 0; o < op.num_outputs(); ++o) p.value_bytes += op.output(o).dtype().bytes();
  if (!op.axes().empty()) p.columns = op.axes().back().extent();
  p.gpu = gpu;
  p.constants = constants;
  find_shape(dag, stage, &p);
  p.extent = extent_of(op, p.axes);
  p.cut_extent = extent_of(op, p.cut_axes);
  return p;
}

std::vector<int64_t> part_lengths(const GpuReductionProblem& p) {
  if (!p.commutative || p.shape == Shape::Points) return {};
  const bool cuts_rows = p.shape == Shape::Rows && p.cuts_row();
  const int64_t warp = kWarp * p.lanes;  // elements of one access of a warp
  const int64_t least = p.shape == Shape::Columns ? kLeastShared : p.cuts_row() ? warp : 1;
  std::vector<int64_t> out;
  for (int64_t parts = kMostParts; parts >= 2; parts /= 2) {
    int64_t length = ceil_div(p.cut_extent, parts);
    if (cuts_rows) length = ceil_div(length, warp) * warp;
    if (length >= least && length < p.cut_extent &&
        std::find(out.begin(), out.end(), length) == out.end())
      out.push_back(length);
  }
  std::sort(out.begin(), out.end());
  // If there are that many parts, their number is a multiple of a warp, because warps combine them.
  if (p.shape == Shape::Rows && wanted_parts(p) >= kWarp)
    std::erase_if(out, [&](int64_t l) { return ceil_div(p.cut_extent, l) < kWarp; });
  return out;
}

Choice split_reduction_rule(const GpuReductionProblem& p) {
  Choice c;
  const std::vector<int64_t> lengths = part_lengths(p);
  if (lengths.empty()) return c;
  const int64_t wanted = wanted_parts(p);
  c.set("split_reduction", wanted > 1,
        wanted > 1 ? "too few blocks for the multiprocessors"
                   : "enough blocks for the multiprocessors");
  int64_t chosen = lengths.front();
  for (int64_t l : lengths) {
    if (ceil_div(p.cut_extent, l) >= wanted) chosen = l;
  }
  c.set("part_length", chosen, "a few blocks of parts to a multiprocessor");
  return c;
}

std::vector<int64_t> one_value_lengths(const GpuReductionProblem& p) {
  std::vector<int64_t> out;
  for (int64_t parts = kWarp; parts <= most_block_threads(p.gpu); parts *= 2) {
    const int64_t length = ceil_div(p.cut_extent, parts);
    if (ceil_div(p.cut_extent, length) == parts) out.push_back(length);
  }
  return out;
}

bool one_value_by_rows(const GpuReductionProblem& p) {
  const int64_t row = p.cuts_row() ? one_value_lengths(p).front() : p.extent;
  return p.shape == Shape::Rows && row >= kWarp;
}

Choice one_value_rule(const GpuReductionProblem& p) {
  Choice c;
  const std::vector<int64_t> lengths = one_value_lengths(p);
  if (lengths.empty()) return c;
  // There are a few blocks per multiprocessor with some work each, and the last block has a thread
  // for each part.
  const int64_t vectors =
      p.cuts_row() ? most_block_threads(p.gpu) : p.extent / std::max<int64_t>(1, p.lanes);
  const int64_t most = std::min<int64_t>(kBlocksOfSm * p.gpu.sms, std::max(kWarp, vectors));
  int64_t chosen = lengths.front();
  for (int64_t length : lengths) {
    const bool worth = !p.cuts_row() || length >= kWorthPart;
    if (worth && ceil_div(p.cut_extent, length) <= most) chosen = length;
  }
  c.set("part_length", chosen, "a few blocks of parts to a multiprocessor");
  return c;
}

NamedFeatures OneLaunchProblem::features() const {
  return {{"parts", static_cast<double>(parts)}, {"threads", static_cast<double>(threads)}};
}

Choice one_launch_rule(const OneLaunchProblem& p) {
  const bool enough = p.parts <= p.threads;
  return Choice().set(
      "one_launch", enough,
      enough ? "the last block has a thread for each part" : "more parts than threads in a block");
}

}  // namespace heddle::meta
