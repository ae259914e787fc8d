// Rows that come from memory: the rows that a stage reads, whether they are in a cache, and how
// they are prefetched.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "common/accesses.h"
#include "common/costs.h"
#include "heddle/dag/all_producers.h"
#include "heddle/schedule/template.h"
#include "heddle/target/rule_constants.h"

namespace heddle::meta::cpu {

/// The inputs that stage `s`, with the stages inlined into it, reads element by element in rows
/// larger than a cache line.
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

/// Whether reduction `s` reads rows of an input (see rows_read) that an earlier reduction has read
/// whose result it needs. A variance after the mean is an example.
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

/// Whether a row of `bytes` is so short that L1 holds the next row as well, in addition to other
/// data.
inline bool is_short_row(const Target& target, int64_t bytes) {
  return bytes * 8 <= target.l1d_bytes;
}

inline bool larger_than_caches(const Target& target, int64_t bytes) {
  return bytes > std::max(target.l3_bytes, target.l2_bytes);
}

inline constexpr int64_t kPageBytes = 4096, kLineBytes = 64;

/// Whether the `rows` that stage `output_stage` writes, each of which is reduced before (a norm),
/// exceed the caches and need no transcendental function for each element. Reading a row, reducing
/// it and writing it then take about the same time, so the next row is reduced while one is
/// written. Rows of less than a page gain nothing, because the prefetch along a row (kLinesAhead)
/// runs past their end.
inline bool streams_rows(const TemplateBuilder& t, int output_stage, int64_t rows) {
  const ComputeDag& dag = t.dag();
  const Operation& op = dag.stage(output_stage);
  const int64_t bytes = spatial_points(op) * op.output(0).dtype().bytes();
  if (!larger_than_caches(t.target(), bytes) || bytes / rows < kPageBytes ||
      rows < t.constants().cpu.overlapped_rows_a_core * t.target().cores)
    return false;
  const std::vector<int> before = all_producers(dag, output_stage);
  return !has_transcendentals(dag, output_stage) &&
         std::none_of(before.begin(), before.end(), [&](int x) {
           const StageInfo& info = dag.info(x);
           return info.transcendentals_per_point > 0 && info.points * info.reduce_points > rows;
         });
}

/// The prefetch distance in cache lines along a row that is read while another one is written.
inline constexpr int64_t kLinesAhead = 32;

/// Lets stage `s` prefetch the elements of stage `from` that it will read `ahead` steps later along
/// dimension `dim`. `ahead` is a knob with 0 and some of `distances`.
inline void prefetch_ahead(TemplateBuilder& t, StageRef s, StageRef from, int dim, Param ahead,
                           std::initializer_list<int64_t> distances) {
  for (int64_t distance : distances)
    t.when(ahead, distance, [&] { s.prefetch(from, dim, distance); });
}

/// The knob for the number of rows by which memory is prefetched; prefetch_rows takes it.
inline Param ask_rows_ahead(TemplateBuilder& t, const Choice& choice) {
  return t.knob("prefetch_rows", {0, 1, 2, 4, 8}, choice);
}

/// Lets stage `s` prefetch the rows of `reads` that come `ahead` rows later (see ask_rows_ahead),
/// so that memory is read while the stage computes or writes.
inline void prefetch_rows(TemplateBuilder& t, StageRef s, const std::vector<Access>& reads,
                          Param ahead) {
  for (const Access& a : reads) prefetch_ahead(t, s, t.stage(a.producer), 0, ahead, {1, 2, 4, 8});
}

}  // namespace heddle::meta::cpu
