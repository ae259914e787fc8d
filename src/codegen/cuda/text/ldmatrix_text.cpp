#include "codegen/cuda/text/ldmatrix_text.h"

#include <map>

#include "codegen/cuda/text/generated.h"
#include "heddle/instruction/instruction.h"

namespace heddle::cuda {
namespace {

constexpr int64_t kMatrixBytes = 8 * 16;  // eight rows of 16 bytes
constexpr int kElementBytes = 2;          // of matrices that are transposed
constexpr const char* kAddress = "shared_address";

// How many matrices the tiles of a form are: two or four.
std::vector<int> matrices_of(const InstructionForm& f) {
  std::vector<int> out;
  for (const int64_t rows : f.extents[0]) {
    for (const int64_t cols : f.extents[1])
      out.push_back(static_cast<int>(rows * cols * f.types[0].bytes() / kMatrixBytes));
  }
  return out;
}

std::string text_of(const std::string& name, int matrices, bool transposed) {
  std::string numbers, registers;
  for (int i = 0; i < matrices; ++i) {
    numbers += (i ? ", %" : "%") + std::to_string(i);
    registers += std::string(i ? ", " : "") + "\"=r\"(r[" + std::to_string(i) + "])";
  }
  return "$ void " + name + "(unsigned* r, const void* row) {\n" +
         "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x" + std::to_string(matrices) +
         (transposed ? ".trans" : "") + ".shared.b16 {" + numbers + "}, [%" +
         std::to_string(matrices) + "];\"\n               : " + registers +
         " : \"r\"(shared_address(row)));\n}";
}

// Registers of f32 are floats, as those of products of tf32.
std::string text_of_floats(const std::string& name, int matrices) {
  const std::string count = std::to_string(matrices);
  return "$ void " + name + "(float* r, const void* row) {\n  unsigned bits[" + count + "];\n  " +
         ldmatrix_name(matrices, false, f16) +
         "(bits, row);\n#pragma unroll\n  for (int i = 0; i < " + count +
         "; ++i) r[i] = __uint_as_float(bits[i]);\n}";
}

}  // namespace

std::string ldmatrix_name(int matrices, bool transposed, DataType t) {
  return "ldmatrix_x" + std::to_string(matrices) + (transposed ? "_trans" : t == f32 ? "_f32" : "");
}

GeneratedHelpers ldmatrix_helpers() {
  std::map<std::string, GeneratedHelper> all;
  const auto add = [&](const std::string& name, const std::string& needs, auto text) {
    const bool ptx = needs == kAddress;
    all[name] = {name, needs, ptx, [=] { return text(name); }};
  };
  for (const InstructionForm& f : ldmatrix_instruction().forms) {
    const DataType t = f.types[0];
    for (const int n : matrices_of(f)) {
      add(ldmatrix_name(n, false, f16), kAddress,
          [=](const std::string& name) { return text_of(name, n, false); });
      if (t.bytes() == kElementBytes)
        add(ldmatrix_name(n, true, t), kAddress,
            [=](const std::string& name) { return text_of(name, n, true); });
      if (t == f32)
        add(ldmatrix_name(n, false, f32), ldmatrix_name(n, false, f16),
            [=](const std::string& name) { return text_of_floats(name, n); });
    }
  }
  GeneratedHelpers out;
  for (auto& [name, helper] : all) out.push_back(std::move(helper));
  return out;
}

}  // namespace heddle::cuda
