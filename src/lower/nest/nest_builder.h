// The state of building loop nests, shared by build_nest.cpp (loops), along.cpp (stages that follow
// a loop), tails.cpp (what a split leaves), regions.cpp (what a piece of a nest reads), kept.cpp
// (checks of store_at) and bodies.cpp (storage and statements). What does not change meanwhile is a
// StageGraph. What is known of axes holds for a scope, `Known`:
//
//   for i0 {          Known: i0 has a value; the tail of i may be decided here
//     for i1 {        Known: so have i1 and i, with a guard where i0*f + i1 may be outside of i
//       body
//     }               i1, i and the guard are forgotten
//   }
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "heddle/ir/simplify.h"
#include "lower/nest/build_nest.h"
#include "lower/nest/region.h"
#include "lower/nest/stage_graph.h"

namespace heddle {

class NestBuilder {
 public:
  NestBuilder(const ScheduleState& s, const std::vector<StageBuffers>& external,
              const NestOptions& options);
  Stmt roots(const std::vector<int>& list, size_t from = 0);

 private:
  enum class Mode {
    Compute,  // the loops of a stage,
    Init,     // those that initialise its accumulators,
    Update,   // those of one iteration of a stage that follows another's loop,
    Rescale   // or those that multiply its accumulators
  };
  struct AxisCtx {
    Expr extent, value;
    Expr begin;  ///< of an inner axis that runs over a part of its factor: the first iteration;
                 ///< null: 0
    bool known() const { return value.get() != nullptr; }
    bool full = false;  ///< an inner axis bound before its outer one: it ran over the whole factor
    bool beyond =
        false;  ///< an inner axis of whole vectors, the last of which goes beyond the axis
  };
  struct Realization {
    std::vector<Buffer> buffers;
    std::vector<Expr> mins;
  };
  struct Region {
    std::vector<SymInterval> dims;
    uint64_t beyond = 0;  ///< the dimensions that go beyond their axis
  };
  const StageState& stage(int st) const { return s_.stages[st]; }

  // ---- what is known of axes, by scope ---- Every change goes through these two functions, so
  // that leaving a loop can undo it.
  AxisCtx& change(int id) {
    changed_axes_.emplace_back(id, axes_[id]);
    return axes_[id];
  }
  void bind_var(const VarNode* v, const Expr& value) {
    Expr& at = bound_[v];
    changed_vars_.emplace_back(v, at);
    at = value;
  }
  // At its end, all that became known since its beginning is forgotten.
  class Known {
   public:
    explicit Known(NestBuilder* of)
        : of_(*of),
          axes_(of->changed_axes_.size()),
          vars_(of->changed_vars_.size()),
          guards_(of->guards_.size()),
          lasts_(of->lasts_.size()) {}
    ~Known();
    Known(const Known&) = delete;
    Known& operator=(const Known&) = delete;

   private:
    NestBuilder& of_;
    const size_t axes_, vars_, guards_, lasts_;
  };

  Expr simple(const Expr& e) const { return simplify(e, ranges_); }
  /// The same for accesses, which no loop depends on.
  Expr simple_access(const Expr& e) const { return plain_accesses_ ? e : simplify(e, ranges_); }

  // Whether a <= b is proved, also from the loops of symbolic length that are open.
  bool at_most(const Expr& a, const Expr& b) const;

  // On a GPU, tiles of an axis of symbolic length are whole, because threads, registers and shared
  // memory have constant sizes. Elements beyond the axis are not stored at the root, and are
  // computed from zeros elsewhere.
  bool is_whole(int id) const { return whole_[static_cast<size_t>(id)] != 0; }
  bool sized(int id) const;

  // ---- storage ----
  Realization realize(int st, const std::vector<Expr>& mins, const std::vector<Expr>& extents,
                      Scope scope);
  std::vector<Expr> storage_indices(int st, const std::vector<Expr>& logical) const;
  // The body expression in terms of loop variables and lowered buffers.
  Expr translate(const Expr& e, int reader) const;
  Expr translate(const Expr& e, int reader, RewriteMemo& memo) const;
  Expr translate_node(const Expr& e, int reader, RewriteMemo& memo) const;
  // A load of stage `st` by a stage that is computed beyond its axes: zero where there is no
  // element.
  Expr within(const Expr& load, int st, const std::vector<Expr>& logical, uint64_t beyond) const;
  // The dimensions of `load` that stage `reader` may read beyond their ends.
  uint64_t beyond_ends(const Load& load, int reader) const;
  // axis / n or axis % n of the reader, where the axis was split by n: the loop that it is,
  // whatever guard keeps that inside of the axis. Else null.
  Expr split_part(const Expr& e, int reader) const;

