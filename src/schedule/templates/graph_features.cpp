#include "schedule/templates/graph_features.h"

#include <algorithm>

#include "dag/patterns/convolution.h"
#include "dag/rewrites/rewrite_parts.h"

namespace heddle {
namespace {

double extent_of(const Axis& a) { return static_cast<double>(a.extent()); }

/// The sides of a contraction: the axes of one operand only, and those of both.
struct Sides {
  bool is_contraction = false;
  double rows = 1, cols = 1, batch = 1;
  bool constant = false;  ///< an operand is constant, or computed from constants
};

Sides sides_of(const ComputeDag& dag, int stage) {
  Sides out;
  const Access* operands[2];
  out.is_contraction = dag::match_contraction(dag, stage, operands).empty();
  const Operation& op = dag.stage(stage);
  if (!out.is_contraction) {
    for (const Axis& a : op.axes()) out.rows *= extent_of(a);
    return out;
  }
  const int vector = !op.axes().empty() && operands[0]->depends_on(op.axes().back()) ? 0 : 1;
  for (const Axis& a : op.axes()) {
    const bool in_cols = operands[vector]->depends_on(a),
               in_rows = operands[1 - vector]->depends_on(a);
    (in_cols && in_rows ? out.batch : in_cols ? out.cols : out.rows) *= extent_of(a);
  }
  for (const Access* a : operands) out.constant |= dag::is_constant_operand(dag, *a);
  return out;
}

/// The window of a convolution. A product has one tap.
struct Window {
  double taps = 1, stride = 1, channels = 1, filters = 1;
  bool is_convolution = false;
};

Window window_of(const ComputeDag& dag, int stage) {
  dag::Convolution conv;
  if (!dag::match_convolution(dag, stage, &conv).empty()) return {};
  return {.taps = extent_of(conv.r) * extent_of(conv.s),
          .stride = static_cast<double>(std::max(conv.stride_y, conv.stride_x)),
          .channels = static_cast<double>(conv.channels()),
          .filters = extent_of(dag.stage(stage).axes()[static_cast<std::size_t>(conv.k)]),
          .is_convolution = true};
}

/// Whether a read of many elements goes along a reduce axis.
bool along_row(const ComputeDag& dag, int stage) {
  const Operation& op = dag.stage(stage);
  const auto is_along = [&](const Access& read) {
    const auto last = read.affine.empty() ? std::nullopt : read.affine.back();
    return last && std::any_of(op.reduce_axes().begin(), op.reduce_axes().end(),
                               [&](const Axis& r) { return last->coefficient(r.var()) != 0; });
  };
  const std::vector<Access>& reads = dag.info(stage).reads;
  return std::any_of(reads.begin(), reads.end(), is_along);
}

}  // namespace

NamedFeatures graph_features(const ComputeDag& dag, const Target& target, int stage) {
  const Operation& op = dag.stage(stage);
  const StageInfo& info = dag.info(stage);
  const Sides sides = sides_of(dag, stage);
  const Window window = window_of(dag, stage);
  double depth = 1, longest = 1, bytes_read = 0, narrowest = op.output(0).dtype().bytes();
  for (const Axis& r : op.reduce_axes()) {
    depth *= extent_of(r);
    longest = std::max(longest, extent_of(r));
  }
  for (const Access& read : info.reads) {
    const double bytes = read.tensor.dtype().bytes();
    bytes_read += bytes * static_cast<double>(read.tensor.size());
    narrowest = std::min(narrowest, bytes);
  }
  const auto number = [](auto x) { return static_cast<double>(x); };
  return {{"cores", number(target.is_cuda() ? target.gpu.sms : target.cores)},
          {"vector_bytes", number(target.vector_bytes)},
          {"l1d_bytes", number(target.l1d_bytes)},
          {"l2_bytes", number(target.l2_bytes)},
          {"l3_bytes", number(target.l3_bytes)},
          {"is_contraction", number(sides.is_contraction)},
          {"is_convolution", number(window.is_convolution)},
          {"is_float", number(op.output(0).dtype().is_float())},
          {"along_row", number(along_row(dag, stage))},
          {"constant_operand", number(sides.constant)},
          {"is_output", number(info.is_output)},
          {"result_bytes", number(op.output(0).dtype().bytes())},
          {"operand_bytes", narrowest},
          {"results", number(info.points)},
          {"depth", depth},
          {"longest_reduction", longest},
          {"rows", sides.rows},
          {"cols", sides.cols},
          {"batch", sides.batch},
          {"bytes_read", bytes_read},
          {"flops", info.flops},
          {"share_of_flops", info.flops / std::max(1.0, dag.total_flops())},
          {"taps", window.taps},
          {"stride", window.stride},
          {"channels", window.channels},
          {"filters", window.filters}};
}

}  // namespace heddle
