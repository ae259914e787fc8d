#include "codegen/cuda/wgmma_text.h"

namespace heddle::cuda {
namespace {

constexpr int kMostColumns = 256;
constexpr const char* kTypes[] = {"f16", "bf16"};

// "%0, %1, ..", eight in a line.
std::string operands(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    if (i > 0) out += i % 8 == 0 ? ", \"\n               \"" : ", ";
    out += "%" + std::to_string(i);
  }
  return out;
}

std::string registers(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    if (i > 0) out += i % 8 == 0 ? ",\n                 " : ", ";
    out += "\"+f\"(d[" + std::to_string(i) + "])";
  }
  return out;
}

}  // namespace

std::string wgmma_name(int columns, const std::string& type) {
  return "wgmma_n" + std::to_string(columns) + "_" + type;
}

std::optional<std::string> wgmma_text(std::string_view name) {
  for (int columns = 8; columns <= kMostColumns; columns += 8) {
    for (const std::string type : kTypes) {
      if (wgmma_name(columns, type) != name) continue;
      const int count = columns / 2;
      const auto number = [&](int after) { return "%" + std::to_string(count + after); };
      return "template <int kAcrossA, int kAcrossB>\n$ void " + std::string(name) +
             "(float* d, const void* a, const void* b) {\n"
             "  asm volatile(\"{ .reg .pred add; setp.ne.b32 add, 1, 0;\\n\"\n"
             "               \"wgmma.mma_async.sync.aligned.m64n" +
             std::to_string(columns) + "k16.f32." + type + "." + type + " {\"\n               \"" +
             operands(count) + "}, \"\n               \"" + number(0) + ", " + number(1) +
             ", add, 1, 1, " + number(2) + ", " + number(3) +
             "; }\"\n               : " + registers(count) +
             "\n               : \"l\"(box_descriptor<kAcrossA>(a)), "
             "\"l\"(box_descriptor<kAcrossB>(b)),\n"
             "                 \"n\"(kAcrossA), \"n\"(kAcrossB));\n}";
    }
  }
  return {};
}

std::vector<std::string> wgmma_names() {
  std::vector<std::string> out;
  for (int columns = 8; columns <= kMostColumns; columns += 8) {
    for (const char* type : kTypes) out.push_back(wgmma_name(columns, type));
  }
  return out;
}

}  // namespace heddle::cuda
