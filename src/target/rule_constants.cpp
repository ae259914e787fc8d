#include "heddle/target/rule_constants.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "heddle/support/error.h"
#include "support/edit_distance.h"
#include "support/table.h"

namespace heddle {
namespace {

using Cpu = CpuConstants;
using Gpu = GpuConstants;

// clang-format off
constexpr std::array kCpu = std::to_array<ConstantInfo>({
    {"panel_steps", "steps", &Cpu::panel_steps, 256, 4096, "length of a block of a reduction, of which the caches hold a panel"},
    {"accumulators_an_adder", "accumulators", &Cpu::accumulators_an_adder, 2, 12, "accumulators for each multiply-add unit that hide its latency"},
    {"few_uses", "multiply-adds", &Cpu::few_uses, 1, 32, "uses of an element below which memory dominates a product"},
    {"second_pass", "share", &Cpu::second_pass, 0.4, 1, "speed of a tile that reads rows again, beside one that has all columns"},
    {"stream_bytes", "bytes/cycle", &Cpu::stream_bytes, 4, 64, "rate of panels from the second cache beside arithmetic"},
    {"stream_bytes_of_lines", "bytes/cycle", &Cpu::stream_bytes_of_lines, 4, 64, "the same where a vector is a line of memory"},
    {"accumulators_of_lines", "accumulators", &Cpu::accumulators_of_lines, 4, 30, "accumulators below which units wait for lines"},
    {"loss_an_accumulator", "share", &Cpu::loss_an_accumulator, 0, 0.05, "speed that each missing one of these costs"},
    {"feed_most", "share", &Cpu::feed_most, 1, 1.5, "speed of a tile without loads, above 1 where some are free"},
    {"feed_most_of_lines", "share", &Cpu::feed_most_of_lines, 1, 1.5, "the same where a vector is a line of memory"},
    {"feed_a_load", "share", &Cpu::feed_a_load, 0, 0.6, "speed that a load for each multiply-add costs"},
    {"feed_a_load_of_lines", "share", &Cpu::feed_a_load_of_lines, 0, 0.6, "the same where a vector is a line of memory"},
    {"least_edge", "share", &Cpu::least_edge, 0, 1, "time of the smallest partial tile, beside a whole one"},
    {"least_edge_of_lines", "share", &Cpu::least_edge_of_lines, 0, 1, "the same where a vector is a line of memory"},
    {"long_reduction", "steps", &Cpu::long_reduction, 256, 16384, "length from which on a reduction of many results is cut into blocks"},
    {"uses_of_copy", "multiply-adds", &Cpu::uses_of_copy, 4, 400, "uses of an element of an image that pay for a copy with channels innermost"},
    {"long_row", "bytes", &Cpu::long_row, 128, 16384, "row from which on lines of a panel are on pages of their own"},
    {"worth_copy", "reads", &Cpu::worth_copy, 4, 512, "reads of an element that pay for a copy of an operand"},
    {"worth_panels", "reads", &Cpu::worth_panels, 2, 256, "reads of an element that pay for copies of panels"},
    {"worth_panels_across", "reads", &Cpu::worth_panels_across, 2, 256, "the same where vectors lie across lines of memory"},
    {"most_rows_of_panels", "rows", &Cpu::most_rows_of_panels, 64, 8192, "the most rows of a product whose blocks copy panels"},
    {"shallow", "steps", &Cpu::shallow, 16, 1024, "reduction so short that storing results takes the time"},
    {"rows_of_stores", "rows", &Cpu::rows_of_stores, 4, 128, "rows of a block of such a product"},
    {"l2_of_block", "second caches", &Cpu::l2_of_block, 0.125, 6, "size of the rows of a block"},
    {"l2_of_cut_block", "second caches", &Cpu::l2_of_cut_block, 0.25, 12, "the same where the reduction is cut"},
    {"panels_a_block", "panels", &Cpu::panels_a_block, 1, 32, "the most panels of a block that copies them"},
    {"many_columns", "columns", &Cpu::many_columns, 64, 4096, "columns that pay for a copy of rows larger than the second cache"},
    {"some_columns", "columns", &Cpu::some_columns, 32, 4096, "columns that pay for a copy of rows across lines"},
    {"deep_rows", "steps", &Cpu::deep_rows, 16, 2048, "length of a reduction that pays for such a copy"},
    {"widen_columns", "columns", &Cpu::widen_columns, 4, 512, "columns that pay for widening halves in place"},
    {"many_results", "results", &Cpu::many_results, 4096, 4194304, "results from which on a long reduction is cut into blocks"},
    {"deep_reduction", "steps", &Cpu::deep_reduction, 256, 65536, "length from which on two cores share out a reduction of few results; half of it for eight"},
    {"deep_windows", "steps", &Cpu::deep_windows, 256, 65536, "such a length over windows, for any number of cores"},
    {"deep_results", "results", &Cpu::deep_results, 256, 262144, "results up to which such a reduction is shared out by any number of cores"},
    {"vectors_a_task", "vectors", &Cpu::vectors_a_task, 2, 256, "vectors of results below which a task of a product does not pay"},
    {"tasks_a_core", "tasks", &Cpu::tasks_a_core, 0.25, 16, "tasks for each core that are enough"},
    {"enough_blocks", "blocks", &Cpu::enough_blocks, 1, 64, "independent blocks for each task with which they are not cut for the threads"},
    {"read_columns", "rows", &Cpu::read_columns, 1, 100, "cost of reading the columns of a tile, in rows of multiply-adds"},
    {"copy_columns", "rows", &Cpu::copy_columns, 2, 250, "the same where they are copied"},
    {"read_rows", "tiles", &Cpu::read_rows, 0.05, 3, "cost of reading the rows of a tile"},
    {"staged_rows", "results", &Cpu::staged_rows, 2, 64, "results of a line of a plane, up to half a vector, from which on whole lines are written at once"},
    {"tiles_across", "tiles", &Cpu::tiles_across, 1, 4, "tiles of results side by side in tile registers"},
    {"tiles_down", "tiles", &Cpu::tiles_down, 1, 4, "the same one below the other"},
    {"l2_of_tile_rows", "second caches", &Cpu::l2_of_tile_rows, 0.0625, 4, "size of the rows of a block of products in tile registers"},
    {"l2_of_panel_rows", "second caches", &Cpu::l2_of_panel_rows, 0.0625, 4, "size of all rows up to which such blocks copy panels"},
    {"read_tile_rows", "tiles", &Cpu::read_tile_rows, 0.5, 200, "cost of reading the rows of a tile, in products of tiles, where columns are copied by blocks"},
    {"copy_tile_cols", "tiles", &Cpu::copy_tile_cols, 0.1, 50, "cost of copying the columns of a tile there"},
    {"parallel_work", "operations", &Cpu::parallel_work, 20000, 2000000, "work below which waking threads costs more than it saves"},
    {"row_work_a_core", "operations", &Cpu::row_work_a_core, 3000, 1000000, "work for each core, up to parallel_work, from which on reductions and rows are shared out"},
    {"blocks_in_l2", "rows", &Cpu::blocks_in_l2, 2, 128, "rows that the second cache holds where several are worked on at a time"},
    {"block_rows_a_core", "rows", &Cpu::block_rows_a_core, 1, 256, "rows for each core from which on several are worked on at a time"},
    {"long_rows_in_l2", "rows", &Cpu::long_rows_in_l2, 1, 64, "rows that fit the second cache, where they are not long"},
    {"long_rows_a_core", "rows", &Cpu::long_rows_a_core, 1, 64, "long rows for each core from which on two are worked on at a time"},
    {"overlapped_rows_a_core", "rows", &Cpu::overlapped_rows_a_core, 8, 1024, "rows for each core from which on one is reduced while another is written"},
    {"many_rows_a_core", "rows", &Cpu::many_rows_a_core, 32, 4096, "such rows for each core from which on tasks have many"},
    {"rows_a_core", "rows", &Cpu::rows_a_core, 1, 256, "rows for each core from which on several are read at a time"},
    {"steps_a_core_and_part", "steps", &Cpu::steps_a_core_and_part, 1, 1024, "length of parts, beside their number, that pays for adding whole rows"},
    {"results_a_core", "results", &Cpu::results_a_core, 1, 64, "results for each core that are enough to share out"},
    {"vectors_a_core", "vectors", &Cpu::vectors_a_core, 1, 256, "vectors of columns for each core that are enough to share out"},
    {"row_accumulators", "vectors", &Cpu::row_accumulators, 1, 16, "accumulators of a row that is read alone"},
    {"row_accumulators_of_many", "vectors", &Cpu::row_accumulators_of_many, 1, 8, "accumulators of each row where several are read"},
    {"row_streams", "rows", &Cpu::row_streams, 1, 8, "rows that are read at a time"},
    {"column_streams", "rows", &Cpu::column_streams, 1, 16, "rows of columns that are read at a time"},
    {"far_scalar", "second caches", &Cpu::far_scalar, 1, 64, "size from which on a sum to one value reads several streams"},
    {"rows_ahead", "rows", &Cpu::rows_ahead, 0, 4, "rows that are fetched ahead while functions are computed"},
    {"rows_ahead_again", "rows", &Cpu::rows_ahead_again, 0, 4, "rows that are fetched ahead while short rows are read again"},
    {"inline_reads", "reads", &Cpu::inline_reads, 1, 2048, "reads of an element up to which a cheap stage is repeated"},
    {"inline_reads_of_short_rows", "reads", &Cpu::inline_reads_of_short_rows, 1, 1024, "the same where windows slide along short rows"},
    {"inline_reads_of_sums", "reads", &Cpu::inline_reads_of_sums, 1, 128, "the same where several stages are added up"},
    {"inline_reads_of_tiles", "reads", &Cpu::inline_reads_of_tiles, 1, 65536, "the same where a product in tile registers copies them"},
    {"short_row_vectors", "vectors", &Cpu::short_row_vectors, 1, 64, "length of a short row"},
    {"whole_row_vectors", "vectors", &Cpu::whole_row_vectors, 0, 16, "length of rows up to which a stage that computes functions is stored for all rows first"},
    {"split_share", "share", &Cpu::split_share, 0.1, 1, "share of the peak that a product of few results reaches"},
    {"far_bytes", "bytes/cycle", &Cpu::far_bytes, 1, 64, "rate of a core from beyond its second cache"},
    {"near_bytes", "bytes/cycle", &Cpu::near_bytes, 4, 128, "rate of a core from its second cache"},
    {"split_l2", "second caches", &Cpu::split_l2, 0.0625, 4, "size up to which a panel or a part stays near"},
    {"split_panel_l2", "second caches", &Cpu::split_panel_l2, 0.05, 1, "panel of more results than deep_results beyond which each row of tiles reads it anew"},
    {"split_gain", "factor", &Cpu::split_gain, 1, 4, "least expected gain for which a sum becomes parts of a graph"},
    {"winograd_direct_share", "share", &Cpu::winograd_direct_share, 0.2, 1, "share of the peak that a direct convolution reaches"},
    {"winograd_share", "share", &Cpu::winograd_share, 0.2, 1, "share of the peak that products of transformed tiles reach"},
    {"winograd_memory_bytes", "bytes/cycle", &Cpu::winograd_memory_bytes, 1, 128, "rate of all cores from memory"},
    {"winograd_cache_bytes", "bytes/cycle", &Cpu::winograd_cache_bytes, 2, 128, "rate of a core from the last cache"},
    {"winograd_channels", "channels", &Cpu::winograd_channels, 1, 256, "channels below which transforms cost more than they save"},
    {"exponential_cycles", "cycles", &Cpu::exponential_cycles, 2, 64, "time of a vector of exponentials"},
});

constexpr std::array kGpu = std::to_array<ConstantInfo>({
    {"row_vectors", "vectors", &Gpu::row_vectors, 1, 16, "vectors of a row that a thread has under way"},
    {"row_vectors_of_few", "vectors", &Gpu::row_vectors_of_few, 1, 16, "the same where rows do not fill the multiprocessors"},
    {"row_vectors_of_heavy", "vectors", &Gpu::row_vectors_of_heavy, 1, 16, "the same for elements with an index beside them"},
    {"heavy_threads", "threads", &Gpu::heavy_threads, 32, 1024, "the most threads of a row of these"},
    {"warp_vectors", "vectors", &Gpu::warp_vectors, 1, 32, "vectors of a lane up to which a warp takes a row alone"},
    {"warp_rows", "rows", &Gpu::warp_rows, 1, 128, "rows for each multiprocessor for which that pays"},
    {"block_vectors", "vectors", &Gpu::block_vectors, 16, 4096, "vectors of short rows for which a block is made larger"},
    {"block_warps", "warps", &Gpu::block_warps, 1, 32, "the most warps of such a block"},
    {"blocks_of_short_rows", "blocks", &Gpu::blocks_of_short_rows, 1, 64, "blocks for each multiprocessor that have to remain"},
    {"clusters_of_long_rows", "clusters", &Gpu::clusters_of_long_rows, 1, 32, "clusters for each place of a cluster up to which they share long rows"},
    {"worth_rows", "rows", &Gpu::worth_rows, 4, 1024, "rows of a strip of columns that pay for a block"},
    {"worth_elements", "elements", &Gpu::worth_elements, 256, 65536, "elements of a row that pay for a block"},
    {"worth_bytes", "bytes", &Gpu::worth_bytes, 16384, 268435456, "size below which a second kernel costs more than idle multiprocessors"},
    {"long_column", "rows", &Gpu::long_column, 16, 16384, "length of columns from which on a second kernel pays in any case"},
    {"parts_an_sm", "parts", &Gpu::parts_an_sm, 1, 32, "parts of all results for each multiprocessor"},
    {"enough_rows", "blocks", &Gpu::enough_rows, 1, 16, "blocks of rows for each multiprocessor that suffice"},
    {"enough_strips", "blocks", &Gpu::enough_strips, 1, 16, "blocks of strips of columns for each multiprocessor that suffice"},
    {"simt_issues", "instructions/cycle", &Gpu::simt_issues, 1, 8, "instructions of warps that a multiprocessor issues, by products without matrix units"},
    {"simt_l2_bytes", "bytes/cycle", &Gpu::simt_l2_bytes, 8, 128, "rate of a multiprocessor from the second cache, by such products"},
    {"simt_copies", "instructions", &Gpu::simt_copies, 1, 8, "instructions that copy 32 elements of a tile"},
    {"simt_not_hidden", "share", &Gpu::simt_not_hidden, 0, 1, "share of the smaller costs of a step that the largest one does not hide"},
    {"simt_wait", "share", &Gpu::simt_wait, 0, 6, "time that a warp alone waits, beside its work"},
    {"simt_block_steps", "steps", &Gpu::simt_block_steps, 0, 128, "time of the start and the end of a block, in steps of the reduction"},
    {"simt_sum_cycles", "cycles", &Gpu::simt_sum_cycles, 500, 16000, "time of the second kernel of a cut reduction"},
    {"simt_part", "steps", &Gpu::simt_part, 16, 512, "length of the shortest part that pays for a block of its own"},
    {"mma_bytes", "bytes/cycle", &Gpu::mma_bytes, 1000, 8192, "multiply-adds of a multiprocessor on matrix units, times the bytes of an operand"},
    {"mma_wait", "share", &Gpu::mma_wait, 0, 6, "time that a warp alone waits for a matrix unit, beside its work"},
    {"mma_l2_bytes", "bytes/cycle", &Gpu::mma_l2_bytes, 8, 128, "rate of a multiprocessor from the second cache, by products on matrix units"},
    {"mma_memory_cycles", "cycles", &Gpu::mma_memory_cycles, 300, 3000, "latency of memory, which tiles under way have to hide"},
    {"mma_half_line", "factor", &Gpu::mma_half_line, 1, 2, "cost of a line of which a block reads half"},
    {"mma_element_cycles", "cycles", &Gpu::mma_element_cycles, 0.05, 2, "time of an element that is loaded singly"},
    {"mma_element_latency", "cycles", &Gpu::mma_element_latency, 0, 200, "share of the latency of such loads in a step"},
    {"mma_element_wait", "cycles", &Gpu::mma_element_wait, 20, 800, "time of such an element where the depth has one tile"},
    {"mma_not_hidden", "share", &Gpu::mma_not_hidden, 0, 1, "share of the smaller costs of a step that the largest one does not hide"},
    {"mma_block_cycles", "cycles", &Gpu::mma_block_cycles, 200, 6000, "time of the start and the end of a block"},
    {"mma_sum_cycles", "cycles", &Gpu::mma_sum_cycles, 500, 16000, "time of the second kernel of a cut reduction"},
    {"mma_part", "steps", &Gpu::mma_part, 64, 2048, "length of the shortest part that pays for a block of its own"},
    {"mma_stages", "tiles", &Gpu::mma_stages, 2, 8, "the most tiles of operands in rotation; one more where results are few"},
    {"mma_few_results", "results", &Gpu::mma_few_results, 16, 65536, "results for each multiprocessor below which these tiles are one more"},
    {"mma_tile_steps", "steps", &Gpu::mma_tile_steps, 1, 8, "the most steps of the matrix unit in a tile of operands"},
    {"group_together", "factor", &Gpu::group_together, 1, 1.5, "time of products of warp groups that begin together, over that of groups that take turns"},
    {"group_pair_together", "factor", &Gpu::group_pair_together, 1, 1.5, "the same of pairs of blocks"},
    {"group_row_cycles", "cycles", &Gpu::group_row_cycles, 1, 8, "time of a row of a box from the second cache"},
    {"group_split_row_cycles", "cycles", &Gpu::group_split_row_cycles, 1, 12, "the same of a row that begins within a sector"},
    {"group_pair_cycles", "cycles", &Gpu::group_pair_cycles, 0, 6000, "time in which a pair of blocks begins"},
    {"group_fill_cycles", "cycles", &Gpu::group_fill_cycles, 300, 6000, "time of the first loads of a block"},
    {"group_stores", "elements/cycle", &Gpu::group_stores, 1, 32, "results that lanes store"},
    {"group_boxed", "elements/cycle", &Gpu::group_boxed, 4, 128, "results that go to boxes in shared memory"},
    {"group_box_wait", "cycles", &Gpu::group_box_wait, 100, 3000, "time until the boxes of a tile have been read"},
    {"group_part_cycles", "cycles", &Gpu::group_part_cycles, 500, 12000, "time from one block to the next where they share a tile"},
    {"group_sharing_gains", "factor", &Gpu::group_sharing_gains, 1, 1.3, "least expected gain for which blocks share tiles"},
    {"group_worthwhile", "share", &Gpu::group_worthwhile, 0.6, 1.2, "cost beside that of other matrix units below which warp groups are taken"},
    {"window_load", "instructions", &Gpu::window_load, 0.5, 8, "of a load, by sliding windows, beside a multiply-add"},
    {"window_convert", "instructions", &Gpu::window_convert, 0.1, 2, "of converting a short element"},
    {"window_guard", "instructions", &Gpu::window_guard, 0.2, 6, "of the guard of a vector of the image"},
    {"window_store", "instructions", &Gpu::window_store, 0.1, 3, "of storing a vector"},
    {"window_text", "instructions", &Gpu::window_text, 200, 5000, "text of a thread that the cache of instructions holds"},
    {"window_addresses", "registers", &Gpu::window_addresses, 8, 64, "of a thread for addresses"},
    {"window_registers", "share", &Gpu::window_registers, 0.4, 1.5, "registers of an element of the window"},
    {"window_warps", "warps", &Gpu::window_warps, 1, 32, "that hide latencies, as the constant of an exponential"},
    {"window_tail", "share", &Gpu::window_tail, 0, 1, "cost of tiles that do not divide an axis"},
    {"window_spill", "share", &Gpu::window_spill, 0.05, 2, "cost of each register beyond those of a thread"},
    {"window_overlap", "exponent", &Gpu::window_overlap, 1, 4, "norm by which arithmetic and memory add up"},
    {"window_threads", "threads", &Gpu::window_threads, 64, 2048, "of a multiprocessor from which on longer tiles pay"},
    {"attention_registers", "registers", &Gpu::attention_registers, 128, 400, "as the rule counts them, up to which attention does not spill"},
    {"attention_unmasked_registers", "registers", &Gpu::attention_unmasked_registers, 128, 400, "the same without masks"},
    {"attention_balanced_blocks", "blocks", &Gpu::attention_balanced_blocks, 1, 64, "for each multiprocessor from which on causal rows balance"},
    {"attention_group_rows", "rows", &Gpu::attention_group_rows, 8, 512, "from which on warp groups pay"},
    {"attention_share_of_use", "share", &Gpu::attention_share_of_use, 0.2, 1, "of the multiply-adds of warp groups that have to be of use"},
    {"attention_tiles_to_begin", "tiles", &Gpu::attention_tiles_to_begin, 0, 16, "time in which a block begins and ends"},
    {"attention_tiles_of_sum", "tiles", &Gpu::attention_tiles_of_sum, 0, 64, "time in which the parts are added up"},
    {"attention_blocks_for_memory", "blocks", &Gpu::attention_blocks_for_memory, 1, 16, "of a multiprocessor that keep enough bytes under way"},
    {"pad_element_rate", "multiply-adds/s", &Gpu::pad_element_rate, 1e13, 4e14, "of 16-bit products whose rows TMA cannot load"},
    {"pad_box_rate", "multiply-adds/s", &Gpu::pad_box_rate, 4e13, 1e15, "of those whose rows it can"},
    {"pad_copy_rate", "bytes/s", &Gpu::pad_copy_rate, 3e11, 1e13, "of a copy that pads an operand"},
    {"pad_kernel", "s", &Gpu::pad_kernel, 5e-7, 1e-5, "time of a kernel beside its work"},
    {"pad_step", "s", &Gpu::pad_step, 1e-8, 3e-7, "time of a step of the depth whose elements are loaded singly"},
    {"pad_load_rate", "loads/s", &Gpu::pad_load_rate, 5e10, 2e12, "of a convolution of few channels"},
    {"pad_gain", "factor", &Gpu::pad_gain, 1, 2, "least expected gain for which operands are padded"},
    {"tf32_gain", "factor", &Gpu::tf32_gain, 1, 4, "least expected gain for which three products in tf32 stand for one"},
    {"short_column", "rows", &Gpu::short_column, 8, 8192, "length of columns up to which a thread reads them once for a softmax"},
    {"short_column_gain", "factor", &Gpu::short_column_gain, 0.5, 4, "what that gains"},
});
// clang-format on

/// The constants as they are without a file.
struct Defaults {
  CpuConstants cpu = {};
  GpuConstants gpu = {};
};

/// The member of RuleConstants, or of the defaults.
template <class Constants>
constexpr double read(const Constants& c, const ConstantInfo::Member& member) {
  switch (member.index()) {
    case 0: return static_cast<double>(c.cpu.*std::get<0>(member));
    case 1: return c.cpu.*std::get<1>(member);
    case 2: return static_cast<double>(c.gpu.*std::get<2>(member));
    default: return c.gpu.*std::get<3>(member);
  }
}

/// Whether the table has each member of the struct once, with a default within its range.
template <class Struct, std::size_t N>
constexpr bool is_whole(const std::array<ConstantInfo, N>& table) {
  static_assert(sizeof(Struct) == N * sizeof(double),
                "each constant has a line, and each line one");
  const Defaults defaults;
  for (std::size_t i = 0; i < N; ++i) {
    const double value = read(defaults, table[i].member);
    if (value < table[i].low || value > table[i].high) return false;
    for (std::size_t j = 0; j < i; ++j) {
      if (table[i].member == table[j].member || table[i].name == table[j].name) return false;
    }
  }
  return true;
}
static_assert(is_whole<CpuConstants>(kCpu) && is_whole<GpuConstants>(kGpu));

std::string number_text(double value) {
  return value == std::round(value) ? std::to_string(static_cast<std::int64_t>(value))
                                    : Json(value).dump();
}

[[noreturn]] void refuse(const std::string& place, const std::string& why,
                         const std::string& help) {
  throw_user_error(place + ": " + why, {}, help);
}

}  // namespace

std::span<const ConstantInfo> constants_of(std::string_view kind) {
  if (kind == "cuda") return kGpu;
  return kCpu;
}

const RuleConstants& default_constants() {
  static const RuleConstants constants;
  return constants;
}

double value_of(const RuleConstants& constants, const ConstantInfo& info) {
  return read(constants, info.member);
}

void set_value(RuleConstants* constants, const ConstantInfo& info, double value) {
  if (info.is_count()) value = std::round(value);
  if (!(value >= info.low && value <= info.high))
    throw_user_error("the constant " + std::string(info.name) + " cannot be " + number_text(value),
                     {},
                     "it is " + number_text(info.low) + " to " + number_text(info.high) + " " +
                         std::string(info.unit));
  switch (info.member.index()) {
    case 0: constants->cpu.*std::get<0>(info.member) = static_cast<std::int64_t>(value); break;
    case 1: constants->cpu.*std::get<1>(info.member) = value; break;
    case 2: constants->gpu.*std::get<2>(info.member) = static_cast<std::int64_t>(value); break;
    default: constants->gpu.*std::get<3>(info.member) = value;
  }
}

std::vector<double> values_across(const ConstantInfo& info, int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) {
    const double share = i / (count - 1.0);
    double v = info.low > 0 ? info.low * std::pow(info.high / info.low, share)
                            : info.low + share * (info.high - info.low);
    if (info.is_count()) v = std::round(v);
    v = std::clamp(v, info.low, info.high);
    if (values.empty() || values.back() != v) values.push_back(v);
  }
  return values;
}

