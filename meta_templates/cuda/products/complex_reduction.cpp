// Complex reductions on a GPU without tensor cores: contractions whose operands are reused (matmul,
// convolution). There are three parts:
//
//   complex_reduction_rule.h       which tile, how deep, in how many parts
//   complex_reduction_recipe.cpp   the loops, with a picture
//   here                           the knobs and what they must fulfil
#include "cuda/products/complex_reduction_recipe.h"
#include "cuda/products/tensor_core_shape.h"

namespace heddle::meta {
namespace {

// Limits of a thread: its accumulators, and the registers besides them.
constexpr int64_t kMostAccumulators = 160, kOtherRegisters = 40;

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  if (!target.is_cuda() || g.attached || g.anchor_class != StageClass::ComplexReduction ||
      feeds_tensor_cores(dag, g, target))
    return false;
  const Operation& op = dag.stage(g.anchor);
  return !op.axes().empty() && op.bodies()[0].as<Reduce>()->combiner->size() == 1;
}

void require_legal(TemplateBuilder& t, const SimtProblem& p, const SimtKnobs& k) {
  const Gpu gpu = p.gpu;
  t.require("a block has whole warps, and no more threads than it may", [=](const auto& v) {
    const int64_t n = v(k.row_threads) * v(k.col_threads);
    return n >= kWarp && n <= gpu.threads_per_block && n % kWarp == 0;
  });
  t.require("the accumulators must fit the registers", [=](const auto& v) {
    const int64_t accumulators = v(k.group_rows) * v(k.row_groups) * kColumnLanes * v(k.col_groups);
    return accumulators <= kMostAccumulators &&
           (accumulators + kOtherRegisters) * v(k.row_threads) * v(k.col_threads) <=
               gpu.registers_per_sm;
  });
  t.require("the tiles must fit shared memory", [=](const auto& v) {
    return simt_tiles_fit(p, v(k.group_rows) * v(k.row_groups) * v(k.row_threads),
                          kColumnLanes * v(k.col_groups) * v(k.col_threads), v(k.tile_k),
                          v(k.stages));
  });
}

// The knobs, in the order that records know.
SimtKnobs ask(TemplateBuilder& t, const SimtProblem& p) {
  const Choice choice = t.decide("cuda_complex_reduction", p, simt_rule);
  SimtKnobs k;
  k.group_rows = t.knob("group_rows", {1, 2, 4}, choice);
  k.row_groups = t.knob("row_groups", {1, 2, 4}, choice);
  k.row_threads = t.knob("row_threads", {1, 2, 4, 8, 16, 32}, choice);
  k.col_threads = t.knob("col_threads", {4, 8, 16, 32, 64}, choice);
  k.col_groups = t.knob("col_groups", {1, 2, 4}, choice);
  k.tile_k = t.knob("tile_k", simt_steps(p), choice);
  k.stages = t.knob("stages", {1, 2, 3, 4}, choice);
  std::vector<int64_t> ways{0};
  if (may_split_depth(p)) ways.push_back(1);
  k.reduction = t.kind("reduction", choice, ways);
  t.alias(k.reduction, "mode");
  if (may_split_depth(p)) k.k_part = t.knob("k_part", part_lengths(p), choice);
  return k;
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const SimtShape shape(t.dag(), g, t.target().gpu, t.constants().gpu);
  const SimtProblem problem = shape.problem(t.target().gpu, t.constants().gpu);
  const SimtKnobs knobs = ask(t, problem);
  require_legal(t, problem, knobs);
  t.when(knobs.reduction, "whole", [&] { simt_whole(t, g, shape, knobs); });
  if (may_split_depth(problem))
    t.when(knobs.reduction, "split_k", [&] { simt_parts(t, g, shape, knobs); });
}

HEDDLE_REGISTER_META_TEMPLATE({"cuda_complex_reduction", 0, matches, build});

}  // namespace
}  // namespace heddle::meta
