#include "codegen/cuda/text/generated.h"

namespace heddle::cuda {
namespace {

// What the conversion from f32 needs to know of a format: the largest number, the least normal one,
// the power of two whose last place in f32 is the unit of subnormal numbers, the bits of the
// mantissa that are cut off, and the difference of the exponents in units of the last place.
struct Format {
  std::string_view ours, ptx, largest, normal, power;
  int cut, rebias;
};
constexpr Format kFormats[] = {{"f8e4m3", "e4m3", "448.0f", "0x1p-6f", "16384.0f", 20, 120 << 3},
                               {"f8e5m2", "e5m2", "57344.0f", "0x1p-14f", "128.0f", 21, 112 << 2}};

// Normal numbers are rounded to nearest even by an addition to their bits, subnormal ones by the
// addition of a power of two.
std::string from_f32(const Format& f) {
  const std::string ours(f.ours), ptx(f.ptx), largest(f.largest), power(f.power),
      cut = std::to_string(f.cut);
  return "$ unsigned char " + ours + "_from_f32(float x) {\n" +
         "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890\n"
         "  unsigned short r;\n"
         "  asm(\"cvt.rn.satfinite." +
         ptx +
         "x2.f32 %0, %1, %2;\" : \"=h\"(r) : \"f\"(0.0f), \"f\"(x));\n"
         "  return (unsigned char)r;\n"
         "#else\n"
         "  const float size = fabsf(x) > " +
         largest + " ? " + largest +
         " : fabsf(x);\n"
         "  const unsigned bits = __float_as_uint(size), sign = __float_as_uint(x) >> 24 & 0x80;\n"
         "  const unsigned normal = ((bits + " +
         std::to_string((1 << (f.cut - 1)) - 1) + " + (bits >> " + cut + " & 1)) >> " + cut +
         ") - " + std::to_string(f.rebias) +
         ";\n"
         "  const unsigned subnormal = __float_as_uint(size + " +
         power + ") - __float_as_uint(" + power +
         ");\n"
         "  return (unsigned char)(x != x ? 0x7f : sign | (size < " +
         std::string(f.normal) +
         " ? subnormal : normal));\n"
         "#endif\n}";
}

// The value is rounded to odd first, as for bf16.
std::string from_f64(const Format& f) {
  const std::string ours(f.ours);
  return "$ unsigned char " + ours +
         "_from_f64(double x) {\n"
         "  const float cut = __double2float_rz(x);\n"
         "  return " +
         ours + "_from_f32((double)cut == x ? cut : __uint_as_float(__float_as_uint(cut) | 1));\n}";
}

// E5M2 is the upper half of f16. The bits of E4M3 as those of an f32 have the value 2^-120 times
// that of the number.
std::string to_f32(const Format& f) {
  const std::string head = "$ float f32_from_" + std::string(f.ours) + "(unsigned char x) {\n";
  if (f.ptx == "e5m2") return head + "  return f32_from_f16((unsigned short)(x << 8));\n}";
  return head +
         "  const float size = __uint_as_float((unsigned)(x & 0x7f) << 20) * 0x1p120f;\n"
         "  const float value = (x & 0x7f) == 0x7f ? __uint_as_float(0x7fc00000u) : size;\n"
         "  return x & 0x80 ? -value : value;\n}";
}

std::string round(const Format& f) {
  const std::string ours(f.ours);
  return "$ float round_" + ours + "(float x) {\n  return f32_from_" + ours + "(" + ours +
         "_from_f32(x));\n}";
}

}  // namespace

// In alphabetical order a function follows those that it needs.
GeneratedHelpers float8_helpers() {
  GeneratedHelpers out;
  for (const Format& f : kFormats) {
    const std::string ours(f.ours), to = "f32_from_" + ours, from = ours + "_from_f32";
    out.push_back({to, f.ptx == "e5m2" ? "f32_from_f16" : "", false, [&f] { return to_f32(f); }});
    out.push_back({from, "", false, [&f] { return from_f32(f); }});
    out.push_back({ours + "_from_f64", from, false, [&f] { return from_f64(f); }});
    out.push_back({"round_" + ours, to + " " + from, false, [&f] { return round(f); }});
  }
  return out;
}

}  // namespace heddle::cuda
