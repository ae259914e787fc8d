#include "cuda/products/warp_group_fit.h"

#include <algorithm>

namespace heddle::meta {
namespace {

constexpr int64_t kBoxRow = 64;  // 16-bit elements of a row of a box
constexpr int64_t kGroupThreads = 128;

}  // namespace

int64_t stage_bytes(const WarpGroupTile& t) { return (t.rows() + t.cols) * tma::kRowBytes; }

int64_t boxed_bytes(const TensorCoreProblem& p, const WarpGroupTile& t) {
  constexpr int64_t kSumBytes = 4;
  const int64_t tiles = t.store >= 2 ? 1 : t.tiles, bytes = p.viewed ? kSumBytes : p.boxed_bytes;
  return t.store == 0 ? 0 : (1 + t.turns) * 64 * tiles * t.groups * t.cols * bytes;
}

int64_t most_stages(const TensorCoreProblem& p, const WarpGroupTile& t) {
  return (p.gpu.smem_per_block - kOtherBytes - boxed_bytes(p, t)) / stage_bytes(t);
}

bool may_box(const TensorCoreProblem& p, const WarpGroupTile& t) {
  constexpr int64_t kPiece = 16;
  if (p.viewed && t.store != 3) return false;
  if (t.exchanged) return t.store == 1 && kBoxRow * p.boxed_bytes == tma::kRowBytes;
  return p.boxed_bytes > 0 &&
         t.cols * p.boxed_bytes % (t.store == 3 ? kPiece : tma::kRowBytes) == 0;
}

int64_t threads_of(const WarpGroupTile& t) { return (t.groups + t.turns + 1) * kGroupThreads; }

bool boxes_of_use(const WarpGroupTile& t, int64_t rows, int64_t cols) {
  constexpr int64_t kMostLines = 256;  // that TMA loads as one box
  return t.rows() <= kMostLines && t.rows() - kBoxRow < rows && t.cols - kBoxRow < cols;
}

int64_t accumulators(const TensorCoreProblem& p, int64_t tiles, int64_t cols) {
  return tiles * cols / 2 * (p.partial_sums ? 2 : 1);
}

std::vector<int64_t> column_counts(const TensorCoreProblem& p) {
  const int64_t step = p.cols_lie_across ? kBoxRow : p.pack == 4 ? 16 : 8;
  std::vector<int64_t> out;
  for (int64_t n = std::max<int64_t>(step, 32); n <= 256; n += step) out.push_back(n);
  return out;
}

int64_t rows_of_tiles(int64_t rows, const WarpGroupTile& t) {
  return ceil_div(ceil_div(rows, t.rows()), t.pair) * t.pair;
}

int64_t tiles_of(const TensorCoreProblem& p, const WarpGroupTile& t) {
  return rows_of_tiles(p.rows, t) * ceil_div(p.cols, t.cols) * p.batch;
}

LastRound shared_round(const TensorCoreProblem& p, const WarpGroupTile& t) {
  return last_round(tiles_of(p, t), p.gpu.sms, ceil_div(p.depth, group_box_row(p.pack)));
}

bool may_share(const TensorCoreProblem& p, const WarpGroupTile& t) {
  return t.stream == 0 || (t.pair == 1 && shared_round(p, t).shares());
}

bool may_take_turns(const TensorCoreProblem& p, const WarpGroupTile& t) {
  if (t.turns == 0) return true;
  return t.groups == 1 && (t.stream || tiles_of(p, t) > p.gpu.sms);
}

}  // namespace heddle::meta
