// An output stage whose rows have reductions (softmax, normalisations): some lanes of a warp, a
// warp or a block compute a row, and read it from memory once.
//
// clang-format off
//   for block (blockIdx.x, or a cluster) { for row (threadIdx.y) {
//     copy of the row, in registers
//     [reductions of the row, by partial results and shuffles; what is computed from them]
//     for t (threadIdx.x) { for rounds { 16 bytes of the result } }
//   } }
// clang-format on
//
// A row too long for the registers of a block is shared by a cluster of blocks (sm_90). How rows
// are shared: rows_rule.h.
//
// Knobs: threads (per row), rows_per_block, cluster (blocks per row), resident (1: the row stays in
// registers; 0: each pass reads the row through L2), unroll (vectors in flight when not resident).
#include "cuda/direct.h"
#include "cuda/reductions/row_inputs.h"
#include "cuda/reductions/rows.h"

namespace heddle::meta {
namespace {

// Rows of too few elements for several lanes have one thread each. These are the threads of a
// block: the default and the most.
constexpr int64_t kRowThreads = 128, kMostRowThreads = 256;

class Recipe {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g)
      : t_(t),
        dag_(t.dag()),
        g_(g),
        op_(dag_.stage(g.output_stage)),
        s_(t.stage(g.output_stage)),
        rank_(static_cast<size_t>(row_rank(dag_, g))),
        copied_(inputs_read_again(dag_, g, rank_)) {}

  void write() {
    const RowGroupProblem p = problem();
    const RowSharing sharing = p.sharing();
    if (sharing.options.empty()) return row_per_thread();
    row_per_block(p, sharing);
  }

 private:
  struct Knobs {
    Param threads, rows_per_block, cluster, resident, unroll;
  };

  RowGroupProblem problem() const {
    RowGroupProblem p;
    p.last_extent = op_.axes().back().extent();
    p.row = {.extent = p.last_extent,
             .lanes = access_lanes(dag_, g_.output_stage),
             .rows = leading_points(op_, rank_),
             .by_clusters = true,
             .gpu = t_.target().gpu,
             .constants = t_.constants().gpu};
    for (int x : g_.tunable) {
      if (!dag_.stage(x).is_reduction()) continue;
      p.row.lanes = std::min(p.row.lanes, access_lanes(dag_, x));
      const int k = contiguous_reduce_axis(dag_, x);
      if (k < 0) continue;
      const int64_t reduced = dag_.stage(x).reduce_axes()[static_cast<size_t>(k)].extent();
      p.row.extent = std::min(p.row.extent, reduced);
    }
    // What is computed in between stays in registers: short rows take the vectors of memory.
    const int64_t lanes = memory_lanes();
    if (p.row.extent < lanes * kWarp) p.row.lanes = std::max(p.row.lanes, lanes);
    for (size_t d = rank_; d + 1 < op_.axes().size(); ++d)
      p.elements_of_vector *= op_.axes()[d].extent();
    p.elements_of_vector *= std::max<int64_t>(1, std::ssize(copied_)) * p.sharing().vector;
    return p;
  }

  // The elements of a 16-byte access of the widest type that the group reads and writes in memory.
  int64_t memory_lanes() const {
    const std::vector<int> members = row_members(g_);
    int64_t bytes = 1;
    for (int o = 0; o < op_.num_outputs(); ++o)
      bytes = std::max<int64_t>(bytes, op_.output(o).dtype().bytes());
    for (int m : members) {
      for (const Access& a : dag_.info(m).reads) {
        if (std::find(members.begin(), members.end(), a.producer) == members.end())
          bytes = std::max<int64_t>(bytes, a.tensor.dtype().bytes());
      }
    }
    return 16 / std::min<int64_t>(16, bytes);
  }

