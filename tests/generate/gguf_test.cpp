// Files of weights of ggml: what their blocks stand for, and files that are wrong.
#include "heddle/generate/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "generate/gguf_file.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/heddle.h"
#include "heddle/ops/ops.h"
#include "heddle/support/rng.h"
#include "support/files/file.h"
#include "support/numbers/half.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kQ4 = 2, kQ41 = 3, kQ50 = 6, kQ51 = 7, kQ8 = 8, kQ4K = 12, kQ5K = 13, kQ6K = 14,
                   kMx4 = 39;

struct Kind {
  uint32_t type;
  int64_t elements, bytes;
  std::vector<size_t> halves;  ///< the upper bytes of its numbers of f16
};
const Kind kKinds[] = {{kQ4, 32, 18, {1}},       {kQ41, 32, 20, {1, 3}},  {kQ50, 32, 22, {1}},
                       {kQ51, 32, 24, {1, 3}},   {kQ8, 32, 34, {1}},      {kQ4K, 256, 144, {1, 3}},
                       {kQ5K, 256, 176, {1, 3}}, {kQ6K, 256, 210, {209}}, {kMx4, 32, 17, {}}};
const Kind& kind_of(uint32_t type) {
  return *std::ranges::find_if(kKinds, [&](const Kind& k) { return k.type == type; });
}

float half_at(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return half_to_float(bits);
}

/// Blocks of 32 with four or five bits each: dequantize_row_q4_0, q4_1, q5_0 and q5_1 of ggml-quants.c.
std::vector<float> small_block(uint32_t type, const uint8_t* block) {
  const bool has_least = type == kQ41 || type == kQ51, five = type == kQ50 || type == kQ51;
  const float d = half_at(block), m = has_least ? half_at(block + 2) : 0;
  const uint8_t* at = block + (has_least ? 4 : 2);
  uint32_t upper = 0;
  if (five) {
    std::memcpy(&upper, at, sizeof upper);
    at += sizeof upper;
  }
  const int zero = has_least ? 0 : five ? 16 : 8;
  std::vector<float> y(32);
  for (size_t j = 0; j < 16; ++j) {
    const auto first = static_cast<int>(((upper >> j) << 4) & 0x10);
    const auto second = static_cast<int>((upper >> (j + 12)) & 0x10);
    y[j] = static_cast<float>(((at[j] & 15) | first) - zero) * d + m;
    y[j + 16] = static_cast<float>(((at[j] >> 4) | second) - zero) * d + m;
  }
  return y;
}

/// dequantize_row_q4_K and q5_K.
std::vector<float> block_of_six_bits(const uint8_t* block, bool five) {
  std::vector<float> y;
  const float d = half_at(block), least = half_at(block + 2);
  const uint8_t *s = block + 4, *upper = block + 16, *q = block + (five ? 48 : 16);
  const auto scale_and_least = [&](int j, uint8_t* sc, uint8_t* m) {
    if (j < 4) {
      *sc = s[j] & 63;
      *m = s[j + 4] & 63;
    } else {
      *sc = static_cast<uint8_t>((s[j + 4] & 15) | ((s[j - 4] >> 6) << 4));
      *m = static_cast<uint8_t>((s[j + 4] >> 4) | ((s[j] >> 6) << 4));
    }
  };
  uint8_t u1 = 1, u2 = 2;
  for (int j = 0, is = 0; j < 256; j += 64, q += 32, is += 2) {
    uint8_t sc1, m1, sc2, m2;
    scale_and_least(is, &sc1, &m1);
    scale_and_least(is + 1, &sc2, &m2);
    const auto fifth = [&](int l, uint8_t u) { return five && (upper[l] & u) != 0 ? 16 : 0; };
    for (int l = 0; l < 32; ++l)
      y.push_back(d * sc1 * static_cast<float>((q[l] & 15) + fifth(l, u1)) - least * m1);
    for (int l = 0; l < 32; ++l)
      y.push_back(d * sc2 * static_cast<float>((q[l] >> 4) + fifth(l, u2)) - least * m2);
    u1 = static_cast<uint8_t>(u1 << 2);
    u2 = static_cast<uint8_t>(u2 << 2);
  }
  return y;
}

/// dequantize_row_q6_K.
std::vector<float> block_of_q6(const uint8_t* block) {
  std::vector<float> y(256);
  const float d = half_at(block + 208);
  const uint8_t *ql = block, *qh = block + 128;
  const auto* sc = reinterpret_cast<const int8_t*>(block + 192);
  for (size_t n = 0; n < 256; n += 128, ql += 64, qh += 32, sc += 8) {
    for (size_t l = 0; l < 32; ++l) {
      const size_t is = l / 16;
      const int q[] = {
          (ql[l] & 15) | ((qh[l] & 3) << 4), (ql[l + 32] & 15) | (((qh[l] >> 2) & 3) << 4),
          (ql[l] >> 4) | (((qh[l] >> 4) & 3) << 4), (ql[l + 32] >> 4) | (((qh[l] >> 6) & 3) << 4)};
      for (size_t part = 0; part < 4; ++part)
        y[n + l + 32 * part] = d * sc[is + 2 * part] * static_cast<float>(q[part] - 32);
    }
  }
  return y;
}

