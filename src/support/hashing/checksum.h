// A checksum of large contents that is about as fast as memory. It finds damage, such as a file
// that was cut, mixed up or changed by a bad disk. It is no defence: whoever wants to can find
// contents of any checksum (siphash.h).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "support/hashing/hash.h"

namespace heddle::internal {

/// The checksum of what is added, in any parts. A change of one word changes it always, because
/// every step is a bijection. Words are read in the byte order of the machine.
class Checksum {
 public:
  void add(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const char*>(data);
    size_ += size;
    while (size > 0) {
      if (rest_ == 0 && size >= sizeof block_) {
        // Local lanes stay in registers.
        std::uint64_t lanes[kLanes];
        std::memcpy(lanes, lanes_, sizeof lanes);
        for (; size >= sizeof block_; bytes += sizeof block_, size -= sizeof block_)
          absorb(lanes, bytes);
        std::memcpy(lanes_, lanes, sizeof lanes);
        continue;
      }
      const std::size_t room = sizeof block_ - rest_, part = size < room ? size : room;
      std::memcpy(block_ + rest_, bytes, part);
      bytes += part;
      size -= part;
      rest_ += part;
      if (rest_ < sizeof block_) continue;
      absorb(lanes_, block_);
      rest_ = 0;
    }
  }

  std::uint64_t value() const {
    std::uint64_t h = hash_bytes(block_, rest_, size_);
    for (const std::uint64_t lane : lanes_) h = hash_combine(h, lane);
    return h;
  }

 private:
  // Independent chains, so that the multiplications overlap.
  static constexpr std::size_t kLanes = 4;

  static void absorb(std::uint64_t (&lanes)[kLanes], const char* block) {
    std::uint64_t words[kLanes];
    std::memcpy(words, block, sizeof words);
    for (std::size_t l = 0; l < kLanes; ++l)
      lanes[l] = (std::rotl(lanes[l], 29) ^ words[l]) * 0x9e3779b97f4a7c15ULL;
  }

  std::uint64_t lanes_[kLanes] = {1, 2, 3, 4};
  char block_[kLanes * sizeof(std::uint64_t)];
  std::size_t rest_ = 0;  ///< bytes in the block
  std::uint64_t size_ = 0;
};

}  // namespace heddle::internal