  // The loops for rows that are not shared.
  void row_per_thread() {
    std::vector<Loop> axes = s_.all_axes();
    Loop rows = s_.fuse(std::vector<Loop>(axes.begin(), axes.begin() + static_cast<long>(rank_)));
    const int64_t most = std::min(kMostRowThreads, most_block_threads(t_.target().gpu));
    Param threads = t_.knob("threads", powers_of_two(kWarp, most), kRowThreads, "a row a thread");
    auto [block, thread] = s_.split(rows, threads);
    s_.bind(block, LoopKind::BlockX);
    s_.bind(thread, LoopKind::ThreadX);
    std::vector<Loop> inner(axes.begin() + static_cast<long>(rank_), axes.end());
    std::vector<int64_t> extents;
    for (size_t d = rank_; d < axes.size(); ++d) extents.push_back(op_.axes()[d].extent());
    unroll_short(s_, inner, extents, kShortBody);
    t_.offer_place(s_, thread, "thread");
    t_.note("rows of few elements: a thread each");
  }

  Knobs ask(const RowGroupProblem& p, const RowSharing& sharing) {
    const Choice choice = t_.decide("cuda_row_group", p, row_group_rule);
    Knobs k;
    k.threads = t_.knob("threads", sharing.options, choice);
    k.rows_per_block = t_.knob("rows_per_block", rows_of_blocks(sharing), choice);
    k.cluster = cluster_knob(t_, sharing, k.threads, "", choice);
    require_rows_of_block(t_, sharing, k.rows_per_block, k.threads, k.cluster);
    k.resident = t_.choice("resident", choice);
    t_.require("the row fits the registers", [=](const TemplateBuilder::Value& v) {
      return v(k.resident) == 0 || p.fits(sharing, v(k.threads), v(k.cluster), v(k.rows_per_block));
    });
    t_.require("a cluster keeps its row", [=](const TemplateBuilder::Value& v) {
      return v(k.resident) == 1 || v(k.cluster) == 1;
    });
    k.unroll = t_.knob("unroll", {1, 2, 4, 8}, choice);
    return k;
  }

  void row_per_block(const RowGroupProblem& p, const RowSharing& sharing) {
    const Knobs k = ask(p, sharing);
    streaming_stores(t_, s_);
    std::vector<Loop> axes = s_.all_axes();
    Loop all = s_.fuse(std::vector<Loop>(axes.begin(), axes.begin() + static_cast<long>(rank_)));
    auto [block, row] = s_.split(all, k.rows_per_block);
    bind_rows(t_, s_, block, sharing, k.cluster);
    s_.bind(row, LoopKind::ThreadY);
    t_.offer_place(s_, row, "row",
                   {k.threads, sharing.options, sharing.vector, k.unroll, k.resident});
    std::vector<Loop> inner(axes.begin() + static_cast<long>(rank_), axes.end() - 1);
    for_each_option(t_, k.threads, sharing.options, [&](int64_t n) {
      SharedLoops l = share(s_, axes.back(), n, sharing.vector);
      t_.when(k.resident, 1, [&] {
        for (Loop i : inner) s_.unroll(i);
        s_.unroll(l.round);
      });
      t_.when(k.resident, 0, [&] { s_.unroll(s_.split(l.round, k.unroll)[1]); });
    });
    t_.when(k.resident, 1, [&] {
      for (int x : copied_) copy_row(x, row, k.threads, sharing);
    });
  }

  // Keeps a row of an input that several passes read in registers.
  void copy_row(int producer, Loop row, Param threads, const RowSharing& sharing) {
    std::vector<StageRef> readers;
    for (int m : row_members(g_)) readers.push_back(t_.stage(m));
    StageRef copy = t_.stage(producer).cache_read(readers);
    std::vector<Loop> axes = copy.all_axes();
    for (size_t d = rank_; d + 1 < axes.size(); ++d) copy.unroll(axes[d]);
    for_each_option(t_, threads, sharing.options, [&](int64_t n) {
      copy.unroll(share(copy, axes.back(), n, sharing.vector).round);
    });
    copy.compute_at(s_, row);
  }

  TemplateBuilder& t_;
  const ComputeDag& dag_;
  const StageGroup& g_;
  const Operation& op_;
  StageRef s_;
  const size_t rank_;
  const std::vector<int> copied_;  // inputs that several passes read
};

}  // namespace

void rows_with_reductions(TemplateBuilder& t, const StageGroup& g) { Recipe(t, g).write(); }

}  // namespace heddle::meta