std::string moved_text(const RuleConstants& constants, std::string_view kind) {
  std::string text;
  for (const ConstantInfo& info : constants_of(kind)) {
    const double now = value_of(constants, info), usual = value_of(default_constants(), info);
    if (now == usual) continue;
    text += (text.empty() ? "" : ", ") + std::string(info.name) + " " + number_text(now) + " (" +
            number_text(usual) + " by default)";
  }
  return text;
}

Json constants_json(const RuleConstants& constants, std::string_view kind, const Json& training) {
  Json moved = Json::object();
  for (const ConstantInfo& info : constants_of(kind)) {
    const double now = value_of(constants, info);
    if (now == value_of(default_constants(), info)) continue;
    if (info.is_count())
      moved[std::string(info.name)] = static_cast<std::int64_t>(now);
    else
      moved[std::string(info.name)] = now;
  }
  return Json::object({{"heddle_constants", 1},
                       {"kind", std::string(kind)},
                       {"constants", std::move(moved)},
                       {"training", training}});
}

RuleConstants parse_constants(std::string_view text, std::string_view kind,
                              const std::string& place) {
  const Json json = Json::parse(text, place);
  const std::string again = "run `heddle learn` again, or correct it";
  if (!json.is_object()) refuse(place, "constants are an object", again);
  for (const auto& [key, value] : json.members()) {
    if (key != "heddle_constants" && key != "kind" && key != "constants" && key != "training")
      refuse(place, "there is no key '" + key + "'", again);
  }
  const Json *format = json.find("heddle_constants"), *of = json.find("kind"),
             *values = json.find("constants");
  if (format == nullptr || !format->is_int() || format->as_int() != 1)
    refuse(place, "it is not of format 1 ('heddle_constants')", again);
  if (of == nullptr || !of->is_string() || of->as_string() != kind)
    refuse(place, "it is not for targets of kind '" + std::string(kind) + "'", again);
  if (values == nullptr || !values->is_object())
    refuse(place, "'constants' is no object of names and numbers", again);
  RuleConstants out;
  const std::span<const ConstantInfo> all = constants_of(kind);
  std::vector<std::string> names;
  for (const ConstantInfo& info : all) names.emplace_back(info.name);
  for (const auto& [name, value] : values->members()) {
    const auto info = std::ranges::find(all, name, &ConstantInfo::name);
    if (info == all.end()) {
      const std::string guess = did_you_mean(name, names);
      refuse(place, "there is no constant '" + name + "'",
             guess.empty() ? "`heddle heuristic constants` lists them" : guess);
    }
    if (info->is_count() ? !value.is_int() : !value.is_number())
      refuse(place,
             "the constant " + name + " is no " + (info->is_count() ? "whole " : "") + "number",
             again);
    try {
      set_value(&out, *info, value.as_double());
    } catch (const Error& e) {
      refuse(place, e.message, e.help);
    }
  }
  return out;
}

}  // namespace heddle
