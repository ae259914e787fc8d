#include "codegen/cuda/text/mma_text.h"

#include "codegen/cuda/text/generated.h"

namespace heddle::cuda {
namespace {

// "{%first, .., %(first + count - 1)}".
std::string operands(int first, int count) {
  std::string out;
  for (int i = first; i < first + count; ++i) out += (i > first ? ", %" : "{%") + std::to_string(i);
  return out + "}";
}

// A warp's accumulators are in four registers, or f16 in two; its operands in four and two. Of tf32 the
// operands are floats, which lose the 13 lowest bits of their mantissas.
std::string text_of(const InstructionForm& f) {
  const DataType d = f.types[0], a = f.types[1], b = f.types[2];
  const int count = d == f16 ? 2 : 4;
  const std::string sum = d == i32 ? "s32" : to_string(d), letter = d == f32 ? "f" : "r",
                    type = d == i32   ? "int"
                           : d == f32 ? "float"
                                      : "unsigned",
                    from = a == f32 ? "float" : "unsigned";
  std::string sums, factors;
  for (int i = 0; i < count; ++i)
    sums += (i ? ", \"+" : "\"+") + letter + "\"(d[" + std::to_string(i) + "])";
  for (int i = 0; i < 6; ++i) {
    const std::string factor =
        i < 4 ? "a[" + std::to_string(i) + "]" : "b[" + std::to_string(i - 4) + "]";
    factors += i == 3 && a == f32 ? ",\n        " : i ? ", " : "";
    factors += "\"r\"(" + (a == f32 ? "__float_as_uint(" + factor + ")" : factor) + ")";
  }
  return "$ void " + mma_name(f) + "(" + type + "* d, const " + from + "* a, const " + from +
         "* b) {\n  asm(\"mma.sync.aligned.m16n8k" + std::to_string(f.extents[2][0]) + ".row.col." +
         sum + "." + std::string(ptx_name(a)) + "." + std::string(ptx_name(b)) + "." + sum +
         " \"\n      \"" + operands(0, count) + ", " + operands(count, 4) + ", " +
         operands(count + 4, 2) + ", " + operands(0, count) + ";\"\n      : " + sums +
         "\n      : " + factors + ");\n}";
}

}  // namespace

std::string_view ptx_name(DataType t) {
  if (t == f32) return "tf32";
  if (t.is_float8()) return t == f8e4m3 ? "e4m3" : "e5m2";
  if (t == i8) return "s8";
  return t == u8 ? "u8" : t == f16 ? "f16" : "bf16";
}

std::string mma_name(const InstructionForm& f) {
  const DataType d = f.types[0], a = f.types[1], b = f.types[2];
  return "mma_m16n8k" + std::to_string(f.extents[2][0]) + "_" + to_string(a) +
         (a == b ? "" : "_" + to_string(b)) + "_" + to_string(d);
}

GeneratedHelpers mma_helpers() {
  GeneratedHelpers out;
  for (const InstructionForm& f : mma_instruction().forms)
    out.push_back({mma_name(f), "", true, [&f] { return text_of(f); }});
  return out;
}

}  // namespace heddle::cuda
