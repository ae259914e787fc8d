#include "support/hashing/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace heddle {
namespace {

// These are on disk, in records and caches: if one changes, so has the file format.
TEST(Hash, ValuesNeverChange) {
  EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(mix64(1), 0x910a2dec89025cc1ULL);
  EXPECT_EQ(hash_string(""), 0xc3817c016ba4ff30ULL);
  EXPECT_EQ(hash_string("heddle"), 0xdf17e5fe9a45798dULL);
  EXPECT_EQ(hash_combine(1, 2), 0xd0b725e93839f8bdULL);
  EXPECT_EQ(hash_bytes("0123456789", 10), 0x4193dfd2b7b85d92ULL);
}

TEST(Hash, OrderAndLengthMatter) {
  EXPECT_NE(hash_combine(hash_combine(0, 1), 2), hash_combine(hash_combine(0, 2), 1));
  const std::string zeros(16, '\0');
  std::set<std::uint64_t> seen;
  for (std::size_t n = 0; n <= 16; ++n) seen.insert(hash_bytes(zeros.data(), n));
  EXPECT_EQ(seen.size(), 17U);
  EXPECT_NE(hash_double(0.0), hash_double(-0.0));
}

}  // namespace
}  // namespace heddle
