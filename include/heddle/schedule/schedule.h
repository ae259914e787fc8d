// A schedule: the loops of a declaration, their order, where each stage is computed, and where data
// are stored.
//
//   Schedule s({D});                          // default: one serial loop per axis, all at the root
//   auto [i, j] = s[D].axes<2>();
//   auto [io, ii] = s[D].split(i, 32);
//   s[D].parallel(io);
//   s[C].compute_at(s[D], io);
//   std::cout << s;                           // the steps as text; to_json / from_json round-trip
//
// Splits need not divide: lowering makes a main part without conditions and a tail. A step that
// cannot apply throws an Error that says which step, on what, and why. A Schedule is a value that
// is cheap to copy. It holds its target, which build() takes from it: Schedule s({D},
// Target::cuda()).
#pragma once

#include <array>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/schedule/options.h"
#include "heddle/schedule/step.h"
#include "heddle/support/json.h"
#include "heddle/target/target.h"

namespace heddle {

struct ScheduleState;

/// An axis of a stage: a loop, or an axis that loops were made from.
struct Loop {
  int id = -1;
  bool valid() const { return id >= 0; }
  friend bool operator==(Loop, Loop) = default;
};

class StageRef;

/// Accepts steps. A Schedule applies them at once, and a TemplateBuilder records them.
class StepRecorder {
 public:
  virtual ~StepRecorder() = default;
  /// The stage of `t`, whose primitives record steps.
  StageRef operator[](const Tensor& t);
  StageRef stage(int id);

 protected:
  friend class StageRef;
  virtual void record(Step step) = 0;
  virtual const ComputeDag& recorded_dag() const = 0;
  /// The stage that an axis belongs to; -1 where it is not known before replay.
  virtual int stage_of_axis(int axis) const {
    (void)axis;
    return -1;
  }
  /// The root axes of every stage, created stages included. The primitives extend it.
  struct StageAxes {
    std::string name;
    std::vector<int> spatial, reduce;
  };
  void init_axes(const ComputeDag& dag);
  std::vector<StageAxes> stage_axes_;
  int next_axis_ = 0;
};

/// The scheduling primitives of a stage. Each is one step. `at` is the line of the caller, for
/// messages.
class StageRef {
 public:
  StageRef(StepRecorder* recorder, int id) : recorder_(recorder), id_(id) {}
  int id() const { return id_; }

  Loop axis(int i) const;         ///< root spatial axis i; a negative i counts from the last one
  Loop reduce_axis(int i) const;  ///< root reduce axis i
  int num_axes() const;
  int num_reduce_axes() const;
  template <size_t N>
  std::array<Loop, N> axes() const {
    std::array<Loop, N> out;
    for (size_t i = 0; i < N; ++i) out[i] = axis(static_cast<int>(i));
    return out;
  }
  std::vector<Loop> all_axes() const;
  std::vector<Loop> all_reduce_axes() const;

  /// rewrite: for i in 0..n
  ///     -->  for io in 0..ceil(n/factor) { for ii in 0..min(factor, n - io*factor) }
  /// This is TailStrategy::Shorten. The other strategy is described in step.h.
  std::array<Loop, 2> split(Loop i, Param factor, TailStrategy tail = TailStrategy::Shorten,
                            Where at = Where::current());
  /// rewrite: for a { for b }  -->  for f in 0..|a|*|b|
  /// `a` and `b` must be adjacent loops, `a` outside.
  Loop fuse(Loop a, Loop b, Where at = Where::current());
  Loop fuse(const std::vector<Loop>& loops, Where at = Where::current());
  /// Puts the named loops, in the given order, into the positions that they occupy now.
  StageRef& reorder(const std::vector<Loop>& order, Where at = Where::current());
  StageRef& vectorize(Loop i, Where at = Where::current());
  StageRef& unroll(Loop i, Where at = Where::current());
  StageRef& parallel(Loop i, Where at = Where::current());
  /// Lets an iteration of `i` begin before the previous one has ended. The first reduction of the
  /// next iteration runs in one loop with the stores of this iteration.
  /// rewrite: for i { for k sum += x[i, k]  for j y[i, j] = .. }
  ///     -->  for k sum += x[0, k]  for i { for k { next += x[i + 1, k]  y[i, k] = .. } }
  StageRef& software_pipeline(Loop i, Where at = Where::current());

