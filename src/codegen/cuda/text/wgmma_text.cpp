#include "codegen/cuda/text/wgmma_text.h"

#include "codegen/cuda/text/generated.h"
#include "codegen/cuda/text/mma_text.h"
#include "heddle/instruction/instruction.h"
#include "heddle/support/error.h"

namespace heddle::cuda {
namespace {

// PTX's names of the types of a wgmma, and its steps of k.
struct Types {
  std::string_view a, b, d;
  int64_t steps;
};
Types types_of(const InstructionForm& f) {
  return {ptx_name(f.types[1]), ptx_name(f.types[2]), f.types[0] == i32 ? "s32" : "f32",
          f.extents[2][0]};
}

bool of_integers(const Types& t) { return t.d == "s32"; }

std::string name_of(int columns, const Types& t) {
  return "wgmma_n" + std::to_string(columns) + "_" + std::string(t.a) +
         (t.a == t.b ? "" : "_" + std::string(t.b));
}

// "%0, %1, ..", eight in a line.
std::string operands(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    if (i > 0) out += i % 8 == 0 ? ", \"\n               \"" : ", ";
    out += "%" + std::to_string(i);
  }
  return out;
}

std::string registers(int count, char constraint) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    if (i > 0) out += i % 8 == 0 ? ",\n                 " : ", ";
    out += std::string("\"+") + constraint + "\"(d[" + std::to_string(i) + "])";
  }
  return out;
}

constexpr const char *kOfRegisters = "_registers", *kBegins = "_begins";

// The beginning of the instruction, up to the accumulators. It adds to them unless it begins a sum.
std::string opening(int columns, const Types& t, bool begins) {
  return std::string("  asm volatile(\"{ .reg .pred add; setp.ne.b32 add, ") +
         (begins ? "0" : "1") +
         ", 0;\\n\"\n"
         "               \"wgmma.mma_async.sync.aligned.m64n" +
         std::to_string(columns) + "k" + std::to_string(t.steps) + "." + std::string(t.d) + "." +
         std::string(t.a) + "." + std::string(t.b) + " {\"\n               \"" +
         operands(columns / 2) + "}, \"\n               \"";
}

std::string text_of(std::string_view name, int columns, const Types& t, bool begins) {
  const int count = columns / 2;
  const auto number = [&](int after) { return "%" + std::to_string(count + after); };
  const bool integers = of_integers(t), turns = t.steps == 16;
  std::string out = "template <int kAcrossA, int kAcrossB>\n$ void " + std::string(name) +
                    (integers ? "(int* d" : "(float* d") + ", const void* a, const void* b) {\n";
  out += opening(columns, t, begins) + number(0) + ", " + number(1) + ", add";
  // Scales of both operands, and whether they are transposed.
  if (!integers) out += ", 1, 1";
  if (turns) out += ", " + number(2) + ", " + number(3);
  out += "; }\"\n               : " + registers(count, integers ? 'r' : 'f') +
         "\n               : \"l\"(box_descriptor<kAcrossA>(a)), "
         "\"l\"(box_descriptor<kAcrossB>(b))";
  if (turns) out += ",\n                 \"n\"(kAcrossA), \"n\"(kAcrossB)";
  return out + ");\n}";
}

// The left operand is in four registers.
std::string text_of_registers(std::string_view name, int columns, const Types& t) {
  const int count = columns / 2;
  const auto number = [&](int after) { return "%" + std::to_string(count + after); };
  return "template <int kAcrossB>\n$ void " + std::string(name) +
         "(float* d, const unsigned* a, const void* b) {\n" + opening(columns, t, false) + "{" +
         number(0) + ", " + number(1) + ", " + number(2) + ", " + number(3) + "}, " + number(4) +
         ", add, 1, 1, " + number(5) + "; }\"\n               : " + registers(count, 'f') +
         "\n               : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]),\n"
         "                 \"l\"(box_descriptor<kAcrossB>(b)), \"n\"(kAcrossB));\n}";
}

// Whether a fragment can be the left operand: only those of 16-bit floats are the accumulators of
// another product.
bool takes_registers(const Types& t) { return t.steps == 16; }

}  // namespace

std::string wgmma_name(int columns, DataType a, DataType b) {
  for (const InstructionForm& f : wgmma_instruction().forms) {
    if (f.types[1] == a && f.types[2] == b) return name_of(columns, types_of(f));
  }
  throw_internal_error("there is no wgmma of " + to_string(a) + " and " + to_string(b));
}

std::string wgmma_of_registers(int columns, DataType t) {
  HEDDLE_ICHECK(t == f16 || t == bf16, "wgmma takes 16-bit floats from registers");
  return wgmma_name(columns, t, t) + kOfRegisters;
}

GeneratedHelpers wgmma_helpers() {
  GeneratedHelpers out;
  const auto add = [&](const std::string& name, auto text) {
    out.push_back({name, "box_descriptor", true, [=] { return text(name); }});
  };
  for (const InstructionForm& f : wgmma_instruction().forms) {
    for (const int64_t n : f.extents[1]) {
      const Types t = types_of(f);
      const int columns = static_cast<int>(n);
      const std::string name = name_of(columns, t);
      add(name, [=](const std::string& own) { return text_of(own, columns, t, false); });
      add(name + kBegins, [=](const std::string& own) { return text_of(own, columns, t, true); });
      if (takes_registers(t))
        add(name + kOfRegisters,
            [=](const std::string& own) { return text_of_registers(own, columns, t); });
    }
  }
  return out;
}

}  // namespace heddle::cuda
