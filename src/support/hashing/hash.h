// Hashes that are the same in every run and on every machine, since records and caches on disk are
// keyed by them. Nothing here looks at an address, and nothing here may ever change its result.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace heddle {

/// Spreads every input bit over all output bits (the finalizer of splitmix64).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// The order matters: combining a and then b differs from combining b and then a.
constexpr std::uint64_t hash_combine(std::uint64_t seed, std::uint64_t value) {
  return mix64(seed ^ (mix64(value) + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2)));
}

/// FNV-1a over the bytes, then mix64().
constexpr std::uint64_t hash_string(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return mix64(h ^ text.size());
}

/// A hash of the bits, not of the value: -0.0 and 0.0 differ, and equal NaN patterns agree.
constexpr std::uint64_t hash_double(double value) {
  return mix64(std::bit_cast<std::uint64_t>(value));
}

/// A hash of the bytes, eight at a time. The result does not depend on the byte order of the
/// machine.
std::uint64_t hash_bytes(const void* data, std::size_t size, std::uint64_t seed = 0);

}  // namespace heddle
