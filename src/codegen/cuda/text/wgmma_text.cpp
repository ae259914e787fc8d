#include "codegen/cuda/text/wgmma_text.h"

#include "heddle/support/error.h"

namespace heddle::cuda {
namespace {

constexpr int kMostColumns = 256;

// The operation of one wgmma: PTX's names of both types and of the accumulators, and the steps of
// k.
struct Types {
  const char *a, *b, *d;
  int steps;
};
constexpr Types kTypes[] = {
    {"f16", "f16", "f32", 16},   {"bf16", "bf16", "f32", 16}, {"tf32", "tf32", "f32", 8},
    {"s8", "s8", "s32", 32},     {"s8", "u8", "s32", 32},     {"u8", "s8", "s32", 32},
    {"u8", "u8", "s32", 32},     {"e4m3", "e4m3", "f32", 32}, {"e4m3", "e5m2", "f32", 32},
    {"e5m2", "e4m3", "f32", 32}, {"e5m2", "e5m2", "f32", 32}};

bool of_integers(const Types& t) { return t.d[0] == 's'; }

std::string_view ptx_name(DataType t) {
  if (t == f32) return "tf32";
  if (t.is_float8()) return t == f8e4m3 ? "e4m3" : "e5m2";
  if (t == i8) return "s8";
  return t == u8 ? "u8" : t == f16 ? "f16" : "bf16";
}

std::string name_of(int columns, const Types& t) {
  return "wgmma_n" + std::to_string(columns) + "_" + t.a +
         (std::string_view(t.a) == t.b ? "" : std::string("_") + t.b);
}

// For bytes, odd numbers of tiles of 8 columns are allowed only among the smallest.
bool exists(int columns, const Types& t) {
  return !of_integers(t) || columns <= 24 || columns % 16 == 0;
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

constexpr std::string_view kOfRegisters = "_registers", kBegins = "_begins";

// The beginning of the instruction, up to the accumulators. It adds to them unless it begins a sum.
std::string opening(int columns, const Types& t, bool begins) {
  return std::string("  asm volatile(\"{ .reg .pred add; setp.ne.b32 add, ") +
         (begins ? "0" : "1") +
         ", 0;\\n\"\n"
         "               \"wgmma.mma_async.sync.aligned.m64n" +
         std::to_string(columns) + "k" + std::to_string(t.steps) + "." + t.d + "." + t.a + "." +
         t.b + " {\"\n               \"" + operands(columns / 2) + "}, \"\n               \"";
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
  for (const Types& t : kTypes) {
    if (t.a == ptx_name(a) && t.b == ptx_name(b)) return name_of(columns, t);
  }
  throw_internal_error("there is no wgmma of " + to_string(a) + " and " + to_string(b));
}

std::string wgmma_of_registers(int columns, DataType t) {
  HEDDLE_ICHECK(t == f16 || t == bf16, "wgmma takes 16-bit floats from registers");
  return wgmma_name(columns, t, t) + std::string(kOfRegisters);
}

std::optional<std::string> wgmma_text(std::string_view name) {
  const bool from_registers = name.ends_with(kOfRegisters), begins = name.ends_with(kBegins);
  const size_t suffix = from_registers ? kOfRegisters.size() : begins ? kBegins.size() : 0;
  const std::string_view plain = name.substr(0, name.size() - suffix);
  for (int columns = 8; columns <= kMostColumns; columns += 8) {
    for (const Types& t : kTypes) {
      if (!exists(columns, t) || name_of(columns, t) != plain) continue;
      if (!from_registers) return text_of(name, columns, t, begins);
      if (takes_registers(t)) return text_of_registers(name, columns, t);
    }
  }
  return {};
}

std::vector<std::string> wgmma_names() {
  std::vector<std::string> out;
  for (int columns = 8; columns <= kMostColumns; columns += 8) {
    for (const Types& t : kTypes) {
      if (!exists(columns, t)) continue;
      out.push_back(name_of(columns, t));
      out.push_back(name_of(columns, t) + std::string(kBegins));
      if (takes_registers(t)) out.push_back(name_of(columns, t) + std::string(kOfRegisters));
    }
  }
  return out;
}

}  // namespace heddle::cuda
