// Products of matrix units: d[m, n] += a[m, k] * b[k, n].
#include <algorithm>

#include "heddle/instruction/instruction.h"
#include "heddle/instruction/tiles.h"

namespace heddle {
namespace {

constexpr int64_t kMostCols = 256;  // of wgmma
constexpr DataType kBytes[] = {i8, u8}, kFloats8[] = {f8e4m3, f8e5m2};

MachineInstruction product(std::string name, std::string about) {
  MachineInstruction out;
  out.name = std::move(name);
  out.about = std::move(about);
  out.loops = {"m", "n", "k"};
  out.operands = {{"d", {0, 1}}, {"a", {0, 2}}, {"b", {2, 1}}};
  out.value = [](const std::vector<Expr>& x) {
    const DataType wide = x[0].dtype();
    return x[0] + cast(wide, x[1]) * cast(wide, x[2]);
  };
  return out;
}

std::vector<int64_t> up_to(int64_t most, int64_t step) {
  std::vector<int64_t> out;
  for (int64_t n = step; n <= most; n += step) out.push_back(n);
  return out;
}

// Bytes are added up in i32 and 8-bit floats in f32, and both may be mixed with their like.
template <typename Fn>
void for_each_pair_of_bytes(Fn fn) {
  for (const DataType a : kBytes) {
    for (const DataType b : kBytes) fn(i32, a, b);
  }
  for (const DataType a : kFloats8) {
    for (const DataType b : kFloats8) fn(f32, a, b);
  }
}

bool of_float8(const InstructionForm& f) { return f.types[1].is_float8(); }

MachineInstruction make_mma() {
  MachineInstruction out =
      product("mma", "A product by a warp (mma.sync). f32 is rounded to tf32.");
  out.rounds_to_tf32 = true;
  const auto add = [&](DataType d, DataType a, DataType b) {
    out.forms.push_back(
        {{d, a, b}, {{mma::kRows}, {mma::kCols}, {mma::depth(mma::elements_per_register(a))}}});
  };
  add(f32, f16, f16);
  add(f16, f16, f16);
  add(f32, bf16, bf16);
  add(f32, f32, f32);
  for_each_pair_of_bytes(add);
  out.legal = [](const Target& t, const InstructionForm& f) {
    return t.is_cuda() && t.gpu.sm() >= 80 && (!of_float8(f) || t.gpu.has_float8_products());
  };
  return out;
}

MachineInstruction make_wgmma() {
  MachineInstruction out = product(
      "wgmma", "A product by the four warps of a warp group (wgmma.mma_async), asynchronous.");
  out.rounds_to_tf32 = true;
  const auto add = [&](DataType d, DataType a, DataType b) {
    std::vector<int64_t> cols = up_to(kMostCols, mma::kCols);
    // For bytes, odd numbers of tiles of 8 columns are allowed only among the smallest.
    if (d == i32) std::erase_if(cols, [](int64_t n) { return n > 24 && n % 16 != 0; });
    out.forms.push_back({{d, a, b}, {{wgmma::kRowsOfWarp}, std::move(cols), {wgmma::depth(a)}}});
  };
  add(f32, f16, f16);
  add(f32, bf16, bf16);
  add(f32, f32, f32);
  for_each_pair_of_bytes(add);
  out.legal = [](const Target& t, const InstructionForm&) {
    return t.is_cuda() && t.gpu.has_wgmma();
  };
  return out;
}

MachineInstruction make_amx() {
  MachineInstruction out = product("amx", "A product of tile registers (TDPBF16PS and its kin).");
  const auto add = [&](DataType d, DataType a, DataType b, const char* intrinsic) {
    const int64_t group = amx::group(a);
    out.forms.push_back(
        {{d, a, b},
         {up_to(amx::kRows, 1), up_to(amx::kLanes, 1), up_to(amx::kGroups * group, group)},
         {intrinsic, {0, 1, 2}}});
  };
  add(f32, bf16, bf16, "llvm.x86.tdpbf16ps");
  add(f32, f16, f16, "llvm.x86.tdpfp16ps");
  add(i32, i8, i8, "llvm.x86.tdpbssd");
  add(i32, i8, u8, "llvm.x86.tdpbsud");
  add(i32, u8, i8, "llvm.x86.tdpbusd");
  add(i32, u8, u8, "llvm.x86.tdpbuud");
  out.legal = [](const Target& t, const InstructionForm& f) {
    if (t.kind != "llvm" || !t.is_x86() || t.vector_bytes < 64 || !t.has("amx-tile")) return false;
    const DataType a = f.types[1];
    return t.has(a == bf16 ? "amx-bf16" : a == f16 ? "amx-fp16" : "amx-int8");
  };
  return out;
}

}  // namespace

const MachineInstruction& mma_instruction() {
  static const MachineInstruction entry = make_mma();
  return entry;
}
const MachineInstruction& wgmma_instruction() {
  static const MachineInstruction entry = make_wgmma();
  return entry;
}
const MachineInstruction& amx_instruction() {
  static const MachineInstruction entry = make_amx();
  return entry;
}

const std::vector<const MachineInstruction*>& matrix_instructions() {
  static const std::vector<const MachineInstruction*> all{&mma_instruction(), &wgmma_instruction(),
                                                          &amx_instruction()};
  return all;
}

}  // namespace heddle