  /// Computes the stage inside `loop` of `consumer`: the part that the iteration needs.
  StageRef& compute_at(StageRef consumer, Loop loop, Where at = Where::current());
  /// Keeps the results of compute_at's loop for a whole iteration of `loop` of `host`, which is
  /// around it. Later statements of that iteration read them too. The loops in between must compute
  /// all of them.
  /// rewrite: for i { for k { e[k] = exp(x[i, k]) }  for k { sum += e[k] }  .. e[k] / sum .. }
  ///     -->  for i { for k { e[k] = exp(x[i, k]); sum += e[k] }  .. e[k] / sum .. }
  StageRef& store_at(StageRef host, Loop loop, Where at = Where::current());
  /// Substitutes the body into every reader. Throws for reductions and outputs.
  StageRef& compute_inline(Where at = Where::current());
  /// rewrite: C[i] = f(i)  -->  C.local[i] = f(i); C[i] = C.local[i]
  /// It must come before C's reduce axes are split. The new stage (returned) starts at the root;
  /// place it with compute_at.
  StageRef cache_write(Where at = Where::current());
  /// rewrite: C[i] = f(B[..])  -->  B.copy[..] = B[..]; C[i] = f(B.copy[..])
  /// The copy serves the given readers. It is returned and starts at the root.
  StageRef cache_read(const std::vector<StageRef>& readers, Where at = Where::current());
  /// The same for those reads of one reader alone whose indices depend on `along`, a root axis of
  /// it: one of two operands that are parts of one stage.
  StageRef cache_read(const StageRef& reader, Loop along, Where at = Where::current());
  /// Splits a reduction over k into partial results, in a new stage (returned), and their
  /// reduction.
  ///   outer: C.rf[ko, ..] = sum(ki < factor, f(ko*factor + ki));  C[..] = sum(ko, C.rf[ko, ..])
  ///   inner: C.rf[ki, ..] = sum(ko, f(ko*factor + ki));           C[..] = sum(ki, C.rf[ki, ..])
  /// The new stage's first spatial axis is the partial index. Needs a commutative reducer when
  /// inner.
  StageRef rfactor(Loop k, Param factor, bool inner, Where at = Where::current());
  /// The same over several reduce axes, outermost first, which are taken as one because their
  /// elements are contiguous: the pixels of an image are h*w contiguous elements. Needs a
  /// commutative reducer.
  StageRef rfactor(const std::vector<Loop>& ks, Param factor, bool inner,
                   Where at = Where::current());
  /// An axis whose extent is rounded up to a multiple of a * b * c.
  struct Padding {
    Loop axis;
    Param a = 1, b = 1, c = 1;
  };
  /// Computes a sum over longer axes, so that tiles divide them.
  /// rewrite: C[i] = sum(k, A.copy[i, k] * B.copy[k])
  ///     -->  C.pad[i] = sum(k, A.copy[i, k] * B.copy[k]); C[i] = C.pad[i]
  /// The axes of C.pad (returned), and of the copies that it reads (cache_read for this stage alone),
  /// are rounded up. Copies are zero beyond their sources, for a maximum the lowest value. Each
  /// factor of a sum must be such a copy, read at plain axes. A stage that is no reduction:
  ///     C[i] = f(i) --> C.pad[i] = i < n ? f(i) : 0; C[i] = C.pad[i]
  StageRef pad(const std::vector<Padding>& axes, Where at = Where::current());
  /// (index of `axis` / divisor) % extent: a whole axis, or one digit of it.
  struct Digit {
    Loop axis;
    int64_t divisor = 1, extent = 1;
  };
  /// A sum of products seen as a product of matrices. Each digit of its axes is in one of four
  /// lists, outermost first.
  struct ProductView {
    std::vector<Digit> batch, rows, cols, depth;
    /// Rows, columns and depth are each rounded up to a multiple of the product of three factors.
    std::array<Param, 3> row_multiple = {1, 1, 1}, col_multiple = {1, 1, 1},
                         depth_multiple = {1, 1, 1};
    /// Whether the elements of the operand are contiguous along the depth. Otherwise they are along
    /// its rows or columns.
    bool rows_along_depth = true, cols_along_depth = true;
  };
  struct Product;
  /// Computes a sum of products of two operands over several axes (a convolution) as one product of
  /// matrices, without writing them to memory: implicit GEMM.
  /// rewrite: C[y, x, k] = sum(r, s, c, X[y + r, x + s, c] * W[r, s, c, k])
  ///     -->  C.rows[m, d] = X[m / w + d / .., m % w + .., d % ..] where m, d are inside, else 0
  ///          C.columns[d, n] = W[..] where d, n are inside, else 0
  ///          C.product[m, n] = sum(d, C.rows[m, d] * C.columns[d, n])
  ///          C[y, x, k] = C.product[y * w + x, k]
  /// The row operand must not depend on digits of columns, nor the column operand on digits of
  /// rows. The axes of C.product are those of batch, then m and n. The axes of the operands are
  /// those of batch, then their own, in memory order.
  Product as_product(const ProductView& view, Where at = Where::current());
  struct OnlineStages;
  /// Computes a softmax and the sum that it weights (attention) in one pass over tiles of keys. The
  /// maximum of a row is that of the keys so far. Where it grows, the sums so far shrink by
  /// exp(old - new) (Milakov and Gimelshein 2018, arXiv:1805.02867; Dao 2023, arXiv:2307.08691).
  /// The stage is the sum of weighted values of a chain that dag/attention.h describes.
  /// rewrite: S[i, j] = sum(e, Q[i, e] * K[j, e]); m[i] = max(j, S[i, j])
  ///          E[i, j] = exp(S[i, j] - m[i]); l[i] = sum(j, E[i, j])
  ///          O[i, f] = sum(j, E[i, j] * V[j, f])
  ///     -->  for t { S[i, T] = ..; tile[i] = max(j in T, S[i, j]);
  ///                  m, shrink = max(m, tile), exp(m - max(m, tile))
  ///                  E[i, T] = exp(S[i, T] - m[i])
  ///                  l = l * shrink + sum(j in T, E[i, j])
  ///                  O = O * shrink + sum(j in T, E[i, j] * V[j, f]) }
  /// Rows are rounded up to a multiple of `rows`, keys to one of `keys`, both other extents to one
  /// of 16; keys beyond the last weigh nothing. m and l follow the loop t of O: they are computed
  /// where O is, and updated in each of its iterations.
  OnlineStages online_softmax(const std::array<Param, 3>& rows, Param keys,
                              Where at = Where::current());
  struct OnlineParts;
  /// The same for each of `parts` runs of keys: all stages have an axis p of parts after those of
  /// the batch. The parts are then added up, each scaled by its maximum (Dao et al. 2023,
  /// "Flash-Decoding").
  ///          top[i] = max(p, m[p, i]); l[i] = sum(p, l[p, i] * exp(m[p, i] - top[i]))
  ///          O[i, f] = sum(p, O[p, i, f] * exp(m[p, i] - top[i]))
  OnlineParts online_softmax_in_parts(const std::array<Param, 3>& rows, Param keys, Param parts,
                                      Where at = Where::current());
  /// One storage dimension, outermost first: (index of `dim` / divisor) % modulus; modulus 0 =
  /// none.
  struct StorageDim {
    int dim = 0;
    Param divisor = 1, modulus = 0;
  };
  /// Sets the order of the stage's elements in memory. The loops do not change. The storage
  /// dimensions must together be a bijection. Tiles of 16 columns of a matrix, each row-major, are
  /// {{1, 16}, {0}, {1, 1, 16}}.
  StageRef& layout(const std::vector<StorageDim>& dims, Where at = Where::current());
  /// Stores the results of the stage in a type that holds all their values, so that they are
  /// converted once and not at each read. Throws for reductions, inputs and outputs.
  /// rewrite: B[i] = A[i]; C[i] = f32(B[i])  -->  B[i] = f32(A[i]); C[i] = B[i]
  StageRef& widen(DataType to, Where at = Where::current());
  /// Hint: stores bypass the caches. It is for results that are larger than the caches and not read
  /// soon.
  StageRef& store_nontemporal(Where at = Where::current());
  /// States that the loops of the stage are written for `what`, which code generation for CPUs
  /// recognises in them. The generated code does not change. expected_instructions
  /// (heddle/codegen/llvm.h) tells whether it was recognised.
  StageRef& expect(Instruction what, Where at = Where::current());
  /// Stores the results of an output in rows of the caller's memory, which has `rows` of them, where
  /// `places`, an input of i64, says. A row whose place is none of them is not stored, and rows that
  /// no place names stay as they are. Two rows have no common place. The argument of the output is
  /// then this memory: (rows, the axes beyond those of `places`).
  /// rewrite: C[q, d] = f(q, d)  -->  if (0 <= p[q] && p[q] < rows) M[p[q], d] = f(q, d)
  StageRef& scatter_rows(StageRef places, Param rows, Where at = Where::current());
  /// Hint: for each element of `producer` that is read, prefetches the element `distance` further
  /// along its dimension `dim`, so that memory is busy while this stage computes.
  StageRef& prefetch(StageRef producer, int dim, Param distance, Where at = Where::current());

