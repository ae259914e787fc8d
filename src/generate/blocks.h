// Which blocks of a cache sequences have (OnnxOptions::blocks).
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/runtime/ndarray.h"

namespace heddle::generate {

/// A sequence gets a block where its rows need one more, and keeps it until it is released.
class Blocks {
 public:
  Blocks() = default;  ///< none: sequences have memory of their own
  /// `count` blocks of `rows` rows, all of them free, for a table (sequences, most).
  Blocks(int64_t count, int64_t rows, int64_t sequences, int64_t most);

  explicit operator bool() const { return rows_ > 0; }
  int64_t count() const { return count_; }
  int64_t rows() const { return rows_; }
  int64_t unused() const { return static_cast<int64_t>(unused_.size()); }
  /// Those of a sequence, in the order of its rows.
  const std::vector<int64_t>& of(size_t sequence) const { return blocks_[sequence]; }

  /// The blocks beyond its own that sequences of so many rows need.
  int64_t missing(const std::vector<int64_t>& rows) const;
  /// Gives them out. There are as many.
  void grow(const std::vector<int64_t>& rows);
  void release(size_t sequence);
  void release_all();

  /// Writes the table, of i32; -1 where a sequence has no block.
  void write(const NDArray& table) const;
  /// Whether the table may be another one than that of the last call of set_changed(false).
  bool changed() const { return changed_; }
  void set_changed(bool changed) { changed_ = changed; }

 private:
  int64_t needed(int64_t rows) const { return (rows + rows_ - 1) / rows_; }

  int64_t count_ = 0, rows_ = 0;
  std::vector<std::vector<int64_t>> blocks_;
  std::vector<int64_t> unused_;  ///< the last one is given first
  bool changed_ = true;
};

}  // namespace heddle::generate
