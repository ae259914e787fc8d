#include "codegen/cuda/text/generated.h"

namespace heddle::cuda {
namespace {

struct Type {
  std::string_view name, exponent, one;
};
constexpr Type kTypes[] = {{"f16", "0x64006400u", "0x3c003c00u"},
                           {"bf16", "0x43004300u", "0x3f803f80u"}};

// Products with one, and sums with -0, are those without. Neither pair is rounded but by the product with the scale.
constexpr std::string_view kScaled =
    R"($ unsigned scaled_bits_TYPE(unsigned bits, unsigned mask, unsigned short zero, unsigned short scale) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned r;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(bits), "r"(mask), "r"(EXPONENT));
  asm("fma.rn.TYPEx2 %0, %1, %2, %3;"
      : "=r"(r) : "r"(r), "r"(ONE), "r"(pack16(zero, zero) ^ 0x80008000u));
  asm("fma.rn.TYPEx2 %0, %1, %2, %3;"
      : "=r"(r) : "r"(r), "r"(pack16(scale, scale)), "r"(0x80008000u));
  return r;
#else
  const unsigned numbers = (bits & mask) | EXPONENT;
  const float low = f32_from_TYPE(low16(numbers)) - f32_from_TYPE(zero);
  const float high = f32_from_TYPE(high16(numbers)) - f32_from_TYPE(zero);
  return pack_TYPE(low * f32_from_TYPE(scale), high * f32_from_TYPE(scale));
#endif
})";

constexpr std::string_view kBits =
    R"($ float f32_of_bits(unsigned word, unsigned mask, float zero) {
  return __uint_as_float((word & mask) | 0x4b000000u) - zero;
})";

constexpr std::string_view kByte =
    R"($ float f32_of_byte(unsigned word, int byte, float zero) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440u + byte)) - zero;
#else
  return __uint_as_float((word >> byte * 8 & 255u) | 0x4b000000u) - zero;
#endif
})";

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

std::string scaled_text(const Type& t) {
  std::string text(kScaled);
  replace_all(text, "TYPE", t.name);
  replace_all(text, "EXPONENT", t.exponent);
  replace_all(text, "ONE", t.one);
  return text;
}

}  // namespace

GeneratedHelpers few_bits_helpers() {
  GeneratedHelpers out = {{"f32_of_bits", "", false, [] { return std::string(kBits); }},
                          {"f32_of_byte", "", false, [] { return std::string(kByte); }}};
  for (const Type& t : kTypes) {
    const std::string name(t.name);
    out.push_back({"scaled_bits_" + name,
                   "f32_from_" + name + " pack_" + name + " pack16 low16 high16", false,
                   [&t] { return scaled_text(t); }});
  }
  return out;
}

}  // namespace heddle::cuda
