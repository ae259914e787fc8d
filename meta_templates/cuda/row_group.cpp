// An output stage whose rows have reductions (softmax, normalisations): a warp or a block computes
// a row, and reads it from memory once.
//
//   for block { for row (threadIdx.y) {
//     copy of the row, in registers
//     [reductions of the row, by partial results and shuffles; what is computed from them]
//     for t (threadIdx.x) { for rounds { 16 bytes of the result } }
//   } }
//
// A row too long for the registers of a block is shared by a cluster of blocks (sm_90).
//
// Knobs: threads (a row), rows_per_block, cluster (blocks a row), resident (0: each pass reads the
// row from memory, where the second cache has it), unroll (vectors under way, then).
#include "cuda/direct.h"
#include "cuda/rows.h"

namespace heddle::meta {
namespace {

// Registers that addresses, accumulators and the like take beside the elements of a row.
constexpr int64_t kOtherRegisters = 24;
// Of a row that several blocks share: threads of one, at least, and elements of it in a thread.
constexpr int64_t kClusterThreads = 256, kClusterElements = 32;

class RowGroup {
 public:
  RowGroup(TemplateBuilder& t, const StageGroup& g)
      : t_(t),
        dag_(t.dag()),
        g_(g),
        op_(dag_.stage(g.output_stage)),
        s_(t.stage(g.output_stage)),
        rank_(static_cast<size_t>(row_rank(dag_, g))) {
    members_ = g.tunable;
    members_.insert(members_.end(), g.inlined.begin(), g.inlined.end());
    members_.push_back(g.output_stage);
  }

  void build() {
    const int64_t rows = leading_points(op_, rank_);
    int64_t lanes = access_lanes(dag_, g_.output_stage), shortest = op_.axes().back().extent();
    for (int x : g_.tunable) {
      if (!dag_.stage(x).is_reduction()) continue;
      lanes = std::min(lanes, access_lanes(dag_, x));
      const int k = contiguous_reduce_axis(dag_, x);
      if (k >= 0)
        shortest = std::min(shortest, dag_.stage(x).reduce_axes()[static_cast<size_t>(k)].extent());
    }
    RowSharing sharing = share_rows(shortest, lanes, rows, t_.target().gpu, true);
    sharing.extent = op_.axes().back().extent();
    if (sharing.options.empty()) return row_per_thread();
    row_per_block(sharing);
  }

 private:
  // Rows shorter than a warp is wide.
  void row_per_thread() {
    std::vector<Loop> axes = s_.all_axes();
    Loop rows = s_.fuse(std::vector<Loop>(axes.begin(), axes.begin() + static_cast<long>(rank_)));
    const int64_t most = std::min<int64_t>(256, most_block_threads(t_.target().gpu));
    Param threads = t_.knob("threads", powers_of_two(32, most), 128, "a row a thread");
    auto [block, thread] = s_.split(rows, threads);
    s_.bind(block, LoopKind::BlockX);
    s_.bind(thread, LoopKind::ThreadX);
    std::vector<Loop> inner(axes.begin() + static_cast<long>(rank_), axes.end());
    std::vector<int64_t> extents;
    for (size_t d = rank_; d < axes.size(); ++d) extents.push_back(op_.axes()[d].extent());
    unroll_short(s_, inner, extents, 64);
    t_.offer_place(s_, thread, "thread");
    t_.note("rows of few elements: a thread each");
  }

  void row_per_block(const RowSharing& sharing) {
    std::vector<Loop> axes = s_.all_axes();
    const Gpu& gpu = t_.target().gpu;
    const int64_t most = gpu.registers_per_thread, of_sm = gpu.registers_per_sm;
    const std::vector<int> once = read_again();
    int64_t elements = 1;  // of a row for each vector of its last axis
    for (size_t d = rank_; d + 1 < axes.size(); ++d) elements *= op_.axes()[d].extent();
    elements *= std::max<int64_t>(1, static_cast<int64_t>(once.size())) * sharing.vector;
    // `n` threads of a row, of which a block has one in `c`, and `r` rows.
    auto fits = [=](int64_t n, int64_t c, int64_t r) {
      const int64_t room = std::min(most, of_sm / (n / c * r)) - kOtherRegisters;
      return sharing.rounds(n) * elements <= room;
    };
    int64_t want = sharing.chosen, blocks = 1;
    const int64_t rows = want == kWarp ? 4 : 1;
    if (!fits(want, 1, rows)) spread(sharing, elements, &want, &blocks);
    const bool stays = fits(want, blocks, rows);
    Param threads = t_.knob("threads", sharing.options, want,
                            want == kWarp ? "a short row: a warp has it in few vectors"
                            : blocks > 1  ? "a long row: a few vectors a thread, in registers"
                                          : "four vectors a thread, all under way");
    Param at_once = t_.knob("rows_per_block", {1, 2, 4, 8, 16}, rows,
                            "warps that need no barrier share a block");
    Param cluster = cluster_knob(t_, sharing, threads, blocks, "",
                                 blocks > 1 ? "more than the registers of a block hold"
                                            : "a block has registers enough for a row");
    t_.require("several rows a block are a warp each, all within a block's threads",
               [=, limit = sharing.most](const TemplateBuilder::Value& v) {
                 return (v(at_once) == 1 || (v(threads) == kWarp && v(cluster) == 1)) &&
                        v(at_once) * v(threads) <= limit * v(cluster);
               });
    Param resident = t_.choice("resident", stays,
                               stays ? "the row fits the registers of its threads"
                                     : "the row is too long for registers: passes over it");
    t_.require("the row fits the registers", [=](const TemplateBuilder::Value& v) {
      return v(resident) == 0 || fits(v(threads), v(cluster), v(at_once));
    });
    t_.require("a cluster keeps its row", [=](const TemplateBuilder::Value& v) {
      return v(resident) == 1 || v(cluster) == 1;
    });
    // What a block has read must still be in the cache when it comes back to it: one long row to a
    // multiprocessor, which many vectors keep busy (their registers leave no room for a second).
    Param unroll = t_.knob("unroll", {1, 2, 4, 8}, want >= sharing.most ? 8 : 4,
                           "vectors under way in a pass over the row");
    streaming_stores(t_, s_);

    Loop all = s_.fuse(std::vector<Loop>(axes.begin(), axes.begin() + static_cast<long>(rank_)));
    auto [block, row] = s_.split(all, at_once);
    bind_rows(t_, s_, block, sharing, cluster);
    s_.bind(row, LoopKind::ThreadY);
    t_.offer_place(s_, row, "row", {threads, sharing.options, sharing.vector, unroll, resident});
    std::vector<Loop> inner(axes.begin() + static_cast<long>(rank_), axes.end() - 1);
    for_each_option(t_, threads, sharing.options, [&](int64_t n) {
      SharedLoops l = share(s_, axes.back(), n, sharing.vector);
      t_.when(resident, 1, [&] {
        for (Loop i : inner) s_.unroll(i);
        s_.unroll(l.round);
      });
      t_.when(resident, 0, [&] { s_.unroll(s_.split(l.round, unroll)[1]); });
    });
    t_.when(resident, 1, [&] {
      for (int p : once) copy_row(p, row, threads, sharing);
    });
  }

