// What the meta-templates share. Public headers only: a user's own meta-template can do the same.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "heddle/dag/all_producers.h"
#include "heddle/schedule/template.h"

namespace heddle::meta {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The lanes of one native vector of the stage's (first) result.
inline int64_t native_lanes(const TemplateBuilder& t, int stage) {
  return t.target().vector_lanes(t.dag().stage(stage).output(0).dtype().bytes());
}

inline int64_t spatial_points(const Operation& op) {
  int64_t n = 1;
  for (const Axis& a : op.axes()) n *= a.extent();
  return n;
}

/// Below this a parallel region costs more than it saves: waking a worker takes 30 to 100 us, a
/// spinning one 0.5 us (docs/benchmarks.md), so a few hundred thousand operations.
inline constexpr double kMinParallelWork = 2e5;

inline bool worth_parallel(const TemplateBuilder& t, double work) {
  return t.target().cores > 1 && work >= kMinParallelWork;
}

inline int64_t bytes_of(const Tensor& t) {
  int64_t n = t.dtype().bytes();
  for (int64_t e : t.extents()) n *= e;
  return n;
}

/// Bytes of the tensors that stage `s` reads and writes, each once.
inline double stage_bytes(const ComputeDag& dag, int s) {
  double bytes = 0;
  std::vector<Tensor> tensors = dag.stage(s).inputs();
  for (int o = 0; o < dag.stage(s).num_outputs(); ++o) tensors.push_back(dag.stage(s).output(o));
  for (const Tensor& x : tensors) bytes += static_cast<double>(bytes_of(x));
  return bytes;
}

/// Whether reduction `s` is bound by the reading of one operand whose elements each serve a single
/// result, whatever is reused beside it: the matrix of a matrix-vector product.
inline bool streams_one_operand(const ComputeDag& dag, int s) {
  const Access* largest = nullptr;
  for (const Access& a : dag.info(s).reads) {
    if (!largest || bytes_of(a.tensor) > bytes_of(largest->tensor)) largest = &a;
  }
  return largest && largest->reuse_axes.empty() && largest->window_axes.empty() &&
         static_cast<double>(bytes_of(largest->tensor)) >= 0.9 * stage_bytes(dag, s);
}

/// How much work a stage is, in units of about one arithmetic operation or element moved.
inline double stage_work(const ComputeDag& dag, int s) {
  const StageInfo& i = dag.info(s);
  return i.flops +
         8 * i.transcendentals_per_point * static_cast<double>(i.points * i.reduce_points) +
         static_cast<double>(i.points * i.reduce_points);
}

/// Whether every read of stage `s` is at exactly the stage's own point, so that its axes can be
/// fused.
inline bool all_elementwise(const ComputeDag& dag, int s) {
  for (const Access& a : dag.info(s).reads) {
    if (a.pattern != AccessPattern::Elementwise) return false;
  }
  return true;
}

/// The position of the axis that runs along consecutive elements of read `a`, or nullptr.
inline const Axis* contiguous_axis(const Access& a, const std::vector<Axis>& axes) {
  if (a.affine.empty() || !a.affine.back()) return nullptr;
  for (const Axis& x : axes) {
    if (a.affine.back()->coefficient(x.var()) == 1) return &x;
  }
  return nullptr;
}

/// The axis (position) that some read runs along consecutively, when that is not the last axis of
/// the stage: a transposition. -1 when there is none.
inline int transposed_axis(const ComputeDag& dag, int s) {
  const auto& axes = dag.stage(s).axes();
  if (axes.size() < 2) return -1;
  for (const Access& a : dag.info(s).reads) {
    const Axis* c = contiguous_axis(a, axes);
    if (!c || c->same_as(axes.back()) || !a.depends_on(axes.back())) continue;
    for (size_t i = 0; i + 1 < axes.size(); ++i) {
      if (axes[i].same_as(*c) && c->extent() > 1) return static_cast<int>(i);
    }
  }
  return -1;
}

/// How many leading axes of the output stage the row stages share.
inline int row_rank(const ComputeDag& dag, const StageGroup& g) {
  int rank = static_cast<int>(dag.stage(g.output_stage).axes().size()) - 1;
  for (int s : g.tunable) {
    const auto& own = dag.stage(s).axes();
    if (!dag.stage(s).is_reduction()) continue;
    int r = 0;
    while (r < rank && r < static_cast<int>(own.size()) &&
           own[r].extent() == dag.stage(g.output_stage).axes()[r].extent()) {
      ++r;
    }
    rank = std::min(rank, r);
  }
  return rank;
}

inline int64_t leading_points(const Operation& op, size_t rank) {
  int64_t n = 1;
  for (size_t i = 0; i < rank; ++i) n *= op.axes()[i].extent();
  return n;
}

/// Whether stage `s`, or one of `inlined` that it takes in, calls dear functions (exp, erf, ..).
inline bool has_transcendentals(const ComputeDag& dag, int s,
                                const std::vector<int>& inlined = {}) {
  return dag.info(s).transcendentals_per_point > 0 ||
         std::any_of(inlined.begin(), inlined.end(),
                     [&](int x) { return dag.info(x).transcendentals_per_point > 0; });
}

/// How many elements a vector loop of stage `s` takes at once: a native vector, or two of them side
/// by side where it calls dear functions. Those are long chains of instructions, and two of them
/// share the loads of their constants, which do not all fit the registers (softmax 197x768: 131 and
/// 102 us).
inline Param vector_width(TemplateBuilder& t, int s, bool dear) {
  const int64_t lanes = native_lanes(t, s);
  if (!dear) return Param(lanes);
  return t.knob("width", {lanes, 2 * lanes}, 2 * lanes, "dear functions of two vectors at a time");
}

/// Whether each index of read `a` is an axis: of a reduction, it reads whole rows.
inline bool at_plain_axes(const Access& a) {
  return std::all_of(a.affine.begin(), a.affine.end(), [](const auto& index) {
    return index && index->constant == 0 && index->terms.size() == 1 &&
           index->terms[0].coefficient == 1;
  });
}

/// The inputs that stage `s` (with what it takes in) reads element by element, in rows larger than
/// a cache line.
inline std::vector<Access> rows_read(const ComputeDag& dag, int s,
                                     const std::vector<int>& inlined = {}) {
  std::vector<Access> out;
  std::vector<int> stages = inlined;
  stages.push_back(s);
  for (int x : stages) {
    for (const Access& a : dag.info(x).reads) {
      const bool known = std::any_of(out.begin(), out.end(),
                                     [&](const Access& b) { return b.producer == a.producer; });
      const bool in_rows =
          dag.stage(x).is_reduction() ? at_plain_axes(a) : a.pattern == AccessPattern::Elementwise;
      if (!known && in_rows && a.tensor.op()->is_placeholder() && a.tensor.rank() == 2 &&
          a.tensor.extent(0) >= 64) {
        out.push_back(a);
      }
    }
  }
  return out;
}

/// Whether reduction `s` reads rows of an input (see rows_read) that a reduction before it, which
/// it needs the result of, has read: a variance, after the mean.
inline bool reads_again(const ComputeDag& dag, int s) {
  const std::vector<int> before = all_producers(dag, s);
  for (const Access& a : rows_read(dag, s)) {
    for (int x : before) {
      const std::vector<int>& read = dag.info(x).producers;
      if (dag.stage(x).is_reduction() &&
          std::find(read.begin(), read.end(), a.producer) != read.end())
        return true;
    }
  }
  return false;
}

/// Whether a row of `bytes` is so short that the next one fits the first cache beside it, whatever
/// else is there.
inline bool short_row(const TemplateBuilder& t, int64_t bytes) {
  return bytes * 8 <= t.target().l1d_bytes;
}

inline bool larger_than_caches(const TemplateBuilder& t, int64_t bytes) {
  return bytes > std::max(t.target().l3_bytes, t.target().l2_bytes);
}

inline constexpr int64_t kPageBytes = 4096;

/// Whether the `rows` that stage `output stage` writes, each reduced before (a norm), go past the
/// caches and nothing dear is computed of their elements. To read a row, to reduce it and to write
/// it then take about the same time: the next row is reduced while one is written. Rows of less
/// than a page gain nothing, as the fetch ahead along a row (kLinesAhead) leaves it.
inline bool streams_rows(const TemplateBuilder& t, int output_stage, int64_t rows) {
  const ComputeDag& dag = t.dag();
  const Operation& op = dag.stage(output_stage);
  const int64_t bytes = spatial_points(op) * op.output(0).dtype().bytes();
  if (!larger_than_caches(t, bytes) || bytes / rows < kPageBytes || rows < 64 * t.target().cores)
    return false;
  const std::vector<int> before = all_producers(dag, output_stage);
  return !has_transcendentals(dag, output_stage) &&
         std::none_of(before.begin(), before.end(), [&](int x) {
           const StageInfo& info = dag.info(x);
           return info.transcendentals_per_point > 0 && info.points * info.reduce_points > rows;
         });
}

/// How many lines ahead a row is fetched that is read beside another's being written.
inline constexpr int64_t kLinesAhead = 32;

/// Lets stage `s` touch what it will read of stage `from` `ahead` further along dimension `dim`: a
/// knob with 0 and some of `distances`.
inline void prefetch_ahead(TemplateBuilder& t, StageRef s, StageRef from, int dim, Param ahead,
                           std::initializer_list<int64_t> distances) {
  for (int64_t distance : distances)
    t.when(ahead, distance, [&] { s.prefetch(from, dim, distance); });
}

/// The decision how many rows ahead memory is read: what prefetch_rows takes.
inline Param rows_ahead(TemplateBuilder& t, int64_t chosen, const std::string& why) {
  return t.knob("prefetch_rows", {0, 1, 2, 4, 8}, chosen, why);
}

/// Lets stage `s` touch the rows of `reads` that come `ahead` rows later (see rows_ahead): memory
/// works while the stage computes, or writes.
inline void prefetch_rows(TemplateBuilder& t, StageRef s, const std::vector<Access>& reads,
                          Param ahead) {
  for (const Access& a : reads) prefetch_ahead(t, s, t.stage(a.producer), 0, ahead, {1, 2, 4, 8});
}

/// The reduce axis (position) along which the largest operand of `s` is contiguous, or -1.
inline int contiguous_reduce_axis(const ComputeDag& dag, int s) {
  const Operation& op = dag.stage(s);
  double most = -1;
  int found = -1;
  for (const Access& a : dag.info(s).reads) {
    double size = 1;
    for (int64_t e : a.tensor.extents()) size *= static_cast<double>(e);
    if (size <= most) continue;
    const Axis* spatial = contiguous_axis(a, op.axes());
    const Axis* reduce = contiguous_axis(a, op.reduce_axes());
    if (!spatial && !reduce) continue;
    most = size;
    found = -1;
    // A window (x*stride + s) is contiguous along both: the longer one is worth vectors.
    if (reduce && (!spatial || spatial->extent() < reduce->extent())) {
      for (size_t i = 0; i < op.reduce_axes().size(); ++i) {
        if (op.reduce_axes()[i].same_as(*reduce)) found = static_cast<int>(i);
      }
    }
  }
  return found;
}

/// The reduce axes (positions, outermost first) along which the largest operand of `s` is one run
/// of elements: the contiguous one and those outside of it whose steps are whole runs. The pixels
/// of an image of (n, c, h, w) are {h, w}. Empty where contiguous_reduce_axis finds none.
inline std::vector<int> contiguous_reduce_axes(const ComputeDag& dag, int s) {
  const int innermost = contiguous_reduce_axis(dag, s);
  if (innermost < 0) return {};
  const auto& reduce = dag.stage(s).reduce_axes();
  const Access* largest = nullptr;
  for (const Access& a : dag.info(s).reads) {
    if (contiguous_axis(a, reduce) && (!largest || bytes_of(a.tensor) > bytes_of(largest->tensor)))
      largest = &a;
  }
  // The position of the reduce axis that dimension `d` is indexed by, alone and from 0 to its end;
  // axes that have but one point do not count.
  const auto whole_dimension = [&](int d) {
    const auto& index = largest->affine[static_cast<size_t>(d)];
    if (!index || index->constant != 0) return -1;
    int found = -1;
    for (size_t i = 0; i < reduce.size(); ++i) {
      if (index->coefficient(reduce[i].var()) == 1 &&
          reduce[i].extent() == largest->tensor.extent(d))
        found = static_cast<int>(i);
    }
    for (const auto* axes : {&dag.stage(s).axes(), &reduce}) {
      for (const Axis& x : *axes) {
        const bool itself = found >= 0 && x.same_as(reduce[static_cast<size_t>(found)]);
        if (!itself && x.extent() > 1 && index->coefficient(x.var()) != 0) return -1;
      }
    }
    return found;
  };
  std::vector<int> out{innermost};
  int d = largest->tensor.rank() - 1;
  if (whole_dimension(d) != innermost) return out;
  while (--d >= 0) {
    // The outermost may run over a part of its dimension: its steps are whole runs all the same.
    const auto& index = largest->affine[static_cast<size_t>(d)];
    int found = -1;
    for (size_t i = 0; index && i < reduce.size(); ++i) {
      if (index->coefficient(reduce[i].var()) == 1) found = static_cast<int>(i);
    }
    if (found < 0 || std::find(out.begin(), out.end(), found) != out.end()) break;
    out.insert(out.begin(), found);
    if (whole_dimension(d) != found) break;
  }
  return out;
}

/// A vector loop at the end of `loop`: split by lanes x unroll, the lanes vectorized, the rest
/// unrolled. Returns the loop over whole chunks.
inline Loop vector_tail(StageRef s, Loop loop, Param chunk, int64_t lanes) {
  auto [outer, inner] = s.split(loop, chunk);
  auto [io, ii] = s.split(inner, lanes);
  s.unroll(io);
  s.vectorize(ii);
  return outer;
}

}  // namespace heddle::meta
