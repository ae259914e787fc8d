#include "codegen/cuda/text/mma_text.h"

namespace heddle::cuda {
namespace {

// A type of operands: our name and PTX's.
struct Type {
  const char *ours, *ptx;
};
constexpr Type kBytes[] = {{"i8", "s8"}, {"u8", "u8"}},
               kFloats[] = {{"f8e4m3", "e4m3"}, {"f8e5m2", "e5m2"}};

std::string name_of(const Type& a, const Type& b, bool floats) {
  const std::string second = a.ours == b.ours ? "" : std::string("_") + b.ours;
  return std::string("mma_m16n8k32_") + a.ours + second + (floats ? "_f32" : "_i32");
}

std::string text_of(const Type& a, const Type& b, bool floats) {
  const std::string sum = floats ? "f32" : "s32", letter = floats ? "f" : "r";
  std::string registers;
  for (int i = 0; i < 4; ++i)
    registers += std::string(i ? ", " : "") + "\"+" + letter + "\"(d[" + std::to_string(i) + "])";
  return "$ void " + name_of(a, b, floats) + (floats ? "(float* d" : "(int* d") +
         ", const unsigned* a, const unsigned* b) {\n"
         "  asm(\"mma.sync.aligned.m16n8k32.row.col." +
         sum + "." + a.ptx + "." + b.ptx + "." + sum +
         " \"\n"
         "      \"{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\"\n"
         "      : " +
         registers +
         "\n      : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), "
         "\"r\"(b[1]));\n}";
}

template <typename Fn>
void for_each(Fn fn) {
  for (const bool floats : {false, true}) {
    for (const Type& a : floats ? kFloats : kBytes) {
      for (const Type& b : floats ? kFloats : kBytes) fn(a, b, floats);
    }
  }
}

}  // namespace

std::optional<std::string> mma8_text(std::string_view name) {
  std::optional<std::string> out;
  for_each([&](const Type& a, const Type& b, bool floats) {
    if (name_of(a, b, floats) == name) out = text_of(a, b, floats);
  });
  return out;
}

std::vector<std::string> mma8_names() {
  std::vector<std::string> out;
  for_each(
      [&](const Type& a, const Type& b, bool floats) { out.push_back(name_of(a, b, floats)); });
  return out;
}

}  // namespace heddle::cuda
