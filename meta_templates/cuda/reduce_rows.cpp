#include "cuda/reductions.h"

namespace heddle::meta {

RowsKnobs reduce_rows(TemplateBuilder& t, StageRef host, StageRef reduction, int k, int64_t extent,
                      int64_t lanes, int64_t rows, const std::string& prefix,
                      const RowsOptions& options) {
  const RowSharing sharing =
      share_rows(extent, lanes, rows, t.target().gpu, options.by_clusters, options.heavy);
  const auto& offered = sharing.options;
  const bool given = std::find(offered.begin(), offered.end(), options.threads) != offered.end();
  const int64_t chosen = given ? options.threads : sharing.chosen;
  Param threads = t.knob(prefix + "threads", sharing.options, chosen,
                         given             ? "as many as there are parts to combine"
                         : chosen == kWarp ? "a short row: a warp has it in few vectors"
                         : options.heavy   ? "two vectors a thread, 512 threads at most"
                                           : "four vectors a thread, all under way");
  Param at_once =
      t.knob(prefix + "rows_per_block", {1, 2, 4, 8, 16}, !given && chosen == kWarp ? 4 : 1,
             "warps that need no barrier share a block");
  Param cluster = cluster_knob(t, sharing, threads, 1, prefix, "rows enough for a block each");
  t.require("several rows a block are a warp each, all within a block's threads",
            [=, most = sharing.most](const TemplateBuilder::Value& v) {
              return (v(at_once) == 1 || (v(threads) == kWarp && v(cluster) == 1)) &&
                     v(at_once) * v(threads) <= most * v(cluster);
            });
  Param unroll = t.knob(prefix + "unroll", {1, 2, 4, 8},
                        given ? 8 : std::min<int64_t>(8, sharing.rounds(chosen)),
                        "vectors a thread has under way");
  if (const Param length = options.length; !length.is_const()) {
    const int64_t vector = sharing.vector;
    t.require("every thread has a vector of the row",
              [=](const TemplateBuilder::Value& v) { return v(threads) * vector <= v(length); });
  }
  StageRef sum = reduction.id() == host.id() ? host.cache_write() : reduction;
  Loop all = host.fuse(host.all_axes());
  auto [block, row] = host.split(all, at_once);
  bind_rows(t, host, block, sharing, cluster);
  host.bind(row, LoopKind::ThreadY);
  sum.compute_at(host, row);
  for_each_option(t, threads, sharing.options,
                  [&](int64_t n) { reduce_row(t, sum, k, n, sharing.vector, unroll, host, row); });
  return {threads, at_once};
}

}  // namespace heddle::meta
