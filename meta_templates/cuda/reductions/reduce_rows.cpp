// clang-format off
//   for block (blockIdx.x, or a cluster) { for row (threadIdx.y) {
//     for t (threadIdx.x) { for round { for lane { part[t][lane] += row[..] } } }     registers
//     sum = the lanes of all threads                                                 shuffles
//     host[row] = sum
//   } }
// clang-format on
#include "cuda/reductions/reductions.h"

namespace heddle::meta {

RowsKnobs reduce_rows(TemplateBuilder& t, StageRef host, StageRef reduction,
                      const std::vector<int>& ks, const RowProblem& problem,
                      const std::string& prefix, const RowsOptions& options) {
  const RowSharing sharing = share_rows(problem);
  const auto rule = [&](const RowProblem& p) { return reduce_rows_rule(p, options.threads); };
  const Choice choice =
      with_prefix(problem.product ? t.decide("cuda_product_rows", problem, product_rows_rule)
                                  : t.decide("cuda_reduce_rows", problem, rule),
                  prefix);
  Param threads = t.knob(prefix + "threads", sharing.options, choice);
  Param rows_per_block = t.knob(prefix + "rows_per_block", rows_of_blocks(sharing), choice);
  Param cluster = cluster_knob(t, sharing, threads, prefix, choice);
  require_rows_of_block(t, sharing, rows_per_block, threads, cluster);
  Param unroll = t.knob(prefix + "unroll", {1, 2, 4, 8}, choice);
  if (const Param length = options.length; !length.is_const()) {
    const int64_t vector = sharing.vector;
    t.require("every thread has a vector of the row",
              [=](const TemplateBuilder::Value& v) { return v(threads) * vector <= v(length); });
  }

  Param own = 1;
  if (problem.unpacked) own = t.knob(prefix + "rows_of_thread", rows_of_threads(problem), choice);

  StageRef sum = reduction.id() == host.id() ? host.cache_write() : reduction;
  std::vector<Loop> axes = host.all_axes();
  if (problem.unpacked) {
    auto [several, one] = host.split(axes.back(), own);
    axes.back() = several;
    host.unroll(one);
  }
  Loop all = host.fuse(axes);
  auto [block, row] = host.split(all, rows_per_block);
  bind_rows(t, host, block, sharing, cluster);
  host.bind(row, LoopKind::ThreadY);
  sum.compute_at(host, row);
  for_each_option(t, threads, sharing.options, [&](int64_t n) {
    reduce_row(t, sum, ks, n, sharing.vector, unroll, host, row, problem.unpacked);
  });
  return {threads, rows_per_block};
}

}  // namespace heddle::meta
