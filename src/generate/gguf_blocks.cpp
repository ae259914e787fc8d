#include "generate/gguf_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "heddle/dsl/arrays.h"
#include "heddle/support/error.h"

namespace heddle::generate {
namespace {

constexpr int64_t kBlock = 32, kSuper = 256;

constexpr BlockForm kForms[] = {{GgufType::F32, "f32", 1, 4},
                                {GgufType::F16, "f16", 1, 2},
                                {GgufType::BF16, "bf16", 1, 2},
                                {GgufType::Q4_0, "q4_0", kBlock, 2 + kBlock / 2},
                                {GgufType::Q4_1, "q4_1", kBlock, 4 + kBlock / 2},
                                {GgufType::Q5_0, "q5_0", kBlock, 2 + kBlock / 8 + kBlock / 2},
                                {GgufType::Q5_1, "q5_1", kBlock, 4 + kBlock / 8 + kBlock / 2},
                                {GgufType::Q8_0, "q8_0", kBlock, 2 + kBlock},
                                {GgufType::Q4_K, "q4_K", kSuper, 4 + 12 + kSuper / 2},
                                {GgufType::Q5_K, "q5_K", kSuper, 4 + 12 + kSuper / 8 + kSuper / 2},
                                {GgufType::Q6_K, "q6_K", kSuper, kSuper / 2 + kSuper / 4 + 16 + 2},
                                {GgufType::MXFP4, "mxfp4", kBlock, 1 + kBlock / 2}};

/// The blocks of a tensor in rows, and constants of a part of each of them.
class Blocks {
 public:
  Blocks(const GgufTensor& t, const std::string& bytes)
      : t_(t), bytes_(bytes), form_(*block_form(static_cast<uint32_t>(t.type))) {
    for (size_t d = 0; d + 1 < t.shape.size(); ++d) rows_ *= t.shape[d];
    in_row_ = t.shape.back() / form_.elements;
  }

  /// Bytes `from` to from + n - 1 of each block as elements of `type`: (rows, blocks * elements).
  Tensor part(int64_t from, int64_t n, DataType type, const char* what) const {
    NDArray all = NDArray::empty({rows_, in_row_ * n / type.bytes()}, type);
    auto* to = static_cast<char*>(all.data());
    for (int64_t b = 0; b < rows_ * in_row_; ++b)
      std::memcpy(to + b * n, bytes_.data() + b * form_.bytes + from, static_cast<size_t>(n));
    return constant(all, t_.name + "." + what);
  }

  /// The scales of MXFP4, half of 2^(e - 127) of byte e: those below the least normal number are numbers of bf16, too.
  /// 255 is no number (OCP Microscaling Formats 1.0).
  Tensor halves_of_powers() const {
    NDArray scales = NDArray::empty({rows_, in_row_}, bf16);
    for (int64_t b = 0; b < rows_ * in_row_; ++b) {
      const auto e = static_cast<uint8_t>(bytes_[static_cast<size_t>(b * form_.bytes)]);
      scales.set(b, e == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(0.5, e - 127));
    }
    return constant(scales, t_.name + ".scale");
  }

  /// The scales and offsets of 6 bits of Q4_K, of which 8 are in 12 bytes: the last four have their
  /// upper two bits in those of the first four.
  std::pair<Tensor, Tensor> six_bits() const {
    constexpr int64_t kFrom = 4, kEach = 8;
    NDArray scales = NDArray::empty({rows_, in_row_ * kEach}, u8), offsets = zeros_like(scales);
    for (int64_t b = 0; b < rows_ * in_row_; ++b) {
      const auto* s = reinterpret_cast<const uint8_t*>(bytes_.data()) + b * form_.bytes + kFrom;
      for (int64_t j = 0; j < kEach; ++j) {
        const int64_t at = b * kEach + j;
        const bool first = j < kEach / 2;
        scales.data<uint8_t>()[at] =
            static_cast<uint8_t>(first ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6 << 4));
        offsets.data<uint8_t>()[at] =
            static_cast<uint8_t>(first ? s[j + 4] & 63 : (s[j + 4] >> 4) | (s[j] >> 6 << 4));
      }
    }
    return {constant(scales, t_.name + ".scales"), constant(offsets, t_.name + ".offsets")};
  }

