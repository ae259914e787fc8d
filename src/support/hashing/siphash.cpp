#include "support/hashing/siphash.h"

#include <bit>
#include <cstring>

namespace heddle::internal {
namespace {

void round(std::uint64_t (&v)[4]) {
  v[0] += v[1];
  v[1] = std::rotl(v[1], 13) ^ v[0];
  v[0] = std::rotl(v[0], 32);
  v[2] += v[3];
  v[3] = std::rotl(v[3], 16) ^ v[2];
  v[0] += v[3];
  v[3] = std::rotl(v[3], 21) ^ v[0];
  v[2] += v[1];
  v[1] = std::rotl(v[1], 17) ^ v[2];
  v[2] = std::rotl(v[2], 32);
}

void four_rounds(std::uint64_t (&v)[4]) {
  for (int i = 0; i < 4; ++i) round(v);
}

void absorb(std::uint64_t (&v)[4], std::uint64_t word) {
  v[3] ^= word;
  round(v);
  round(v);
  v[0] ^= word;
}

std::uint64_t load_word(const unsigned char* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  return word;
}

}  // namespace

SipHash128::SipHash128(const Bits128& key)
    : v_{key.low ^ 0x736f6d6570736575, key.high ^ 0x646f72616e646f6d ^ 0xee,
         key.low ^ 0x6c7967656e657261, key.high ^ 0x7465646279746573} {}

void SipHash128::add(const void* data, std::size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  const unsigned char* const end = bytes + size;
  for (; bytes != end && size_ % 8 != 0; ++bytes) {
    rest_ |= std::uint64_t{*bytes} << (8 * (size_++ % 8));
    if (size_ % 8 != 0) continue;
    absorb(v_, rest_);
    rest_ = 0;
  }
  std::uint64_t v[4] = {v_[0], v_[1], v_[2], v_[3]};  // in registers, as members are not
  for (; end - bytes >= 8; bytes += 8, size_ += 8) absorb(v, load_word(bytes));
  std::memcpy(v_, v, sizeof v);
  for (; bytes != end; ++bytes) rest_ |= std::uint64_t{*bytes} << (8 * (size_++ % 8));
}

Bits128 SipHash128::value() const {
  SipHash128 last = *this;
  absorb(last.v_, rest_ | size_ << 56);
  last.v_[2] ^= 0xee;
  Bits128 out;
  four_rounds(last.v_);
  out.low = last.v_[0] ^ last.v_[1] ^ last.v_[2] ^ last.v_[3];
  last.v_[1] ^= 0xdd;
  four_rounds(last.v_);
  out.high = last.v_[0] ^ last.v_[1] ^ last.v_[2] ^ last.v_[3];
  return out;
}

}  // namespace heddle::internal