  // ---- loops ----
  Stmt emit_stage(int st, const std::vector<Expr>& mins, const std::vector<Expr>& extents);
  void check_extent_known(const AxisState& a) const;
  Expr extent_of(int id);
  // Whether every run of the inner loop of a split has all iterations of its factor.
  void run_whole(int inner);
  // Whether the length of axis `id` depends on symbolic sizes.
  bool is_sized(int id) const;
  /// The outer one of the parts of iteration `at` of a fused axis.
  Expr outer_part(const AxisState& fused, const Expr& at);
  Stmt emit_loops(int st, const std::vector<int>& leaves, size_t n, Mode mode);
  bool is_first_reduce(const std::vector<int>& leaves, size_t n) const;
  Stmt emit_loop(int st, const std::vector<int>& leaves, size_t n, Mode mode);
  // Gives `id` a value and derives the values of the axes that it was made from. Splits whose inner
  // extent depends on the value go to `pending`.
  void bind(int id, const Expr& value, std::vector<int>* pending);
  // Whether loops below `id` need a constant extent for their annotation to take effect.
  bool needs_const(int id) const;
  Stmt decide(int st, const std::vector<int>& leaves, size_t n, Mode mode,
              const std::vector<int>& pending, size_t i);
  // Emits the remainder of an axis of varying length beyond its full tiles, `rest` iterations.
  template <class With>
  Stmt tails(const AxisState& p, const Expr& rest, bool whole_tiles, const With& with);
  // The same in whole vectors, whose lanes beyond the axis are left out. Null where there are none.
  template <class With>
  Stmt masked_tails(const AxisState& p, const Expr& full, const Expr& rest, const With& with);
  static Var var_of(const Expr& e) { return Var::from(e); }
  // The statements inside loop `leaves[n]`: the stages computed here, then the remaining loops.
  Stmt inside(int st, const std::vector<int>& leaves, size_t n, Mode mode);

  // ---- stages that follow a loop of another one (nest_along.cpp) ----
  // Initialises the accumulators of all stages that loop `n` of `st` updates.
  Stmt emit_inits(int st, const std::vector<int>& leaves, size_t n);
  // The update of follower `p` in an iteration of loop `n` of `st`.
  Stmt emit_update(int p, int st, size_t n);
  Stmt emit_rescale(int st, const std::vector<int>& leaves);
  void enter_follower(int p);
  std::vector<int> own_leaves(int p, bool reduce) const;
  Stmt emit_rescale_store(int st);
  // The iterations of the first reduce axis that any point of the region needs.
  Expr within_reach(int st, const Expr& extent);

  // ---- what is kept for longer than it is computed for (nest_kept.cpp) ----
  // Checks that all of the region of `p` that loop `n` of `host` needs is computed before a stage
  // outside of the computing loop reads it.
  void check_has_storage(int p) const;
  void check_kept(int p, int host, size_t n, std::map<int, Region>* memo);
  bool computed_whole(int p, int host, size_t n, std::map<int, Region>* memo);
  bool reads_whole(int reader, int p, int host, size_t n, std::map<int, Region>* memo);

  // ---- regions ---- The interval of axis `id`, where its loops that are not open yet range over
  // all their iterations.
  SymInterval axis_interval(int id);
  // Whether a loop made from axis `id` is open.
  bool open(int id) const;
  // The part of stage `p` that all statements inside loop `n` of `host` read.
  const Region& demand(int p, int host, size_t n, std::map<int, Region>* memo);
  SymEnv reader_env(int q, int host, size_t n, std::map<int, Region>* memo);
  // The extent of a reduce axis may depend on spatial axes (the last block of an rfactor).
  SymInterval reduce_interval(int a, SymInterval i, const SymEnv& env);
  // Axes of the host in terms of open loops that are not theirs alone: the fusion of several, or
  // what a known part of an axis leaves of it. An index that puts such axes together again,
  // (f / 14) * 14 + f % 14, is as exact as f.
  struct OpenParts {
    std::vector<VarBinding> axes;
    std::vector<Var> loops;
  };
  OpenParts open_parts(int host, SymEnv* env);
  Var open_loop(int axis, SymEnv* env, OpenParts* out);
  void take_fusion_apart(int axis, const Expr& value, std::map<int, Expr>* members);
  void collect_reads(int q, int p, const SymEnv& env, const OpenParts& parts, Region* r, bool* any);
  void collect_reads_in(const Expr& e, int p, const SymEnv& env, const OpenParts& parts,
                        bool guarded, SeenNodes (&seen)[2], Region* r, bool* any);
  SymInterval index_interval(const Expr& index, const SymEnv& env, const OpenParts& parts);

  // ---- bodies ----
  std::vector<Expr> own_indices(int st) const;
  Stmt guarded(Stmt s) const;
  const Reduce& reduction(int st) const;
  Stmt emit_init_store(int st);
  int component(int st, size_t output) const {
    return stage(st).bodies[output].as<Reduce>()->index;
  }
  void emit_prefetches(int st, const StageState::PrefetchHint& hint, std::vector<Stmt>* out) const;
  Stmt emit_store(int st);
  const StageGraph graph_;
  const ScheduleState& s_;
  const bool plain_accesses_;
  bool masks_ = false;   ///< whether vectors may leave out lanes at tails of register tiles
  int beyond_open_ = 0;  ///< how many open loops go beyond their axis
  bool on_gpu_ = false;
  std::vector<char> whole_;       ///< whether runs along each axis are whole
  std::vector<uint64_t> beyond_;  ///< Region::beyond of the current region of each stage
  std::vector<AxisCtx> axes_;
  std::vector<Realization> real_;
  std::vector<std::vector<Expr>> root_min_;
  std::vector<std::vector<SymInterval>> held_;                 ///< regions that followers keep
  std::unordered_map<const VarNode*, Expr> bound_;             ///< value of each root variable
  std::vector<std::pair<int, AxisCtx>> changed_axes_;          ///< as they were before
  std::vector<std::pair<const VarNode*, Expr>> changed_vars_;  ///< likewise; null: not bound
  std::vector<Expr> guards_;
  std::vector<VarBinding> lasts_;  ///< the last iteration of open loops of symbolic length
  Ranges ranges_;
};

/// The shape of the stage's buffers when they hold `extents` elements along its dimensions.
std::vector<Expr> storage_shape(const StageState& stage, const std::vector<Expr>& extents);

}  // namespace heddle
