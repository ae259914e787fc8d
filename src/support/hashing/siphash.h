// SipHash-2-4 with a result of 128 bits (Aumasson and Bernstein, 2012): a keyed hash. Who does not
// know the key cannot find the hash of any contents.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle::internal {

/// The 16 bytes of a key or of a hash, as two little-endian words.
struct Bits128 {
  std::uint64_t low = 0, high = 0;
  friend bool operator==(const Bits128&, const Bits128&) = default;
};

/// The hash of what is added, in any parts.
class SipHash128 {
 public:
  explicit SipHash128(const Bits128& key);
  void add(const void* data, std::size_t size);
  Bits128 value() const;

 private:
  std::uint64_t v_[4];
  std::uint64_t size_ = 0;
  std::uint64_t rest_ = 0;  ///< the bytes after the last full word; the first one is the lowest
};

}  // namespace heddle::internal
