#include "cpu/reductions/reduction_rule.h"

#include <algorithm>

#include "cpu/streamed_rows.h"

namespace heddle::meta::cpu {
namespace {

using Problem = ReductionProblem;

bool from_beyond_l2(const Problem& p, int64_t times = 1) {
  return p.bytes > static_cast<double>(times * p.target.l2_bytes);
}

// Whether rows come from memory and are enough for each core to take several at a time.
bool many_rows(const Problem& p) {
  return p.along_row && !p.scalar && p.rows >= p.constants.rows_a_core * p.target.cores &&
         from_beyond_l2(p);
}

// Whether several rows are read at a time, which are streams of their own. Where rows end after a few pages, those
// streams break off before the prefetchers run far ahead, and all rows are one stream: one is read at a time if it
// fills all accumulators. (A Zen 5: 32,000 rows of 2,304 bytes take 0.59 of the time of four at a time, of 1,280
// bytes 0.64, 65,536 rows of 2,048 bytes 0.85. A Zen 4, in f32 and bf16: rows of 4,096 bytes 0.7, of 8,192 0.7 to 0.85,
// of 12,288 0.8, of 16,384 1.0, of 22,528 1.15, of 57,344 1.35.) Bytes are unpacked, which is hidden beside more streams:
// of 5,632 bytes 1.15. So are those of a matrix that the caches hold (of 8 MB 1.3). Blocks of bytes that instructions add up are one stream at any length (0.55 to 0.6).
bool several_rows(const Problem& p) {
  constexpr int64_t kPageBytes = 4096, kPagesOfShortRow = 4;
  const bool unpacks = p.row_bytes < 2 * p.row_length;
  const bool far = 2 * p.bytes > static_cast<double>(p.target.l3_bytes);
  const int64_t long_row = far && !unpacks ? kPagesOfShortRow * kPageBytes : kPageBytes;
  const bool fills = p.row_length % (p.constants.row_accumulators * p.lanes) == 0;
  return many_rows(p) && !p.adds_blocks && (p.row_bytes >= long_row || !fills);
}

// Whether each thread reads whole rows, one after the other. At the end of a piece of a row,
// prefetchers would run on into the piece of another thread. A part must be long beside the sum of
// all parts.
bool shares_whole_rows(const Problem& p) {
  return p.parallel && !p.along_row && p.one_row && p.results <= columns_in_l1(p) &&
         p.cut_length >= p.constants.steps_a_core_and_part * p.target.cores * p.target.cores;
}

// Whether there are too few results to share out. The reduction is then cut into parts, one for
// each task.
bool few_results(const Problem& p) {
  const CpuConstants& by = p.constants;
  const int64_t cores = p.target.cores;
  const bool wide = !p.along_row && !p.scalar && p.columns >= by.vectors_a_core * p.lanes * cores;
  return p.parallel && p.results < by.results_a_core * cores * (p.along_row ? 1 : p.lanes) && !wide;
}

void choose_split(const Problem& p, Choice& choice) {
  const bool whole_rows = shares_whole_rows(p);
  const bool split = p.can_split &&
                     (whole_rows || p.scalar || (!p.has_epilogue && few_results(p))) &&
                     p.cut_length >= kLeastStepsACore * p.target.cores;
  choice.set("split_reduction", split,
             !split       ? "enough rows for the cores"
             : whole_rows ? "each thread reads whole rows"
                          : "fewer rows than cores");
  choice.set("part_length", ceil_div(p.cut_length, p.target.cores), "one part a core");
}

// Chooses accumulators along a row of `length`. The accumulators of a tuple share the registers.
// Long rows of another group come one or two at a time.
void choose_accumulators(const Problem& p, const std::string& knob, int64_t length,
                         Choice& choice) {
  const bool long_rows =
      p.attached &&
      p.row_length * p.element_bytes * p.constants.long_rows_in_l2 > p.target.l2_bytes;
  const bool several = several_rows(p) && !long_rows && !p.attached;
  const int64_t width = terms_at_once(p, length);
  const int64_t vectors = p.terms_compute ? width / p.lanes
                                          : (several ? p.constants.row_accumulators_of_many
                                                     : p.constants.row_accumulators) /
                                                p.outputs;
  const int64_t most = std::max(width, length / p.lanes * p.lanes);
  choice.set(knob, std::clamp(vectors * p.lanes, width, most),
             "independent accumulators hide the add latency");
}

// Memory delivers more to several streams than to one, and each accumulator of columns is loaded and
// stored once for all of them.
void choose_streams(const Problem& p, Choice& choice) {
  const CpuConstants& by = p.constants;
  // An element of a tuple waits for a comparison and two selections. (argmax, Emerald Rapids, two threads, us with one row and with
  // four: 1220 rows of 170 take 62 and 52, 91 of 5521 35 to 47 and 31.)
  const bool waits = p.outputs > 1 && p.along_row && !p.attached;
  const bool several = p.scalar ? from_beyond_l2(p, by.far_scalar) : several_rows(p) || waits;
  const int64_t streams = !p.along_row ? by.column_streams : several ? by.row_streams : 1;
  for (const char* knob : {"streams", "part_streams"})
    choice.set(knob, streams, "rows read at a time");
}

void choose_columns(const Problem& p, Choice& choice) {
  const int64_t fit = std::min(p.columns, columns_in_l1(p));
  const int64_t share = ceil_div(ceil_div(p.columns, p.target.cores), p.lanes) * p.lanes;
  // The results are not read again: a vector of them stays in a register. (Two threads of a Xeon
  // with AVX-512, time relative to tiles in L1, geometric means: two rows 0.48, up to four 0.7, up
  // to eight 0.83.)
  if (p.one_axis && !p.along_row && !p.attached && p.cut_length <= p.constants.column_streams) {
    for (const char* knob : {"tile", "part_tile"})
      choice.set(knob, p.lanes, "all rows are read at once");
    return;
  }
  const std::string reason = "accumulators stay in the first cache";
  choice.set("tile", p.parallel && p.one_row ? std::min(fit, share) : fit, reason);
  choice.set("part_tile", fit, reason);
}

// In a group that goes row by row, memory is idle while transcendental functions are computed, or
// while short rows are read again. The next rows may be prefetched in that time. The first stage to
// read them may run while the row before is written.
void choose_prefetch(const Problem& p, Choice& choice) {
  const bool near = is_short_row(p.target, p.row_length * p.element_bytes);
  const bool worth = (p.computes || (near && p.reads_again)) && from_beyond_l2(p, 2);
  choice.set("prefetch_rows",
             !worth       ? 0
             : p.computes ? p.constants.rows_ahead
                          : p.constants.rows_ahead_again,
             "memory works while this computes");
  choice.set("prefetch_lines", p.beside_stores ? kLinesAhead : 0,
             "memory has stores to wait for as well");
}

}  // namespace

int64_t terms_at_once(const Problem& p, int64_t length) {
  return p.terms_compute && length >= 4 * p.lanes ? 2 * p.lanes : p.lanes;
}

int64_t columns_in_l1(const Problem& p) {
  return p.scalar ? 0 : p.target.l1d_bytes / 2 / p.element_bytes;
}

Choice reduction_rule(const Problem& p) {
  Choice choice;
  choose_split(p, choice);
  choose_accumulators(p, "lanes_unroll", p.row_length, choice);
  choose_accumulators(p, "part_lanes_unroll", p.part_row_length, choice);
  choose_streams(p, choice);
  choose_columns(p, choice);
  choose_prefetch(p, choice);
  return choice;
}

}  // namespace heddle::meta::cpu
