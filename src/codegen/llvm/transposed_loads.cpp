// A square of elements that is stored by columns, one vector each: n stores whose values are n
// lanes a row apart, from n neighbouring columns. Lane by lane that would be n * n loads. Here the
// square is read by its rows, whole vectors, and transposed in registers: unpacking pairs of rows,
// then pairs of those, within blocks of 128 bits, then the blocks change places (24 shuffles for
// 8 x 8).
#include <bit>

#include "codegen/llvm/generator.h"

namespace heddle::codegen {

using llvm::Value;

namespace {

constexpr int kBlock = 4;  // elements of 32 bits in 128

// Unpacks the low or high halves of the 128-bit blocks, `unit` elements at a time: unpcklps is
// (1, low), unpckhpd is (2, high).
Value* unpack(Builder& b, Value* x, Value* y, int lanes, int unit, bool high) {
  llvm::SmallVector<int, 16> mask;
  for (int block = 0; block < lanes; block += kBlock) {
    for (int i = 0; i < kBlock / 2; i += unit) {
      const int at = block + (high ? kBlock / 2 : 0) + i;
      for (int u = 0; u < unit; ++u) mask.push_back(at + u);
      for (int u = 0; u < unit; ++u) mask.push_back(lanes + at + u);
    }
  }
  return b.CreateShuffleVector(x, y, mask);
}

// The rows of an n x n square in place of its columns.
llvm::SmallVector<Value*, 16> transpose(Builder& b, llvm::SmallVector<Value*, 16> rows) {
  const int n = static_cast<int>(rows.size());
  // Within every four rows: block j of vector c gets their elements of column 4 j + c.
  for (int g = 0; g < n; g += kBlock) {
    Value* low[2] = {unpack(b, rows[g], rows[g + 1], n, 1, false),
                     unpack(b, rows[g + 2], rows[g + 3], n, 1, false)};
    Value* high[2] = {unpack(b, rows[g], rows[g + 1], n, 1, true),
                      unpack(b, rows[g + 2], rows[g + 3], n, 1, true)};
    rows[g] = unpack(b, low[0], low[1], n, 2, false);
    rows[g + 1] = unpack(b, low[0], low[1], n, 2, true);
    rows[g + 2] = unpack(b, high[0], high[1], n, 2, false);
    rows[g + 3] = unpack(b, high[0], high[1], n, 2, true);
  }
  // The blocks form a matrix: its halves change places, then the halves of those (Eklundh).
  for (int h = n / 2; h >= kBlock; h /= 2) {
    llvm::SmallVector<int, 16> upper(n), lower(n);
    for (int lane = 0; lane < n; ++lane) {
      upper[lane] = lane & h ? n + lane - h : lane;
      lower[lane] = lane & h ? n + lane : lane + h;
    }
    for (int i = 0; i < n; ++i) {
      if (i & h) continue;
      Value* first = rows[i];
      rows[i] = b.CreateShuffleVector(first, rows[i + h], upper);
      rows[i + h] = b.CreateShuffleVector(first, rows[i + h], lower);
    }
  }
  return rows;
}

/// The lanes of a load, where they lie apart by a constant. Elements up to four apart are handled
/// as whole vectors and shuffles.
std::optional<AffineLanes> columns(const Load& l) {
  auto lanes = as_affine_lanes(l.indices[0]);
  const int64_t* stride = lanes ? as_int(lanes->stride) : nullptr;
  if (!stride || *stride <= kBlock) return std::nullopt;
  return lanes;
}

}  // namespace

size_t Generator::emit_transposed(const std::vector<Stmt>& stmts, size_t from) {
  // Prefetches of what is read next may stand between the stores.
  std::vector<const Store*> stores;
  const Prefetch* ahead = nullptr;
  size_t end = from;
  const auto take = [&](size_t n) {
    for (; end < stmts.size() && stores.size() < n; ++end) {
      if (const auto* store = stmts[end].as<Store>()) {
        stores.push_back(store);
      } else if (const auto* prefetch = stmts[end].as<Prefetch>()) {
        if (!ahead) ahead = prefetch;
      } else {
        return;
      }
    }
  };
  take(1);
  const auto* load = stores.empty() ? nullptr : stores[0]->value.as<Load>();
  if (!load || load->indices.size() != 1 || contains_load(load->indices[0])) return 0;
  const DataType dtype = load->dtype;
  const int n = dtype.lanes;
  if (n < kBlock || !std::has_single_bit(static_cast<unsigned>(n)) || dtype.bits != 32 ||
      dtype.bytes() > machine_.vector_bytes)
    return 0;
  take(static_cast<size_t>(n));
  if (stores.size() < static_cast<size_t>(n)) return 0;
  const auto first = columns(*load);
  const auto frame = frame_.buffers.find(load->buffer.get());
  if (!first || frame == frame_.buffers.end() || !frame->second.base) return 0;
  for (int i = 0; i < n; ++i) {
    const Store* s = stores[static_cast<size_t>(i)];
    const auto* l = s->value.as<Load>();
    // All elements are read before any is stored, so the store must not overlap the loads.
    if (!l || l->buffer != load->buffer || l->dtype != dtype || s->buffer == load->buffer ||
        l->indices.size() != 1 || s->indices.size() != 1)
      return 0;
    const auto lanes = columns(*l);
    if (!lanes || !equal(lanes->stride, first->stride)) return 0;
    if (!is_const(simplify(lanes->base - first->base, ranges_), i)) return 0;
  }
  const int64_t stride = *as_int(first->stride);
  if (ahead) emit_prefetch_rows(*ahead, *load, stride);
  const Storage& storage = storage_of(load->buffer);
  llvm::SmallVector<Value*, 16> rows;
  Value* base = address(storage, dtype, first->base);
  for (int lane = 0; lane < n; ++lane) {
    Value* row = advance(base, dtype, stride * lane);
    rows.push_back(load_contiguous(storage, dtype, row, nullptr));
  }
  rows = transpose(b_, std::move(rows));
  for (int i = 0; i < n; ++i) {
    const Store& store = *stores[static_cast<size_t>(i)];
    store_value(store, rows[static_cast<size_t>(i)]);
    note_expected(store, StoreHint::TransposedSquare, true);
    memo_rewind(0);
  }
  return end - from;
}

// A prefetch names the address of its first lane, which stands for one cache line. The lanes of a
// square are rows, each in a line of its own, so each row is prefetched.
void Generator::emit_prefetch_rows(const Prefetch& s, const Load& load, int64_t stride) {
  const bool of_the_rows = s.buffer == load.buffer;
  for (int lane = 0; lane < (of_the_rows ? load.dtype.lanes : 1); ++lane) {
    emit_prefetch(*make_prefetch(s.buffer, {s.indices[0] + Expr(stride * lane)}).as<Prefetch>());
  }
}

}  // namespace heddle::codegen
