#include "cuda/reductions/rows_rule.h"

namespace heddle::meta {
namespace {

// Elements of a row below which several blocks do not pay.
constexpr int64_t kLeastClusterRow = 1024;
// The most blocks of a cluster.
constexpr int64_t kMostClusterBlocks = 8;
// The constants say how many vectors of a row a thread has in flight at once. There are fewer where
// the rows do not fill the multiprocessors, and for heavy elements. (argmax on an H200, us: 4096 rows of 4096 take 19.6
// with four vectors per thread and 18.0 with two; 16384 rows of 1024 take 19.0 with a warp each and
// 17.1 with two vectors per thread.)
// The least elements of a thread for each part of a heavy sum that it then combines with others.
constexpr int64_t kElementsOfHeavy = 8;
// Vectors in flight when a row is read again and again; when a row has the largest number of
// threads.
constexpr int64_t kUnroll = 4, kMostUnroll = 8;
// Registers for addresses, accumulators and the like, besides the elements of a row.
constexpr int64_t kOtherRegisters = 24;
// For a row that several blocks share: the least threads of a block, and the most elements of a
// thread.
constexpr int64_t kLeastClusterThreads = 256, kMostClusterElements = 32;

// Warps of a multiprocessor over which the rows of a product are spread. Their first reads are then all
// under way at once. (H200, bf16, weights not in a cache, us: 2048 rows of 5632 take 7.1 with 62 warps and 8.0 with 15.)
constexpr int64_t kWarpsOfProduct = 48;
// The same where the elements of rows are unpacked: a thread has several rows, and the reads of all of them are under
// way before the first is unpacked. (H200, 4 bits, not in a cache, us: 5632 rows of 2048 take 5.0 with two rows a
// thread, 6.2 with one, 6.0 with four; 2048 rows of 5632 6.1 with warps of two, 12.6 with 12 of four.)
constexpr int64_t kWarpsOfUnpacked = 8, kRowsOfUnpacked = 2;
// Where launches overlap: from so many warps of a multiprocessor on each row has a warp, and so many warps share a block. The start
// of blocks then takes less of the time between kernels (docs/internals/decisions/gpu-lowering.md).
constexpr int64_t kWarpsOfOverlap = 4, kRowsOfOverlap = 8;
// Rows from which on a thread has twice as many: there are warps enough all the same.
constexpr int64_t kManyWarps = 32;
// The most vectors that a thread has under way of a product's rows.
constexpr int64_t kVectorsOfUnpacked = 12;

// The shortest vectors by which lanes share a row that has fewer elements than a warp has lanes.
constexpr int64_t kLeastVectorOfShortRow = 4;

// Vectors shorter than this count as parts of one: reads of single elements have to be more.
constexpr int64_t kWholeVector = 4;

// Whether the rows are too few to fill the multiprocessors.
bool few_rows(const RowProblem& p) { return p.rows < 2 * p.gpu.sms; }

// The fewest threads that keep a row in registers with few elements each, over as many blocks as
// possible. Small blocks let others on a multiprocessor load while one computes.
struct Spread {
  int64_t threads, blocks;
};
Spread spread(const RowGroupProblem& p, const RowSharing& sharing, int64_t threads) {
  Spread out{threads, 1};
  for (int64_t n : sharing.options) {
    if (sharing.rounds(n) * p.elements_of_vector > kMostClusterElements) continue;
    for (int64_t c : sharing.clusters) {
      const bool legal = c > 1 && n % (c * kWarp) == 0 && n / c <= sharing.most;
      if (legal && n / c >= kLeastClusterThreads) out = {n, c};
    }
    if (out.blocks > 1) break;
  }
  return out;
}

// The lanes of a row of fewer vectors than a warp has lanes: one vector each, or half as many lanes
// where that leaves none idle.
int64_t lanes_of_short_row(const RowSharing& r) {
  int64_t lanes = r.options.back();
  const auto whole = [&](int64_t n) { return r.extent % (n * r.vector) == 0; };
  return !whole(lanes) && lanes / 2 >= r.options.front() && whole(lanes / 2) ? lanes / 2 : lanes;
}

}  // namespace

NamedFeatures RowProblem::features() const {
  const auto number = [](auto x) { return static_cast<double>(x); };
  return {{"extent", number(extent)},
          {"lanes", number(lanes)},
          {"rows", number(rows)},
          {"by_clusters", number(by_clusters)},
          {"heavy", number(heavy)},
          {"sms", number(gpu.sms)},
          {"has_clusters", number(gpu.has_clusters())},
          {"block_threads", number(most_block_threads(gpu))}};
}

RowSharing share_rows(const RowProblem& p) {
  RowSharing r;
  r.clusters = {1};
  r.extent = p.extent;
  r.most = most_block_threads(p.gpu);
  r.vector = whole_vector(p.extent, p.lanes);
  const int64_t vectors = p.extent / r.vector;
  if (vectors < 2 * kWarp && (p.extent >= kWarp || r.vector >= kLeastVectorOfShortRow)) {
    for (int64_t n = 2; n < kWarp && n <= vectors; n *= 2) r.options.push_back(n);
  }
  for (int64_t n = kWarp; n <= r.most && n * r.vector <= p.extent; n += kWarp) {
    const bool power = (n & (n - 1)) == 0;
    const bool whole = p.extent % (n * r.vector) == 0;
    if (power || whole) r.options.push_back(n);
  }
  if (r.options.empty()) return r;
  if (p.by_clusters && p.gpu.has_clusters() && p.extent >= kLeastClusterRow) {
    r.clusters = {1, 2, 4, 8};
    for (int64_t n = 2 * r.most; n <= kMostClusterBlocks * r.most; n *= 2) {
      if (n * r.vector <= p.extent) r.options.push_back(n);
    }
  }
  return r;
}

int64_t threads_of_row(const RowProblem& p) {
  RowProblem of_block = p;
  of_block.by_clusters = false;
  const RowSharing r = share_rows(of_block);
  if (r.options.empty()) return 0;
  if (r.options.back() < kWarp) return lanes_of_short_row(r);
  // A short row gets a warp and needs no barrier. In a longer row each thread gets a few vectors.
  const int64_t vectors = ceil_div(p.extent, r.vector);
  const GpuConstants& by = p.constants;
  const int64_t of_heavy = std::max(by.row_vectors_of_heavy, kElementsOfHeavy / r.vector);
  const int64_t want = p.heavy ? of_heavy
                       : few_rows(p)
                           ? by.row_vectors_of_few
                           : by.row_vectors * std::max<int64_t>(1, kWholeVector / r.vector);
  const int64_t most = p.heavy ? by.heavy_threads : r.most;
  // Bytes count, not reads: a block for each row that is short costs more than its bytes, however they are read. (H200: 32769 rows
  // of 846 in bf16 take 40.2 us with two warps and 14.1 with one, 3084 of 526 in f16 4.07 and 2.03.)
  const int64_t whole = p.heavy ? vectors : ceil_div(p.extent, std::max(r.vector, p.lanes));
  const bool warp_each =
      whole <= (p.heavy ? want : by.warp_vectors) * kWarp && p.rows >= by.warp_rows * p.gpu.sms;
  int64_t chosen = kWarp;
  for (int64_t n : r.options) {
    if (n < kWarp) continue;
    if (warp_each || n > most) break;
    chosen = n;
    if (r.rounds(n) <= want) break;
  }
  // A similar number of threads that divides the row avoids the test at its end.
  if (!warp_each && p.extent % (chosen * r.vector) != 0) {
    int64_t best = 0;
    for (int64_t n : r.options) {
      if (p.extent % (n * r.vector) == 0 && 2 * n >= chosen && n <= 2 * chosen) best = n;
    }
    if (best > 0) chosen = best;
  }
  return chosen;
}

std::vector<int64_t> rows_of_threads(const RowProblem& p) {
  std::vector<int64_t> values = powers_of_two(1, 4 * kRowsOfUnpacked);
  std::erase_if(values, [&](int64_t n) { return p.in_line % n != 0; });
  return values;
}

std::vector<int64_t> rows_of_blocks(const RowSharing& sharing) {
  const bool parts = sharing.options.front() < kWarp;
  return powers_of_two(1, parts ? rows_of_block(sharing.options.front()) : 16);
}

namespace {

// The number of rows in a block. Few short rows make smaller blocks of whole warps: where the last
// warp is not whole, reductions go through shared memory.
int64_t chosen_rows(const RowProblem& p, int64_t threads) {
  int64_t rows = rows_of_block(threads);
  while (threads < kWarp && rows > p.rows && rows / 2 * threads % kWarp == 0) rows /= 2;
  return rows;
}

// The same for a sum that is stored at once. Many short rows make larger blocks, so that multiprocessors are not busy with the starts
// of blocks. (H200, f32, us with 4 and 8 rows a block: 174134 rows of 192 take 53.7 and 32.3, 9248 of 144 3.31 and 2.60; bf16 with
// 16: 142874 rows of 65 43.7 and 15.3.)
int64_t rows_of_sum(const RowProblem& p, const RowSharing& sharing, int64_t threads) {
  const int64_t most = rows_of_blocks(sharing).back();
  int64_t rows = chosen_rows(p, threads);
  const int64_t vectors = ceil_div(p.extent, p.lanes);
  const GpuConstants& by = p.constants;
  const auto larger = [&](int64_t n) {
    return n <= most && n * threads <= by.block_warps * kWarp &&
           p.rows >= n * p.gpu.sms * by.blocks_of_short_rows;
  };
  while (threads <= kWarp && rows * vectors < by.block_vectors && larger(2 * rows)) rows *= 2;
  return rows;
}

// Few long rows are shared by clusters of blocks; one block where they are not. (H200, f32, us of a block and of 8 for each
// row: 7 rows of 32768 take 2.12 and 1.51, 3 of 50517 4.76 and 1.84.)
Spread shared_by_blocks(const RowProblem& p, const RowSharing& r, int64_t threads) {
  const int64_t rounds = r.rounds(r.most), vectors = p.constants.row_vectors;
  const int64_t enough = vectors * (r.vector < kWholeVector ? 2 : 1);
  // Long rows may be so many times the clusters that the multiprocessors have place for, where a thread of a block alone
  // would have so many times the vectors under way.
  const int64_t of_long = p.constants.clusters_of_long_rows;
  const int64_t blocks = rounds > of_long * vectors ? of_long : 1;
  const bool pays = r.clusters.back() == kMostClusterBlocks && !p.heavy && rounds > vectors &&
                    p.rows * kMostClusterBlocks <= blocks * p.gpu.sms;
  Spread out{threads, 1};
  for (const int64_t n : r.options) {
    const bool whole = n % (kMostClusterBlocks * kWarp) == 0;
    if (!pays || !whole || n < kMostClusterBlocks * kLeastClusterThreads) continue;
    out = {n, kMostClusterBlocks};
    if (r.rounds(n) <= enough) break;
  }
  return out;
}

}  // namespace

Choice reduce_rows_rule(const RowProblem& p, int64_t wanted) {
  const RowSharing sharing = share_rows(p);
  const auto& offered = sharing.options;
  const bool given = std::find(offered.begin(), offered.end(), wanted) != offered.end();
  const int64_t of_block = given ? wanted : threads_of_row(p);
  const Spread s = given ? Spread{of_block, 1} : shared_by_blocks(p, sharing, of_block);
  const int64_t threads = s.threads;
  Choice c;
  c.set("threads", threads,
        given              ? "as many as there are parts to combine"
        : threads < kWarp  ? "a short row: a part of a warp, a vector each"
        : threads == kWarp ? "a short row: a warp has it in few vectors"
        : p.heavy          ? "two vectors a thread, 512 threads at most"
                           : "four vectors a thread, all under way");
  c.set("rows_per_block", given || s.blocks > 1 ? 1 : rows_of_sum(p, sharing, threads),
        "warps that need no barrier share a block");
  c.set("cluster", s.blocks,
        s.blocks > 1 ? "few long rows: blocks share them" : "rows enough for a block each");
  c.set("unroll", given ? kMostUnroll : std::min(kMostUnroll, sharing.rounds(threads)),
        "vectors a thread has under way");
  return c;
}

namespace {

int64_t own_rows(const RowProblem& p) {
  if (!p.unpacked) return 1;
  const bool many = p.rows >= 2 * kRowsOfUnpacked * kManyWarps * p.gpu.sms;
  int64_t own = 1;
  for (const int64_t n : rows_of_threads(p))
    if (n <= (many ? 2 : 1) * kRowsOfUnpacked) own = n;
  return own;
}

// Vectors of a row that a thread has under way: a number that leaves none over.
int64_t vectors_of_product(int64_t rounds) {
  int64_t vectors = std::min(kMostUnroll, rounds);
  for (int64_t n = vectors; n <= kVectorsOfUnpacked; ++n)
    if (rounds % n == 0) vectors = n;
  return vectors;
}

}  // namespace

Choice product_rows_rule(const RowProblem& p) {
  const RowSharing sharing = share_rows(p);
  const int64_t own = own_rows(p);
  const bool overlaps = p.gpu.has_dependent_launch() && p.rows / own >= kWarpsOfOverlap * p.gpu.sms;
  const int64_t warps = overlaps     ? kWarpsOfOverlap
                        : p.unpacked ? kWarpsOfUnpacked
                                     : kWarpsOfProduct;
  int64_t threads = sharing.options.front();
  for (const int64_t n : sharing.options) {
    if (threads >= kWarp && p.rows / own * threads >= warps * kWarp * p.gpu.sms) break;
    if (n <= sharing.most) threads = n;
  }
  Choice c;
  if (p.unpacked) c.set("rows_of_thread", own, "the vector of all rows is read once for several");
  c.set("threads", threads,
        threads <= kWarp ? "rows enough for a warp each" : "few rows: more warps for each");
  int64_t rows = chosen_rows(p, threads);
  while (overlaps && threads == kWarp && rows < kRowsOfOverlap &&
         4 * (p.rows / own) >= 3 * 2 * rows * p.gpu.sms)
    rows *= 2;
  c.set("rows_per_block", rows, "warps that need no barrier share a block");
  c.set("cluster", 1, "rows enough for a block each");
  c.set("unroll", vectors_of_product(sharing.rounds(threads)), "vectors a thread has under way");
  return c;
}

RowSharing RowGroupProblem::sharing() const {
  RowSharing s = share_rows(row);
  s.extent = last_extent;
  return s;
}

bool RowGroupProblem::fits(const RowSharing& sharing, int64_t threads, int64_t cluster,
                           int64_t rows) const {
  const int64_t of_block = row.gpu.registers_per_sm / (threads / cluster * rows);
  const int64_t room = std::min<int64_t>(row.gpu.registers_per_thread, of_block) - kOtherRegisters;
  return sharing.rounds(threads) * elements_of_vector <= room;
}

NamedFeatures RowGroupProblem::features() const {
  NamedFeatures f = row.features();
  const auto number = [](auto x) { return static_cast<double>(x); };
  f.push_back({"last_extent", number(last_extent)});
  f.push_back({"elements_of_vector", number(elements_of_vector)});
  f.push_back({"registers_per_thread", number(row.gpu.registers_per_thread)});
  f.push_back({"registers_per_sm", number(row.gpu.registers_per_sm)});
  return f;
}

Choice row_group_rule(const RowGroupProblem& p) {
  const RowSharing sharing = p.sharing();
  Spread s{threads_of_row(p.row), 1};
  // Larger blocks of short rows, where these fit. (H200, f16, us with 16 and 32 rows: softmax of 400000 rows of 64 31.4 and
  // 27.2, RMS norm 32.0 and 26.0; layer norm of 100000 rows of 256 with 4 and 8: 32.1 and 27.2.)
  int64_t rows = rows_of_sum(p.row, sharing, s.threads);
  if (!p.fits(sharing, s.threads, 1, rows)) rows = chosen_rows(p.row, s.threads);
  if (!p.fits(sharing, s.threads, 1, rows)) s = spread(p, sharing, s.threads);
  const bool stays = p.fits(sharing, s.threads, s.blocks, rows);
  Choice c;
  c.set("threads", s.threads,
        s.threads < kWarp    ? "a short row: a part of a warp, a vector each"
        : s.threads == kWarp ? "a short row: a warp has it in few vectors"
        : s.blocks > 1       ? "a long row: a few vectors a thread, in registers"
                             : "four vectors a thread, all under way");
  c.set("rows_per_block", rows, "warps that need no barrier share a block");
  c.set("cluster", s.blocks,
        s.blocks > 1 ? "more than the registers of a block hold"
                     : "a block has registers enough for a row");
  c.set("resident", stays,
        stays ? "the row fits the registers of its threads"
              : "the row is too long for registers: passes over it");
  // Data that a block has read must still be in the cache when it is read again. One long row per
  // multiprocessor, with many vectors in flight, achieves that: its registers leave no room for a
  // second block.
  c.set("unroll", s.threads >= sharing.most ? kMostUnroll : kUnroll,
        "vectors under way in a pass over the row");
  return c;
}

}  // namespace heddle::meta
