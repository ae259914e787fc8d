#include "cpu/products/contraction_problem.h"

#include <algorithm>

#include "cpu/cpu_features.h"
#include "cpu/vectors.h"

namespace heddle::meta::cpu {
namespace {

using Problem = ContractionProblem;

Problem::Window window_along(const Contraction& c, const Axis& axis) {
  const ContractionShape& sh = c.shape;
  Problem::Window w;
  w.extent = axis.extent();
  w.slides_along_vectors = sh.vector && uses_var(sh.vector->indices.back(), axis.var());
  if (!sh.row || sh.m < 0 || axis.extent() == 1) return w;
  const Var row = c.op.axes()[static_cast<size_t>(sh.m)].var();
  w.slides_along_rows =
      std::any_of(sh.row->indices.begin(), sh.row->indices.end(),
                  [&](const Expr& e) { return uses_var(e, row) && uses_var(e, axis.var()); });
  return w;
}

Problem::Operand operand(const Contraction& c, const Access* a, bool packable) {
  Problem::Operand out;
  if (!a) return out;
  out.exists = true;
  out.constant = c.is_constant(*a);
  out.packable = packable;
  out.element_bytes = a->tensor.dtype().bytes();
  out.bytes = bytes_of(a->tensor);
  out.batch_bytes = c.bytes_a_batch(*a);
  return out;
}

void describe_axes(const Contraction& c, Problem& p) {
  const ContractionShape& sh = c.shape;
  p.lanes = c.lanes;
  p.rows = sh.rows;
  p.cols = c.cols();
  p.cols_in_blocks = c.block_axis >= 0;
  p.depth = sh.depth;
  p.row_group = sh.group;
  p.col_group = c.block_axis < 0 ? sh.col_group : p.cols;
  p.reuse = sh.reuse;
  p.results = spatial_points(c.op);
  p.outer = c.extents(sh.batch) * c.extents(sh.v_others) * sh.cols / p.cols;
  p.has_other_rows = !sh.m_others.empty();
  p.other_rows = c.extents(sh.m_others);
  if (p.has_other_rows) p.last_other_rows = c.extents({sh.m_others.back()});
  const std::vector<int> windows = sh.vector ? sh.vector->window_axes : std::vector<int>();
  p.rows_in_planes = sh.group < sh.rows && !windows.empty() &&
                     std::find(windows.begin(), windows.end(), sh.m) == windows.end();
  const auto reduce_axis = [&](bool channels_last) {
    return c.op.reduce_axes()[static_cast<size_t>(c.innermost_reduce(channels_last))];
  };
  p.window = window_along(c, reduce_axis(false));
  if (!c.channels_in_planes) return;
  p.channels = c.grouped->extent;
  p.channel_window = window_along(c, reduce_axis(true));
}

void describe_operands(const Contraction& c, Problem& p) {
  const ContractionShape& sh = c.shape;
  p.vector = operand(c, sh.vector, sh.vector_dim >= 0);
  p.row = operand(c, sh.row, sh.row_dim >= 0);
  if (sh.vector && sh.row) {
    p.vector_contiguous = sh.vector_dim == c.contiguous_dim(*sh.vector);
    p.vector_row_bytes = c.bytes_a_row(*sh.vector);
  }
  if (const Axis* along = sh.row ? c.row_reduction() : nullptr) p.row_run = along->extent();
  if (c.grouped) p.common_reduction = c.grouped->extent;
  p.narrow = c.narrow.has_value();
  p.integers = c.narrow && c.narrow->integers();
  p.largest_dot = c.dot_sizes.back();
}

// Whether each lane of a vector of results is stored to a line of its own, of which the rows of a
// tile are a part.
bool scatters(const Contraction& c) {
  const StageGroup& g = c.group;
  const int last = static_cast<int>(c.op.axes().size()) - 1;
  const Operation& output = c.dag.stage(g.output_stage);
  return c.shape.v != last && c.shape.m == last && c.block_axis < 0 && !g.attached &&
         !c.chained() && g.images.empty() && output.num_outputs() == 1 &&
         output.output(0).dtype().bits == 32;
}

void describe_chain(const Contraction& c, Problem& p) {
  const StageGroup& g = c.group;
  p.hosts_chain = !g.chain.empty();
  p.chained = c.chained();
  p.attached = g.attached;
  p.block_has_batch = g.deepest > 0 && g.places[static_cast<size_t>(g.deepest) - 1].whole_batch;
  const int64_t all_rows = leading_points(c.op, c.op.axes().size() - 1);
  for (int s : g.chain)
    p.chain_row_bytes += c.dag.info(s).points / all_rows * c.dag.stage(s).output(0).dtype().bytes();
  p.chain_batches = all_rows / c.shape.rows;
  std::vector<int> products{g.anchor};
  for (const StageGroup::Part& part : g.products) products.push_back(part.product);
  for (const int s : products) {
    for (const Access& a : c.dag.info(s).reads) {
      if (meta::is_constant(c.dag, a)) p.chain_constant_bytes += bytes_of(a.tensor);
    }
  }
}

void describe_images(const Contraction& c, Problem& p) {
  const std::vector<int>& others = c.shape.m_others.empty() ? c.shape.v_others : c.shape.m_others;
  if (c.group.images.empty() || others.empty()) return;
  p.images.hosted = true;
  p.images.by_channels = c.shape.m_others.empty();
  p.images.rows = c.extents({others.back()});
  const int64_t batch = c.op.axes().front().extent();
  for (const StageGroup::Part& part : c.group.images) {
    p.images.row_bytes += c.dag.info(part.last).points / (batch * p.images.rows) *
                          c.dag.stage(part.last).output(0).dtype().bytes();
  }
}

}  // namespace

ContractionProblem contraction_problem(const TemplateBuilder& t, const Contraction& c) {
  Problem p;
  p.target = t.target();
  p.constants = t.constants().cpu;
  double work = stage_work(c.dag, c.group.anchor);
  for (const auto* parts : {&c.group.images, &c.group.products}) {
    for (const StageGroup::Part& part : *parts) work += stage_work(c.dag, part.product);
  }
  p.parallel = worth_parallel(t, work);
  describe_axes(c, p);
  describe_operands(c, p);
  describe_chain(c, p);
  describe_images(c, p);
  p.can_cut = c.op.bodies()[0].as<Reduce>()->combiner->commutative &&
              c.dag.stage(c.group.anchor).num_outputs() == 1 && !c.group.attached &&
              !p.images.hosted;
  p.scattered = scatters(c);
  p.longest_reduction = c.op.reduce_axes()[static_cast<size_t>(c.longest)].extent();
  return p;
}

NamedFeatures ContractionProblem::features() const {
  NamedFeatures f = cpu_features(target);
  const auto add = [&](std::string_view name, auto value) {
    f.push_back({name, static_cast<double>(value)});
  };
  add("parallel", parallel);
  add("lanes", lanes);
  add("rows", rows);
  add("cols", cols);
  add("cols_in_blocks", cols_in_blocks);
  add("depth", depth);
  add("row_group", row_group);
  add("col_group", col_group);
  add("reuse", reuse);
  add("results", results);
  add("outer", outer);
  add("has_other_rows", has_other_rows);
  add("other_rows", other_rows);
  add("last_other_rows", last_other_rows);
  add("rows_in_planes", rows_in_planes);
  add("window", window.extent);
  add("window_slides_along_rows", window.slides_along_rows);
  add("window_slides_along_vectors", window.slides_along_vectors);
  add("channel_window_slides_along_rows", channel_window.slides_along_rows);
  add("channel_window_slides_along_vectors", channel_window.slides_along_vectors);
  add("channels_in_planes", channels);
  add("has_vector_operand", vector.exists);
  add("vector_constant", vector.constant);
  add("vector_packable", vector.packable);
  add("vector_element_bytes", vector.element_bytes);
  add("vector_operand_bytes", vector.bytes);
  add("vector_batch_bytes", vector.batch_bytes);
  add("vector_contiguous", vector_contiguous);
  add("vector_row_bytes", vector_row_bytes);
  add("has_row_operand", row.exists);
  add("row_constant", row.constant);
  add("row_packable", row.packable);
  add("row_element_bytes", row.element_bytes);
  add("row_operand_bytes", row.bytes);
  add("row_batch_bytes", row.batch_bytes);
  add("row_run", row_run);
  add("narrow", narrow);
  add("integers", integers);
  add("largest_dot", largest_dot);
  add("can_cut", can_cut);
  add("longest_reduction", longest_reduction);
  add("hosts_chain", hosts_chain);
  add("chained", chained);
  add("attached", attached);
  add("block_has_batch", block_has_batch);
  add("chain_row_bytes", chain_row_bytes);
  add("chain_batches", chain_batches);
  return f;
}

}  // namespace heddle::meta::cpu