  // The fewest threads that keep a row in registers with few elements in each, over as many blocks
  // as there can be: small ones, so that others of a multiprocessor load while one computes.
  static void spread(const RowSharing& sharing, int64_t elements, int64_t* threads,
                     int64_t* blocks) {
    for (int64_t n : sharing.options) {
      if (sharing.rounds(n) * elements > kClusterElements) continue;
      for (int64_t c : sharing.clusters) {
        if (c > 1 && n % (c * kWarp) == 0 && n / c >= kClusterThreads && n / c <= sharing.most) {
          *threads = n;
          *blocks = c;
        }
      }
      if (*blocks > 1) return;
    }
  }

  void copy_row(int producer, Loop row, Param threads, const RowSharing& sharing) {
    std::vector<StageRef> readers;
    for (int m : members_) readers.push_back(t_.stage(m));
    StageRef copy = t_.stage(producer).cache_read(readers);
    std::vector<Loop> axes = copy.all_axes();
    for (size_t d = rank_; d + 1 < axes.size(); ++d) copy.unroll(axes[d]);
    for_each_option(t_, threads, sharing.options, [&](int64_t n) {
      copy.unroll(share(copy, axes.back(), n, sharing.vector).round);
    });
    copy.compute_at(s_, row);
  }

  // ---- which inputs are read by several passes, at the reader's own place in the row ----
  std::vector<int> read_again() const {
    std::vector<int> out;
    for (int p = 0; p < dag_.size(); ++p) {
      if (member(p)) continue;
      if (own_place(p) && times_read(p) >= 2) out.push_back(p);
    }
    return out;
  }

  bool member(int s) const {
    return std::find(members_.begin(), members_.end(), s) != members_.end();
  }
  bool inlined(int s) const {
    return std::find(g_.inlined.begin(), g_.inlined.end(), s) != g_.inlined.end();
  }

  int times_read(int p) const {
    int n = 0;
    for (int m : members_) {
      for (const Access& a : dag_.info(m).reads) {
        if (a.producer == p) n += inlined(m) ? times_read(m) : 1;
      }
    }
    return n;
  }

  // Whether all members that read `p` do so element by element, rows to rows.
  bool own_place(int p) const {
    const auto& output_stage = op_.axes();
    if (dag_.stage(p).num_outputs() != 1) return false;
    const std::vector<int64_t> shape = dag_.stage(p).output(0).extents();
    if (shape.size() != output_stage.size()) return false;
    for (size_t d = 0; d < output_stage.size(); ++d) {
      if (shape[d] != output_stage[d].extent()) return false;
    }
    for (int m : members_) {
      for (const Access& a : dag_.info(m).reads) {
        if (a.producer != p) continue;
        if (!at_own_place(a, m)) return false;
        if (inlined(m) && !own_place(m)) return false;
      }
    }
    return true;
  }

  bool at_own_place(const Access& a, int reader) const {
    const auto &axes = dag_.stage(reader).axes(), &over = dag_.stage(reader).reduce_axes();
    size_t next = 0;  // reduce axes come in order
    for (size_t d = 0; d < a.indices.size(); ++d) {
      if (over.empty() || d < rank_) {
        if (d >= axes.size() || !a.indices[d].same_as(axes[d])) return false;
      } else if (next >= over.size() || !a.indices[d].same_as(over[next++])) {
        return false;
      }
    }
    return true;
  }

  TemplateBuilder& t_;
  const ComputeDag& dag_;
  const StageGroup& g_;
  const Operation& op_;
  StageRef s_;
  size_t rank_;
  std::vector<int> members_;  // whose loops the group holds, and those that were inlined
};

}  // namespace

void rows_with_reductions(TemplateBuilder& t, const StageGroup& g) { RowGroup(t, g).build(); }

}  // namespace heddle::meta
