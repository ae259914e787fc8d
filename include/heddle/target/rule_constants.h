// RuleConstants: the judgements of rules as data. A rule compares features of a problem with thresholds, shares,
// rates and costs that suit machines of the day. Each has a name, a unit, a range and a default, and `heddle learn`
// fits those that matter to the times of a machine. Exact facts, such as sizes of instructions, are not here.
//
//   RuleConstants c;
//   c.cpu.far_bytes = 8;                                     // a rule reads p.constants.far_bytes
//   for (const ConstantInfo& i : constants_of("llvm")) std::cout << i.name << " " << value_of(c, i) << "\n";
//
// A ChoiceSource carries them (heddle/schedule/choice.h): the installed one those of the file
// <kind>-<chip>.constants, which is found as trees are. Rules get them with their problems.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "heddle/support/json.h"

namespace heddle {

/// What rules for CPUs judge by. rule_constants.cpp says what each is.
struct CpuConstants {
  // Register tiles of products.
  std::int64_t panel_steps = 1024;
  double accumulators_an_adder = 5;
  std::int64_t few_uses = 4;
  double second_pass = 0.85;
  double stream_bytes = 17, stream_bytes_of_lines = 20;
  double accumulators_of_lines = 24, loss_an_accumulator = 0.01;
  double feed_most = 1.08, feed_most_of_lines = 1.092;
  double feed_a_load = 0.12, feed_a_load_of_lines = 0.2;
  double least_edge = 0.3, least_edge_of_lines = 0.1;
  // Blocks, copies and cuts of products.
  std::int64_t long_reduction = 1536;
  std::int64_t uses_of_copy = 40;
  std::int64_t long_row = 1024;
  std::int64_t worth_copy = 32, worth_panels = 16, most_rows_of_panels = 1024;
  std::int64_t worth_panels_across = 8;
  std::int64_t shallow = 128, rows_of_stores = 24;
  double l2_of_block = 1.5, l2_of_cut_block = 3;
  std::int64_t panels_a_block = 8;
  std::int64_t many_columns = 512, some_columns = 256, deep_rows = 128, widen_columns = 32;
  std::int64_t many_results = 65536, deep_reduction = 2048, deep_windows = 4096;
  std::int64_t deep_results = 4608;
  double vectors_a_task = 16, tasks_a_core = 2;
  std::int64_t enough_blocks = 4;
  double read_columns = 12, copy_columns = 28, read_rows = 0.3;
  std::int64_t staged_rows = 4;
  // Products in tile registers.
  std::int64_t tiles_across = 2, tiles_down = 1;
  double l2_of_tile_rows = 0.625, l2_of_panel_rows = 0.5;
  double read_tile_rows = 12, copy_tile_cols = 3;
  // Rows that are streamed, and what threads share.
  double parallel_work = 2e5, row_work_a_core = 3e4;
  std::int64_t blocks_in_l2 = 16, block_rows_a_core = 16;
  std::int64_t long_rows_in_l2 = 4, long_rows_a_core = 4;
  std::int64_t overlapped_rows_a_core = 64, many_rows_a_core = 256;
  // Reductions that stream memory.
  std::int64_t rows_a_core = 16;
  std::int64_t steps_a_core_and_part = 32;
  std::int64_t results_a_core = 4, vectors_a_core = 8;
  std::int64_t row_accumulators = 4, row_accumulators_of_many = 2;
  std::int64_t row_streams = 4, column_streams = 8;
  std::int64_t far_scalar = 4;
  std::int64_t rows_ahead = 2, rows_ahead_again = 1;
  // Places of cheap stages.
  double inline_reads = 128, inline_reads_of_short_rows = 32, inline_reads_of_sums = 4;
  double inline_reads_of_tiles = 65536;
  std::int64_t short_row_vectors = 6;
  double whole_row_vectors = 0;
  // Estimates of graphs.
  double split_share = 0.6;
  double far_bytes = 6, near_bytes = 16;
  double split_l2 = 0.5, split_panel_l2 = 0.22;
  double split_gain = 1.25;
  double winograd_direct_share = 0.9, winograd_share = 0.85;
  double winograd_memory_bytes = 6, winograd_cache_bytes = 16;
  double winograd_channels = 16;
  double exponential_cycles = 14;

