// Rows that come from memory: which a stage reads, whether they are near, how they are fetched
// ahead.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "common/accesses.h"
#include "common/costs.h"
#include "heddle/dag/all_producers.h"
#include "heddle/schedule/template.h"

namespace heddle::meta::cpu {

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
inline bool is_short_row(const Target& target, int64_t bytes) {
  return bytes * 8 <= target.l1d_bytes;
}

inline bool larger_than_caches(const Target& target, int64_t bytes) {
  return bytes > std::max(target.l3_bytes, target.l2_bytes);
}

inline constexpr int64_t kPageBytes = 4096, kLineBytes = 64;

/// Whether the `rows` that stage `output_stage` writes, each reduced before (a norm), go past the
/// caches and no transcendental function is computed of their elements. To read a row, to reduce it
/// and to write it then take about the same time: the next row is reduced while one is written.
/// Rows of less than a page gain nothing, as the fetch ahead along a row (kLinesAhead) leaves it.
inline bool streams_rows(const TemplateBuilder& t, int output_stage, int64_t rows) {
  const ComputeDag& dag = t.dag();
  const Operation& op = dag.stage(output_stage);
  const int64_t bytes = spatial_points(op) * op.output(0).dtype().bytes();
  if (!larger_than_caches(t.target(), bytes) || bytes / rows < kPageBytes ||
      rows < 64 * t.target().cores)
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

/// The knob how many rows ahead memory is read: what prefetch_rows takes.
inline Param ask_rows_ahead(TemplateBuilder& t, const Choice& choice) {
  return t.knob("prefetch_rows", {0, 1, 2, 4, 8}, choice);
}

/// Lets stage `s` touch the rows of `reads` that come `ahead` rows later (see ask_rows_ahead):
/// memory works while the stage computes, or writes.
inline void prefetch_rows(TemplateBuilder& t, StageRef s, const std::vector<Access>& reads,
                          Param ahead) {
  for (const Access& a : reads) prefetch_ahead(t, s, t.stage(a.producer), 0, ahead, {1, 2, 4, 8});
}

}  // namespace heddle::meta::cpu
