#include "support/hashing/hash.h"

namespace heddle {

std::uint64_t hash_bytes(const void* data, std::size_t size, std::uint64_t seed) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::uint64_t h = hash_combine(seed, size);
  for (std::size_t i = 0; i < size; i += 8) {
    std::uint64_t word = 0;
    // Compilers turn the full-word case into one load.
    for (std::size_t b = 0; b < 8 && i + b < size; ++b) {
      word |= static_cast<std::uint64_t>(bytes[i + b]) << (8 * b);
    }
    h = hash_combine(h, word);
  }
  return h;
}

}  // namespace heddle
