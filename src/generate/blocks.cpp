#include "generate/blocks.h"

#include <algorithm>

#include "heddle/support/error.h"

namespace heddle::generate {

Blocks::Blocks(int64_t count, int64_t rows, int64_t sequences, int64_t most)
    : count_(count), rows_(rows), blocks_(static_cast<size_t>(sequences)) {
  HEDDLE_ICHECK(count > 0 && rows > 0 && most > 0 && count <= INT32_MAX, "blocks of a cache");
  for (int64_t block = count; block-- > 0;) unused_.push_back(block);
}

int64_t Blocks::missing(const std::vector<int64_t>& rows) const {
  int64_t more = 0;
  for (size_t b = 0; b < blocks_.size(); ++b)
    more += std::max<int64_t>(0, needed(rows[b]) - std::ssize(blocks_[b]));
  return more;
}

void Blocks::grow(const std::vector<int64_t>& rows) {
  HEDDLE_ICHECK(missing(rows) <= unused(), "blocks that are free");
  for (size_t b = 0; b < blocks_.size(); ++b) {
    while (std::ssize(blocks_[b]) < needed(rows[b])) {
      blocks_[b].push_back(unused_.back());
      unused_.pop_back();
      changed_ = true;
    }
  }
}

void Blocks::release(size_t sequence) {
  std::vector<int64_t>& own = blocks_[sequence];
  unused_.insert(unused_.end(), own.rbegin(), own.rend());
  changed_ |= !own.empty();
  own.clear();
}

void Blocks::release_all() {
  for (size_t b = 0; b < blocks_.size(); ++b) release(b);
}

void Blocks::write(const NDArray& table) const {
  const int64_t most = table.extent(1);
  int32_t* entry = table.data<int32_t>();
  std::fill_n(entry, table.size(), -1);
  for (size_t b = 0; b < blocks_.size(); ++b)
    std::ranges::copy(blocks_[b], entry + static_cast<int64_t>(b) * most);
}

}  // namespace heddle::generate