/// OCP Microscaling Formats 1.0: the scale is 2^(e - 127), an element of 4 bits a sign, two bits of an exponent with bias 1,
/// and one of a fraction. Bytes have elements j and j + 16.
std::vector<float> block_of_mx(const uint8_t* block) {
  std::vector<float> y(32);
  const auto element = [&](int code) {
    const int exponent = (code >> 1) & 3, fraction = code & 1;
    const double size =
        exponent == 0 ? 0.5 * fraction : std::ldexp(1 + 0.5 * fraction, exponent - 1);
    const double scale = block[0] == 255 ? std::nan("") : std::ldexp(1.0, block[0] - 127);
    return static_cast<float>(((code & 8) != 0 ? -size : size) * scale);
  };
  for (size_t j = 0; j < 16; ++j) {
    y[j] = element(block[1 + j] & 15);
    y[j + 16] = element(block[1 + j] >> 4);
  }
  return y;
}

/// The elements of a block, as ggml's reference computes them.
std::vector<float> elements_of(uint32_t type, const uint8_t* block) {
  if (type == kQ4K || type == kQ5K) return block_of_six_bits(block, type == kQ5K);
  if (type == kQ6K) return block_of_q6(block);
  if (type == kMx4) return block_of_mx(block);
  if (type != kQ8) return small_block(type, block);
  std::vector<float> y;
  for (size_t j = 0; j < 32; ++j)
    y.push_back(static_cast<float>(static_cast<int8_t>(block[2 + j])) * half_at(block));
  return y;
}

/// Random blocks whose scales are no NaN and no infinity.
std::string random_blocks(const Kind& kind, int64_t count, Rng& rng) {
  std::string bytes;
  for (int64_t b = 0; b < count; ++b) {
    const size_t begin = bytes.size();
    for (int64_t i = 0; i < kind.bytes; ++i) bytes += static_cast<char>(rng.uniform_int(0, 255));
    for (const size_t high : kind.halves)
      bytes[begin + high] = static_cast<char>(rng.uniform_int(0x20, 0x38));
    if (kind.type == kMx4) bytes[begin] = static_cast<char>(rng.uniform_int(119, 129));
  }
  return bytes;
}

class Gguf : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string written(const std::string& bytes) const {
    write_file_atomic(folder_ + "/w.gguf", bytes);
    return folder_ + "/w.gguf";
  }
  std::string error_of(const std::string& bytes) const {
    try {
      const GgufFile file(written(bytes));
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User) << e.what();
      return e.message;
    }
  }
  const std::string folder_ = ::testing::TempDir() + "heddle_gguf_" + std::to_string(::getpid());
};

TEST_F(Gguf, BlocksStandForWhatGgmlComputes) {
  Rng rng(3);
  for (const Kind& kind : kKinds) {
    for (const std::vector<uint64_t>& extents :
         {std::vector<uint64_t>{512}, {256, 3}, {512, 2, 2}}) {
      uint64_t elements = 1;
      for (const uint64_t n : extents) elements *= n;
      const std::string blocks =
          random_blocks(kind, static_cast<int64_t>(elements) / kind.elements, rng);
      const GgufFile file(written(gguf_bytes({{"w", extents, kind.type, blocks}})));
      const Tensor w = file.weights("w");
      EXPECT_EQ(w.extents(), Extents(extents.rbegin(), extents.rend()));
      const NDArray got = interpret({w}, {})[0];
      for (int64_t b = 0; b * kind.bytes < std::ssize(blocks); ++b) {
        const std::vector<float> want = elements_of(
            kind.type, reinterpret_cast<const uint8_t*>(blocks.data()) + b * kind.bytes);
        for (int64_t i = 0; i < kind.elements; ++i)
          ASSERT_FLOAT_EQ(got.get(b * kind.elements + i), want[static_cast<size_t>(i)])
              << to_string(file.tensor("w").type) << " element " << i << " of block " << b;
      }
    }
  }
}

TEST_F(Gguf, PowersOfTwoAreScalesOfAnySize) {
  std::string blocks;
  for (int e = 0; e < 256; ++e) {
    blocks += static_cast<char>(e);
    for (int j = 0; j < 16; ++j) blocks += static_cast<char>((j << 4) | (15 - j));
  }
  const GgufFile file(written(gguf_bytes({{"w", {32, 256}, kMx4, blocks}})));
  const NDArray got = interpret({file.weights("w")}, {})[0];
  for (int64_t e = 0; e < 256; ++e) {
    const std::vector<float> want =
        block_of_mx(reinterpret_cast<const uint8_t*>(blocks.data()) + e * 17);
    for (int64_t i = 0; i < 32; ++i) {
      const double x = got.at<float>({e, i}), y = want[static_cast<size_t>(i)];
      ASSERT_TRUE(x == y || (std::isnan(x) && std::isnan(y)))
          << "exponent " << e << ", element " << i << ": " << x << " and not " << y;
    }
  }
}