 private:
  const GgufTensor& t_;
  const std::string& bytes_;
  const BlockForm& form_;
  int64_t rows_ = 1, in_row_ = 0;
};

Expr four_bits(const Expr& byte, const Expr& upper) {
  return bitwise_and(shift_right(cast(i32, byte), cast(i32, upper) * 4), make_const(i32, 15));
}

/// Bits `from` to from + n - 1 of a byte.
Expr some_bits(const Expr& byte, const Expr& from, int n) {
  return bitwise_and(shift_right(cast(i32, byte), cast(i32, from)), make_const(i32, (1 << n) - 1));
}

/// The numbers of four bits of blocks of 32, which begin at byte `from`: the lower halves of the bytes are the first
/// ones.
Elements halves(const Blocks& b, int64_t from) {
  constexpr int64_t kHalf = kBlock / 2;
  const Tensor bits = b.part(from, kHalf, u8, "bits");
  return [=](const Expr& r, const Expr& k) {
    const Expr inner = floormod(k, kBlock);
    const Expr byte = bits(r, floordiv(k, kBlock) * kHalf + floormod(inner, kHalf));
    return four_bits(byte, floordiv(inner, kHalf));
  };
}

/// The same with a fifth bit in front of each. These begin at byte `from`, the bytes of the others behind them.
Elements fives(const Blocks& b, int64_t from) {
  constexpr int64_t kByte = 8, kBytes = kBlock / kByte;
  const Tensor upper = b.part(from, kBytes, u8, "upper");
  const Elements lower = halves(b, from + kBytes);
  return [=](const Expr& r, const Expr& k) {
    const Expr byte = upper(r, floordiv(k, kByte));
    return lower(r, k) + some_bits(byte, floormod(k, kByte), 1) * 16;
  };
}

/// Numbers times a scale, less `zero`.
Elements scaled(const Blocks& b, const Elements& number, int zero) {
  const Tensor scale = b.part(0, 2, f16, "scale");
  return [=](const Expr& r, const Expr& k) {
    return cast(f32, number(r, k) - zero) * cast(f32, scale(r, floordiv(k, kBlock)));
  };
}

/// Numbers times a scale, and the least of the block.
Elements above_least(const Blocks& b, const Elements& number) {
  const Tensor scale = b.part(0, 2, f16, "scale"), least = b.part(2, 2, f16, "least");
  return [=](const Expr& r, const Expr& k) {
    const Expr block = floordiv(k, kBlock);
    return cast(f32, number(r, k)) * cast(f32, scale(r, block)) + cast(f32, least(r, block));
  };
}

/// Numbers of a sign, two bits of an exponent and one of a fraction (e2m1), in halves: 0 to 3, 4, 6, 8 and 12.
Elements mxfp4(const Blocks& b) {
  const Tensor scale = b.halves_of_powers();
  const Elements bits = halves(b, 1);
  return [=](const Expr& r, const Expr& k) {
    const Expr all = bits(r, k), exponent = some_bits(all, Expr(1), 2),
               fraction = bitwise_and(all, make_const(i32, 1));
    const Expr size = select(exponent == 0, fraction,
                             shift_left(fraction + 2, max(exponent - 1, make_const(i32, 0))));
    const Expr number = select(all >= 8, make_const(i32, 0) - size, size);
    return cast(f32, number) * cast(f32, scale(r, floordiv(k, kBlock)));
  };
}

Elements q8_0(const Blocks& b) {
  const Tensor scale = b.part(0, 2, f16, "scale"), bytes = b.part(2, kBlock, i8, "bytes");
  return [=](const Expr& r, const Expr& k) {
    return cast(f32, bytes(r, k)) * cast(f32, scale(r, floordiv(k, kBlock)));
  };
}

/// Q4_K, and Q5_K, whose numbers have a fifth bit.
Elements scaled_twice(const Blocks& b, bool five_bits) {
  constexpr int64_t kFrom = 16;
  const Tensor scale = b.part(0, 2, f16, "scale"), least = b.part(2, 2, f16, "least");
  const Tensor upper = five_bits ? b.part(kFrom, kBlock, u8, "upper") : Tensor();
  const Tensor bits = b.part(kFrom + (five_bits ? kBlock : 0), kSuper / 2, u8, "bits");
  const auto [scales, offsets] = b.six_bits();
  return [=, scales = scales, offsets = offsets](const Expr& r, const Expr& k) {
    const Expr super = floordiv(k, kSuper), block = floordiv(k, kBlock), at = floormod(k, kBlock);
    // 32 bytes have the lower halves of one block and the upper ones of the next, and the fifth bits of all.
    Expr number = four_bits(bits(r, floordiv(k, 2 * kBlock) * kBlock + at), floormod(block, 2));
    if (five_bits)
      number = number +
               some_bits(upper(r, super * kBlock + at), floormod(block, kSuper / kBlock), 1) * 16;
    return cast(f32, scale(r, super)) * cast(f32, scales(r, block)) * cast(f32, number) -
           cast(f32, least(r, super)) * cast(f32, offsets(r, block));
  };
}

/// Each half of a block has 64 bytes of lower bits, in whose lower halves are elements 0 to 63 and in whose upper ones
/// the others, and 32 bytes with the two upper bits of elements 32 apart. Scales are those of 16 elements.
Elements q6_k(const Blocks& b) {
  constexpr int64_t kHalf = kSuper / 2, kScaled = 16, kUpper = 128, kScales = 192, kScale = 208;
  const Tensor lower = b.part(0, kHalf, u8, "bits"), upper = b.part(kUpper, kHalf / 2, u8, "upper"),
               scales = b.part(kScales, kSuper / kScaled, i8, "scales"),
               scale = b.part(kScale, 2, f16, "scale");
  return [=](const Expr& r, const Expr& k) {
    const Expr half = floordiv(k, kHalf), at = floormod(k, kHalf);
    const Expr bits = lower(r, half * (kHalf / 2) + floormod(at, kHalf / 2));
    const Expr two = upper(r, half * kBlock + floormod(at, kBlock));
    const Expr number =
        four_bits(bits, floordiv(at, kHalf / 2)) + some_bits(two, floordiv(at, kBlock) * 2, 2) * 16;
    return cast(f32, scale(r, floordiv(k, kSuper))) * cast(f32, scales(r, floordiv(k, kScaled))) *
           cast(f32, number - 32);
  };
}

DataType plain_type(GgufType type) {
  return type == GgufType::F16 ? f16 : type == GgufType::BF16 ? bf16 : f32;
}

Tensor plain(const GgufTensor& t, const std::string& bytes, Extents shape) {
  NDArray all = NDArray::empty(std::move(shape), plain_type(t.type));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  return constant(all, t.name);
}

Elements plain_elements(const GgufTensor& t, const std::string& bytes) {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < t.shape.size(); ++d) rows *= t.shape[d];
  const Tensor all = plain(t, bytes, {rows, t.shape.back()});
  return [=](const Expr& r, const Expr& k) { return cast(f32, all(r, k)); };
}

}  // namespace

