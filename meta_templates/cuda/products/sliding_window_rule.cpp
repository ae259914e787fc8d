#include "cuda/products/sliding_window_rule.h"

#include <algorithm>
#include <cmath>

namespace heddle::meta {
namespace {

// The most accumulators of a thread, elements of its window, and multiply-adds in its text.
constexpr int64_t kMostAccumulators = 64, kMostWindow = 192, kMostSteps = 1024;

/// The instructions of one thread.
double thread_instructions(const WindowProblem& p, const WindowTile& t) {
  const GpuConstants& by = p.constants;
  const auto points = static_cast<double>(t.points()), taps = static_cast<double>(p.taps);
  const auto window = static_cast<double>(p.window(t)), lanes = static_cast<double>(t.lanes);
  const bool narrow = p.element_bytes < 4;
  const double vectors = std::max(1.0, lanes * static_cast<double>(p.element_bytes) / 16);
  const double steps = points * taps;
  double sum =
      by.window_load * vectors * (window / lanes + taps) + by.window_guard * window / lanes;
  if (narrow) sum += by.window_convert * (window + taps * lanes);
  sum += steps + points * p.epilogue_flops + by.window_store * vectors * points / lanes;
  const double text = steps * (narrow ? 1.5 : 1);
  // Text that is longer than the cache of instructions holds is fetched again by each warp.
  return sum * (1 + std::max(0.0, text - by.window_text) / by.window_text);
}

/// The registers of a thread: accumulators, the window in words, and what addresses take.
double thread_registers(const WindowProblem& p, const WindowTile& t) {
  return p.constants.window_addresses + static_cast<double>(t.points()) +
         p.constants.window_registers * static_cast<double>(p.window(t) * p.element_bytes) / 4;
}

/// The warps that an SM runs at a time, of `threads` of the whole GPU.
double resident_warps(const WindowProblem& p, const WindowTile& t, double threads,
                      double registers) {
  const auto of_block = static_cast<double>(t.threads);
  const double blocks = std::floor(p.gpu.registers_per_sm / (registers * of_block));
  const double resident = std::min<double>(p.gpu.threads_per_sm, std::max(1.0, blocks) * of_block);
  return std::min(resident, threads / p.gpu.sms) / static_cast<double>(kWarp);
}

/// Whole vectors of channels; tiles as long as there are enough threads. Where pooling slides along
/// the last axis, neighbouring threads have neighbouring points, and a tile only rows that leave no
/// rest: the window of a thread then has constant extents.
WindowTile largest_tile(const WindowProblem& p) {
  const bool rows = p.pools && p.taps_last > 1;
  WindowTile tile;
  tile.lanes = rows ? 1 : p.widest_lanes();
  const auto enough = [&](const WindowTile& t) {
    return p.points >= t.points() * p.constants.window_threads * p.gpu.sms;
  };
  while (tile.lanes > 2 && !enough(tile)) tile.lanes /= 2;
  tile.by_rows = p.has_rows && !p.fits(tile);
  while (tile.lanes > 1 && !p.fits(tile)) tile.lanes /= 2;
  for (const int64_t n : {2, 3, 4, 5}) {
    const bool of_x = rows ? p.x % n == 0 : n % 2 == 0, of_y = n == 2 && (!rows || p.y % n == 0);
    WindowTile wide = tile, high = tile;
    wide.x = high.y = n;
    if (of_x && n <= p.x && p.fits(wide) && enough(wide)) high.x = tile.x = n;
    if (of_y && n <= p.y && p.fits(high) && enough(high)) tile.y = n;
  }
  return tile;
}

/// The tile of the least estimate among those that leave enough threads; of equal ones the longest
/// along rows, whose elements are near each other.
WindowTile fastest_tile(const WindowProblem& p) {
  WindowTile best;
  best.by_rows = p.has_rows && !p.fits(best);
  double least = window_cycles(p, best);
  const int64_t most = std::max<int64_t>(2, p.points / (p.constants.window_threads * p.gpu.sms));
  for (const int64_t lanes : {1, 2, 4, 8}) {
    for (const int64_t x : {8, 4, 2, 1}) {
      for (const int64_t y : {1, 2, 4}) {
        for (const int64_t threads : {128, 64}) {
          const WindowTile tile{lanes, x, y, threads, best.by_rows};
          if (p.last % lanes != 0 || x > p.x || y > p.y || tile.points() > most || !p.fits(tile))
            continue;
          const double cycles = window_cycles(p, tile);
          if (cycles < least) {
            least = cycles;
            best = tile;
          }
        }
      }
    }
  }
  return best;
}

}  // namespace

bool WindowProblem::fits(const WindowTile& t) const {
  return t.points() <= kMostAccumulators && window(t) <= kMostWindow &&
         t.points() * taps <= kMostSteps;
}

NamedFeatures WindowProblem::features() const {
  const auto number = [](int64_t x) { return static_cast<double>(x); };
  return {{"points", number(points)},
          {"last", number(last)},
          {"x", number(x)},
          {"y", number(y)},
          {"taps", number(taps)},
          {"taps_last", number(taps_last)},
          {"pools", number(pools)},
          {"sms", number(gpu.sms)},
          {"stride", number(stride_x)},
          {"has_rows", number(has_rows)}};
}

double window_cycles(const WindowProblem& p, const WindowTile& t) {
  const GpuConstants& by = p.constants;
  const double tiles_x = std::ceil(static_cast<double>(p.x) / static_cast<double>(t.x));
  const double tiles_y = std::ceil(static_cast<double>(p.y) / static_cast<double>(t.y));
  const double threads = static_cast<double>(p.points / (p.x * p.y)) /
                         static_cast<double>(t.lanes) * tiles_x * tiles_y;
  const double registers = thread_registers(p, t);
  const double spilled = std::max(0.0, registers - p.gpu.registers_per_thread);
  const double warps = resident_warps(p, t, threads, registers - spilled);
  const double guards =
      1 + by.window_tail * static_cast<double>((p.x % t.x != 0) + (p.y % t.y != 0));
  const double busy = 1 - std::exp(-warps / by.window_warps);
  const double arithmetic = threads * thread_instructions(p, t) * guards *
                            (1 + by.window_spill * spilled) / (busy * p.gpu.sms * p.gpu.f32_lanes);
  const double bytes = static_cast<double>(p.points * (1 + p.stride_x * p.stride_y)) *
                       static_cast<double>(p.element_bytes);
  const double memory = bytes / (p.gpu.bandwidth_gbs * 1e3) * p.gpu.clock_mhz;
  return std::pow(std::pow(arithmetic, by.window_overlap) + std::pow(memory, by.window_overlap),
                  1 / by.window_overlap);
}

Choice sliding_window_rule(const WindowProblem& p) {
  const bool estimated = !p.pools && p.taps_last == 1 && p.stride_last == 1;
  const WindowTile tile = estimated ? fastest_tile(p) : largest_tile(p);
  Choice choice;
  choice.set("lanes", tile.lanes, "neighbouring points along the last axis, as vectors")
      .set("tile_x", tile.x, "points that share a window in registers, while threads are enough")
      .set("tile_y", tile.y, "rows of points that share a window")
      .set("threads", std::min(tile.threads, most_block_threads(p.gpu)), "several blocks to an SM");
  if (p.has_rows)
    choice.set("by_rows", tile.by_rows, "the whole window of a thread must fit its registers");
  return choice;
}

}  // namespace heddle::meta