TEST_F(Gguf, ProductsReadTheBitsOfTheFile) {
  Rng rng(4);
  for (const Kind& kind : kKinds) {
    const std::string blocks = random_blocks(kind, 24 * 512 / kind.elements, rng);
    const GgufFile file(written(gguf_bytes({{"w", {512, 24}, kind.type, blocks}})));
    for (const int64_t rows : {1, 3, 20}) {
      const Tensor x = placeholder({rows, 512}, f32, "x"), w = file.weights("w"),
                   y = ops::matmul(x, w, false, true);
      const NDArray in = NDArray::random({rows, 512}, f32, 5),
                    out = NDArray::zeros({rows, 24}, f32);
      Network({y}, Target::host()).build({x, y})(in, out);
      const NDArray want = interpret({y}, {{x, in}})[0];
      EXPECT_TRUE(allclose(out, want, 1e-3, 1e-2))
          << to_string(file.tensor("w").type) << " " << rows;
    }
  }
}

TEST_F(Gguf, PlainTensorsAndMetadataAreRead) {
  std::string numbers;
  for (const float x : {1.f, -2.f, 3.5f}) numbers += raw_bytes(x);
  const GgufFile file(written(gguf_bytes({{"bias", {3}, 0, numbers}}, 2)));
  EXPECT_EQ(interpret({file.weights("bias")}, {})[0].get(2), 3.5);
  EXPECT_EQ(file.metadata().at("general.architecture").as_string(), "toy");
  EXPECT_EQ(file.metadata().at("toy.block_count").as_int(), 2);
  EXPECT_EQ(file.metadata().at("toy.scale").as_double(), 0.5);
  EXPECT_FALSE(file.metadata().contains("tokenizer.tokens"));
  try {
    (void)file.tensor("biass");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.help, HasSubstr("'bias'"));
  }
}

TEST_F(Gguf, EveryFileThatIsCutOffIsRefused) {
  Rng rng(6);
  const std::string bytes = gguf_bytes({{"a", {32, 2}, kQ4, random_blocks(kind_of(kQ4), 2, rng)},
                                        {"b", {256}, kQ4K, random_blocks(kind_of(kQ4K), 1, rng)},
                                        {"c", {256}, kQ6K, random_blocks(kind_of(kQ6K), 1, rng)},
                                        {"d", {32}, kQ51, random_blocks(kind_of(kQ51), 1, rng)}});
  EXPECT_EQ(error_of(bytes), "");
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_NE(error_of(bytes.substr(0, n)), "") << n;
}

TEST_F(Gguf, MistakesAreErrors) {
  const std::string blocks(288, '\x11');
  const auto file = [&](std::vector<uint64_t> extents, uint32_t type) {
    return gguf_bytes({{"w", std::move(extents), type, blocks}});
  };
  EXPECT_THAT(error_of("GGML" + file({32}, kQ4).substr(4)), HasSubstr("does not begin with GGUF"));
  EXPECT_THAT(error_of(gguf_bytes({}, 1)), HasSubstr("its version is 1"));
  EXPECT_THAT(error_of(file({32}, 40)), HasSubstr("has the type 40"));
  for (const Kind& kind : kKinds) {
    const auto n = static_cast<uint64_t>(kind.elements);
    EXPECT_THAT(error_of(file({n + 1}, kind.type)),
                HasSubstr("no whole blocks of " + std::to_string(n)));
    EXPECT_THAT(error_of(file({n, uint64_t{1} << 60}, kind.type)),
                HasSubstr("larger than the file"));
    EXPECT_THAT(error_of(file({n, 500}, kind.type)), HasSubstr("file"));
    EXPECT_EQ(error_of(file({n}, kind.type)), "");
  }
  EXPECT_THAT(error_of(file({32, 1, 1, 1, 1}, kQ4)), HasSubstr("5 dimensions"));
  EXPECT_THAT(error_of(file({0}, kQ4)), HasSubstr("has no elements"));
  EXPECT_THAT(error_of(file({uint64_t{1} << 40, uint64_t{1} << 40}, kQ4)),
              HasSubstr("larger than the file"));
  EXPECT_THAT(error_of(file({32, 32}, kQ4)), HasSubstr("behind the end of the file"));
  EXPECT_THAT(error_of(gguf_bytes({{"w", {32}, kQ4, blocks}, {"w", {32}, kQ4, blocks}})),
              HasSubstr("occurs twice"));
  const auto aligned = [](const std::string& value) {
    return "GGUF" + raw_bytes<uint32_t>(3) + raw_bytes<uint64_t>(0) + raw_bytes<uint64_t>(1) +
           gguf_text("general.alignment") + value;
  };
  EXPECT_EQ(error_of(aligned(raw_bytes<uint32_t>(4) + raw_bytes<uint32_t>(64))), "");
  EXPECT_THAT(error_of(aligned(raw_bytes<uint32_t>(4) + raw_bytes<uint32_t>(48))),
              HasSubstr("its alignment is 48"));
  EXPECT_THAT(error_of(aligned(raw_bytes<uint32_t>(8) + gguf_text("64"))),
              HasSubstr("its alignment is \"64\""));
}

}  // namespace
}  // namespace heddle::testing