  bool operator==(const CpuConstants&) const = default;
};

/// What rules for GPUs judge by.
struct GpuConstants {
  // Rows that threads share.
  std::int64_t row_vectors = 4, row_vectors_of_few = 1, row_vectors_of_heavy = 2;
  std::int64_t heavy_threads = 512;
  std::int64_t warp_vectors = 8, warp_rows = 8;
  std::int64_t block_vectors = 384, block_warps = 16, blocks_of_short_rows = 6;
  std::int64_t clusters_of_long_rows = 4;
  // Reductions that are cut into parts.
  std::int64_t worth_rows = 32, worth_elements = 4096;
  double worth_bytes = 1 << 20;
  std::int64_t long_column = 256;
  std::int64_t parts_an_sm = 4;
  std::int64_t enough_rows = 1, enough_strips = 2;
  // Products without matrix units: the model of a multiprocessor.
  double simt_issues = 4, simt_l2_bytes = 42, simt_copies = 3;
  double simt_not_hidden = 0.25, simt_wait = 1.5, simt_block_steps = 24, simt_sum_cycles = 2500;
  std::int64_t simt_part = 32;
  // Products on matrix units.
  double mma_bytes = 2600, mma_wait = 1.5, mma_l2_bytes = 25, mma_memory_cycles = 1100;
  double mma_half_line = 1.5;
  double mma_element_cycles = 0.35, mma_element_latency = 34, mma_element_wait = 130;
  double mma_not_hidden = 0.25, mma_block_cycles = 1500, mma_sum_cycles = 2000;
  std::int64_t mma_part = 128;
  std::int64_t mma_stages = 4, mma_tile_steps = 4, mma_few_results = 1228;
  // Products of warp groups on Hopper.
  double group_together = 1.15, group_pair_together = 1.06;
  double group_row_cycles = 2.4, group_split_row_cycles = 3.6;
  double group_pair_cycles = 1500, group_fill_cycles = 1500;
  double group_stores = 5, group_boxed = 24, group_box_wait = 700, group_part_cycles = 3000;
  double group_sharing_gains = 1.02, group_worthwhile = 0.95;
  // Windows that slide over images: the model of a thread.
  double window_load = 1.8, window_convert = 0.45, window_guard = 1.2, window_store = 0.35;
  double window_text = 1000;
  double window_addresses = 19, window_registers = 0.9;
  double window_warps = 6, window_tail = 0.23, window_spill = 0.35, window_overlap = 1.6;
  std::int64_t window_threads = 512;
  // Attention.
  std::int64_t attention_registers = 250, attention_unmasked_registers = 284;
  std::int64_t attention_balanced_blocks = 8, attention_group_rows = 48;
  double attention_share_of_use = 0.7;
  std::int64_t attention_tiles_to_begin = 3, attention_tiles_of_sum = 6;
  std::int64_t attention_blocks_for_memory = 4;
  // Estimates of padded products.
  double pad_element_rate = 6e13, pad_box_rate = 2.5e14, pad_copy_rate = 2.5e12;
  double pad_kernel = 2.5e-6, pad_step = 5e-8, pad_load_rate = 3e11;
  double pad_gain = 1.2;
  // Estimates of other graphs.
  double tf32_gain = 1.3;
  std::int64_t short_column = 256;
  double short_column_gain = 1.3;

  bool operator==(const GpuConstants&) const = default;
};

/// The constants of all rules. A rule reads those of its kind of target.
struct RuleConstants {
  CpuConstants cpu;
  GpuConstants gpu;
  std::string source = {};  ///< such as "constants llvm-znver5"; empty: the defaults

  bool operator==(const RuleConstants&) const = default;
};

/// What is known about a constant. Ranges include their ends; the default lies within.
struct ConstantInfo {
  using Member = std::variant<std::int64_t CpuConstants::*, double CpuConstants::*,
                              std::int64_t GpuConstants::*, double GpuConstants::*>;
  std::string_view name, unit;
  Member member;
  double low = 0, high = 0;
  std::string_view about;

  /// Whether its values are whole numbers.
  bool is_count() const { return member.index() % 2 == 0; }
};

/// The constants of rules for targets of a kind ("llvm", "cuda"), in the order of their declaration.
std::span<const ConstantInfo> constants_of(std::string_view kind);
/// The constants of nobody's fitting.
const RuleConstants& default_constants();

double value_of(const RuleConstants& constants, const ConstantInfo& info);
/// Sets a constant; a count is rounded. Throws a User error outside of its range.
void set_value(RuleConstants* constants, const ConstantInfo& info, double value);

/// `count` values from the least to the largest of a constant's range, which grow by a factor where they are positive.
/// Counts are rounded and are there once.
std::vector<double> values_across(const ConstantInfo& info, int count);

/// "far_bytes 8 (6 by default), split_gain 1.1 (1.25 by default)"; empty where none differs.
std::string moved_text(const RuleConstants& constants, std::string_view kind);

/// The constants that differ from their defaults, as the text of a file with what else is known:
/// {"heddle_constants": 1, "kind": "llvm", "constants": {"far_bytes": 8}, "training": {..}}.
Json constants_json(const RuleConstants& constants, std::string_view kind, const Json& training);
/// Reads such a file for a kind of target. Throws a User error that names the place: text that is no JSON, another
/// kind, a constant that there is not, or one outside of its range.
RuleConstants parse_constants(std::string_view text, std::string_view kind,
                              const std::string& place);

}  // namespace heddle