const BlockForm* block_form(uint32_t type) {
  const auto* at = std::find_if(std::begin(kForms), std::end(kForms), [&](const BlockForm& f) {
    return static_cast<uint32_t>(f.type) == type;
  });
  return at == std::end(kForms) ? nullptr : at;
}

std::string names_of_forms() {
  std::string names;
  for (const BlockForm& f : kForms) names += (names.empty() ? "" : ", ") + std::string(f.name);
  return names;
}

Elements elements_of(const GgufTensor& t, const std::string& bytes) {
  const Blocks b(t, bytes);
  switch (t.type) {
    case GgufType::F32:
    case GgufType::F16:
    case GgufType::BF16: return plain_elements(t, bytes);
    case GgufType::Q4_0: return scaled(b, halves(b, 2), 8);
    case GgufType::Q4_1: return above_least(b, halves(b, 4));
    case GgufType::Q5_0: return scaled(b, fives(b, 2), 16);
    case GgufType::Q5_1: return above_least(b, fives(b, 4));
    case GgufType::Q8_0: return q8_0(b);
    case GgufType::Q4_K: return scaled_twice(b, false);
    case GgufType::Q5_K: return scaled_twice(b, true);
    case GgufType::Q6_K: return q6_k(b);
    case GgufType::MXFP4: return mxfp4(b);
  }
  HEDDLE_ICHECK(false, "a tensor of a type that is read");
  return {};
}

Tensor weights_of(const GgufTensor& t, const std::string& bytes) {
  if (block_form(static_cast<uint32_t>(t.type))->elements == 1) return plain(t, bytes, t.shape);
  const Elements element = elements_of(t, bytes);
  return compute(
      Shape(t.shape.begin(), t.shape.end()),
      [&](const std::vector<Axis>& at) {
        Expr row = Expr(0);
        for (size_t d = 0; d + 1 < t.shape.size(); ++d) row = row * t.shape[d] + at[d];
        return element(row, Expr(at.back()));
      },
      t.name, "dequantize", Where{});
}

}  // namespace heddle::generate

namespace heddle {

std::string to_string(GgufType type) {
  return generate::block_form(static_cast<uint32_t>(type))->name;
}

}  // namespace heddle