  // ---- for GPUs ----
  /// Distributes the iterations of `i` over the blocks of the grid or the threads of a block, along
  /// one of their dimensions (LoopKind::BlockX ... ThreadZ). A reduce axis can be bound to threads,
  /// whose results are then combined. With LoopKind::clusters(2), 4 or 8 in place of BlockX two,
  /// four or eight blocks run an iteration together and share the threadIdx.x loops inside it (sm_90
  /// and later). Such a loop may have up to 1024 iterations for each block.
  StageRef& bind(Loop i, LoopKind index, Where at = Where::current());
  /// The memory of a stage that is computed at a loop: Scope::Local (registers of the thread that
  /// computes an element; the default) or Scope::Shared.
  StageRef& set_scope(Scope scope, Where at = Where::current());
  /// Adds `elements` unused elements after each row of the stage's storage, so that the elements of
  /// a column are in different banks of shared memory.
  StageRef& storage_pad(Param elements, Where at = Where::current());
  /// Keeps `copies` buffers of the stage in shared memory. While the block computes on one, those
  /// of the next iterations are filled (software pipelining, by cp.async where possible).
  StageRef& multi_buffer(Param copies, Where at = Where::current());
  /// Makes the loops from `i` inwards this instruction: "mma", "wgmma", "ldmatrix", "tma_load",
  /// "tma_store" or "lanes" of a GPU, "amx" or one that is registered of a CPU
  /// (heddle/instruction/instruction.h). Lowering proves that they are it, and is a User error with
  /// the reason where they are not. With "" it finds out which instruction they are.
  StageRef& tensorize(Loop i, const std::string& instruction, Where at = Where::current());
  /// Lets the last block to finish of the previous kernel compute a stage at the root without a
  /// loop over blocks, without a kernel of its own (threadfence reduction, CUDA samples).
  StageRef& by_last_block(Where at = Where::current());

