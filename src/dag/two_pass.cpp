// Cuts long reductions of few rows into parts, in two passes over the data (Harris 2007,
// "Optimizing parallel reduction in CUDA"; cuDNN's and CUB's two-kernel reductions).
//
//   result[i] = reduce over k < K of f(i, k)                                        (before)
//
//   P[i, q]   = reduce over k < L of f(i, q * L + k)            L = K / parts, rounded down
//   S[i]      = reduce over q < parts of P[i, q]                                    (after)
//   T[i]      = reduce over k < K - parts * L of f(i, parts * L + k)    where parts are uneven
//   result[i] = S[i] combined with T[i]
//
// The templates cut single reductions too (split_reduction on CPUs, blocks of rows on GPUs). As a
// graph the first pass is a stage of its own, with the schedule of a reduction of many rows.
#include <algorithm>

#include "dag/rewrite_parts.h"
#include "heddle/dag/alternatives.h"

namespace heddle {
namespace {

constexpr int64_t kShortReduction = 4096;  // terms; shorter reductions do not gain
constexpr int64_t kShortestPart = 16, kUsefulPart = 256;
constexpr int64_t kManyRows = 4096;  // rows; more are enough tasks for any machine

int64_t depth_of(const Operation& op) {
  return op.reduce_axes()[dag::longest_reduction(op)].extent();
}

std::string why_not_at_all(const RewriteSite& site) {
  const Operation& op = site.op();
  const StageInfo& info = site.dag.info(site.stage);
  if (!op.is_reduction() || op.num_outputs() != 1 || info.scan ||
      info.stage_class != StageClass::SimpleReduction)
    return "not a reduction of rows";
  const auto* reduce = op.bodies()[0].as<Reduce>();
  if (!reduce || reduce->combiner->kind == ReduceKind::Custom) return "not a built-in reduction";
  if (depth_of(op) < 2 * kShortestPart)
    return "not a long reduction: " + std::to_string(depth_of(op)) + " elements";
  if (info.points > kManyRows)
    return "its " + std::to_string(info.points) + " rows are enough to share out";
  return "";
}

std::string why_not(const RewriteSite& site) {
  if (std::string why = why_not_at_all(site); !why.empty()) return why;
  const int64_t parts = site.values[0];
  if (parts < 2) return std::to_string(parts) + " parts divide nothing";
  if (depth_of(site.op()) / parts < kShortestPart)
    return "its parts would have fewer than " + std::to_string(kShortestPart) + " elements";
  return "";
}

std::vector<std::vector<int64_t>> suited(const RewriteSite& site, const Target& target) {
  if (!why_not_at_all(site).empty()) return {{2}};
  const int64_t workers = target.is_cuda() ? target.gpu.sms : std::max(1, target.cores);
  const int64_t rows = std::max<int64_t>(1, site.dag.info(site.stage).points);
  const int64_t most = std::max<int64_t>(2, depth_of(site.op()) / kUsefulPart);
  std::vector<std::vector<int64_t>> out;
  for (const int64_t waves : {1, 4})
    out.push_back({std::clamp<int64_t>(dag::ceil_div(waves * workers, rows), 2, most)});
  return out;
}

RewriteEstimate estimate(const RewriteSite& site, const Target&) {
  if (const int64_t k = depth_of(site.op()); k < kShortReduction)
    return {.why_not = "parts of " + std::to_string(k) + " elements are too short"};
  return {1, "for the tuner to try: the same elements, more to share out"};
}

HEDDLE_REGISTER_REWRITE_RULE({.name = "two_pass",
                              .parameters = {{"parts"}},
                              .why_not = why_not,
                              .apply = [](const RewriteSite& site) -> std::vector<Tensor> {
                                return {
                                    dag::reduce_in_parts(site.op(), site.values[0], "two_pass")};
                              },
                              .error_growth = [](const RewriteSite&) { return 1.0; },
                              .estimate = estimate,
                              .suited = suited});

}  // namespace
}  // namespace heddle
