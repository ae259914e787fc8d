// Squares of elements that are stored by columns (instruction/transposed_square.h). Lane by lane that would
// be n * n loads. Here they are read by rows, whole vectors, and transposed in registers: unpacking pairs of
// rows, then pairs of those, within blocks of 128 bits, then the blocks change places (24 shuffles for 8 x 8).
#include "codegen/llvm/generator.h"
#include "instruction/transposed_square.h"

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

}  // namespace

size_t Generator::emit_transposed(const std::vector<Stmt>& stmts, size_t from) {
  const auto in_memory = [&](const Buffer& b) {
    const auto frame = frame_.buffers.find(b.get());
    return frame != frame_.buffers.end() && frame->second.base != nullptr;
  };
  const auto square = instructions::find_transposed_square(
      stmts, from, {ranges_, machine_.vector_bytes, in_memory}, &why_no_square_);
  if (!square) return 0;
  const DataType dtype = square->load->dtype;
  if (square->ahead) emit_prefetch_rows(*square->ahead, *square->load, square->stride);
  const Storage& storage = storage_of(square->load->buffer);
  llvm::SmallVector<Value*, 16> rows;
  Value* base = address(storage, dtype, square->base);
  for (int lane = 0; lane < dtype.lanes; ++lane) {
    Value* row = advance(base, dtype, square->stride * lane);
    rows.push_back(load_contiguous(storage, dtype, row, nullptr));
  }
  rows = transpose(b_, std::move(rows));
  for (size_t i = 0; i < rows.size(); ++i) {
    const Store& store = *square->stores[i];
    store_value(store, rows[i]);
    note_expected(store, StoreHint::TransposedSquare, true);
    memo_rewind(0);
  }
  return square->end - from;
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