 private:
  OnlineParts record_online(Step step, bool in_parts);
  StageRef move_out(Step step, const char* suffix);
  StageRef copied(Step step);
  void check_owner(const char* step, StageRef consumer, Loop loop, Where at) const;
  StepRecorder* recorder_;
  int id_;
};

/// The result of as_product: the sum and its operands.
struct StageRef::Product {
  StageRef sum, rows, cols;
};

/// The result of online_softmax. All begin with the axes of the batch.
struct StageRef::OnlineStages {
  StageRef queries;   ///< [row, depth], or [depth, row] where that is the order in memory; zero
                      ///< beyond the ends, as are the next two
  StageRef keys;      ///< [key, depth] or [depth, key]
  StageRef values;    ///< [key, column] or [column, key]
  StageRef products;  ///< [row, key], over depth
  StageRef scores;    ///< [row, key]: masked; -inf beyond the last (scaled where powers do not)
  StageRef tile_max;  ///< [row, tile], over the keys of a tile
  StageRef highest;   ///< [row], over tiles: the maximum so far, and the factor of the sums
  StageRef powers;    ///< [row, key]: 2^(scaled score - maximum so far), in f32
  StageRef weights;   ///< [row, key]: the same in the type of the values
  StageRef partial;   ///< [row, lane], over tiles and eighths of a tile: every eighth key's powers
  StageRef weighted;  ///< [row, column], over tiles and the keys of a tile
  StageRef total;     ///< [row], over lanes: the sum of a row's powers
};

/// The result of online_softmax_in_parts.
struct StageRef::OnlineParts {
  OnlineStages of_part;  ///< stages with an axis of parts after those of the batch
  StageRef part;  ///< [part, row, column]: weighted sums, and beside each of them the row's maximum
                  ///< and total
  StageRef top;   ///< [row]: the maximum over parts
  StageRef total;  ///< [row]: the sum of weights over parts
  StageRef sum;    ///< [row, column]: the weighted sum over parts
};

/// How a declaration is computed: a list of steps, with the target and the options that they are
/// for.
class Schedule : public StepRecorder {
 public:
  /// The default schedule of `outputs`: every stage at the root, serial loops in axis order.
  /// `options` limit the target (apply_options) and lowering. Throws a User error for a target of
  /// unknown kind.
  explicit Schedule(const std::vector<Tensor>& outputs, const Target& target = Target::host(),
                    AutoSchedulerOptions options = {});
  explicit Schedule(ComputeDag dag, const Target& target = Target::host(),
                    AutoSchedulerOptions options = {});
  ~Schedule() override;
  Schedule(const Schedule&);
  Schedule& operator=(const Schedule&);
  Schedule(Schedule&&) noexcept;
  Schedule& operator=(Schedule&&) noexcept;

