#include "codegen/cuda/text/mma_text.h"

#include "heddle/instruction/instruction.h"

namespace heddle::cuda {
namespace {

std::string name_of(DataType d, DataType a, DataType b) {
  return "mma_m16n8k32_" + to_string(a) + (a == b ? "" : "_" + to_string(b)) + "_" + to_string(d);
}

std::string text_of(DataType d, DataType a, DataType b) {
  const bool floats = d == f32;
  const std::string sum = floats ? "f32" : "s32", letter = floats ? "f" : "r";
  std::string registers;
  for (int i = 0; i < 4; ++i)
    registers += std::string(i ? ", " : "") + "\"+" + letter + "\"(d[" + std::to_string(i) + "])";
  return "$ void " + name_of(d, a, b) + (floats ? "(float* d" : "(int* d") +
         ", const unsigned* a, const unsigned* b) {\n"
         "  asm(\"mma.sync.aligned.m16n8k32.row.col." +
         sum + "." + std::string(ptx_name(a)) + "." + std::string(ptx_name(b)) + "." + sum +
         " \"\n"
         "      \"{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\"\n"
         "      : " +
         registers +
         "\n      : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), "
         "\"r\"(b[1]));\n}";
}

// Calls `fn` for the types of each product of bytes and 8-bit floats.
template <typename Fn>
void for_each(Fn fn) {
  for (const InstructionForm& f : mma_instruction().forms) {
    if (f.types[1].bits == 8) fn(f.types[0], f.types[1], f.types[2]);
  }
}

}  // namespace

std::string_view ptx_name(DataType t) {
  if (t == f32) return "tf32";
  if (t.is_float8()) return t == f8e4m3 ? "e4m3" : "e5m2";
  if (t == i8) return "s8";
  return t == u8 ? "u8" : t == f16 ? "f16" : "bf16";
}

std::optional<std::string> mma8_text(std::string_view name) {
  std::optional<std::string> out;
  for_each([&](DataType d, DataType a, DataType b) {
    if (name_of(d, a, b) == name) out = text_of(d, a, b);
  });
  return out;
}

std::vector<std::string> mma8_names() {
  std::vector<std::string> out;
  for_each([&](DataType d, DataType a, DataType b) { out.push_back(name_of(d, a, b)); });
  return out;
}

}  // namespace heddle::cuda