  const ComputeDag& dag() const;
  /// The target of the schedule. build(), export_kernel() and the cost model take it from here.
  const Target& target() const { return target_; }
  /// The options of the schedule. Lowering applies them.
  const AutoSchedulerOptions& options() const { return options_; }
  /// The same steps for another target. A schedule for a newer CPU can be built for this one.
  Schedule for_target(const Target& target) const { return for_target(target, options_); }
  Schedule for_target(const Target& target, AutoSchedulerOptions options) const;
  const std::vector<Step>& steps() const;
  /// Applies one concrete step, with ids as recorded. Replaying consists of such calls.
  void apply(const Step& step);
  /// The source of the schedule, as text: "default", "analytic rule: ...", "record ...".
  std::string provenance = "default: serial loops";

  /// Steps, target, and the options that differ from the defaults.
  Json to_json() const;
  /// Replays `json` (from to_json) on `dag`, which is rewritten first where the schedule belongs to
  /// an alternative (dag/alternatives.h). `otherwise` is the target where `json` has none, because
  /// records keep it beside the steps (Record::target). Throws an Error that names the first bad
  /// step.
  static Schedule from_json(const Json& json, const ComputeDag& dag,
                            const Target& otherwise = Target::host());
  std::string to_text() const;

  /// The result of the steps; for lowering and tests.
  const ScheduleState& state() const { return *state_; }

 protected:
  void record(Step step) override;
  const ComputeDag& recorded_dag() const override { return dag(); }
  int stage_of_axis(int axis) const override;

 private:
  std::unique_ptr<ScheduleState> state_;
  std::vector<Step> steps_;
  Target target_;
  AutoSchedulerOptions options_;
};
/// Prints the steps, one on each line.
std::ostream& operator<<(std::ostream& os, const Schedule& s);

}  // namespace heddle
