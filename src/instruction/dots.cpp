// Groups of two or four products that CPUs add up: d[l] += a[l, j] * b[l, j], l over the lanes of a
// register and j over a group.
#include <algorithm>

#include "heddle/instruction/instruction.h"

namespace heddle {
namespace {

struct Width {
  int64_t lanes;  // of 32 bits
  const char* intrinsic;
};

MachineInstruction dot(std::string name, std::string about, const std::vector<DataType>& types,
                       int64_t group, const std::vector<Width>& widths, LlvmCall call,
                       std::function<bool(const Target&, int64_t bytes)> legal) {
  MachineInstruction x;
  x.name = std::move(name);
  x.about = std::move(about);
  x.loops = {"l", "j"};
  x.operands = {{"d", {0}}, {"a", {0, 1}}, {"b", {0, 1}}};
  x.value = [](const std::vector<Expr>& v) {
    const DataType wide = v[0].dtype();
    return v[0] + cast(wide, v[1]) * cast(wide, v[2]);
  };
  for (const Width& w : widths) {
    call.intrinsic = w.intrinsic;
    x.forms.push_back({types, {{w.lanes}, {group}}, call});
  }
  x.legal = [legal](const Target& t, const InstructionForm& f) {
    const int64_t bytes = 4 * f.extents[0][0];
    return bytes <= t.vector_bytes && legal(t, bytes);
  };
  return x;
}

std::vector<MachineInstruction> make_dots() {
  const LlvmCall accumulates{"", {0, 1, 2}, false}, adds{"", {1, 2}, true};
  // Of AVX-512, registers of less than 64 bytes need VL; without it, there are none of 64 either.
  const auto vnni = [](const Target& t, int64_t bytes) {
    return (t.has("avx512vnni") && t.has("avx512vl")) || (bytes < 64 && t.has("avxvnni"));
  };
  const auto pairs = [](const Target& t, int64_t bytes) {
    return t.is_x86() && (bytes == 16 || t.has(bytes == 32 ? "avx2" : "avx512bw"));
  };
  const auto has = [](const char* feature) {
    return [feature](const Target& t, int64_t) { return t.has(feature); };
  };
  return {
      dot("vpdpbusd", "Fours of bytes, one unsigned and one signed (VNNI).", {i32, u8, i8}, 4,
          {{4, "llvm.x86.avx512.vpdpbusd.128"},
           {8, "llvm.x86.avx512.vpdpbusd.256"},
           {16, "llvm.x86.avx512.vpdpbusd.512"}},
          accumulates, vnni),
      dot("vpdpbssd", "Fours of signed bytes (AVX-VNNI-INT8).", {i32, i8, i8}, 4,
          {{4, "llvm.x86.avx2.vpdpbssd.128"}, {8, "llvm.x86.avx2.vpdpbssd.256"}}, accumulates,
          has("avxvnniint8")),
      dot("vpdpbuud", "Fours of unsigned bytes (AVX-VNNI-INT8).", {i32, u8, u8}, 4,
          {{4, "llvm.x86.avx2.vpdpbuud.128"}, {8, "llvm.x86.avx2.vpdpbuud.256"}}, accumulates,
          has("avxvnniint8")),
      dot("sdot", "Fours of signed bytes (AArch64).", {i32, i8, i8}, 4,
          {{4, "llvm.aarch64.neon.sdot"}}, accumulates, has("dotprod")),
      dot("udot", "Fours of unsigned bytes (AArch64).", {i32, u8, u8}, 4,
          {{4, "llvm.aarch64.neon.udot"}}, accumulates, has("dotprod")),
      dot("usdot", "Fours of bytes, one unsigned and one signed (AArch64).", {i32, u8, i8}, 4,
          {{4, "llvm.aarch64.neon.usdot"}}, accumulates, has("i8mm")),
      dot("vpdpwssd", "Pairs of 16-bit integers (VNNI).", {i32, i16, i16}, 2,
          {{4, "llvm.x86.avx512.vpdpwssd.128"},
           {8, "llvm.x86.avx512.vpdpwssd.256"},
           {16, "llvm.x86.avx512.vpdpwssd.512"}},
          accumulates, vnni),
      dot("pmaddwd", "Pairs of 16-bit integers.", {i32, i16, i16}, 2,
          {{4, "llvm.x86.sse2.pmadd.wd"},
           {8, "llvm.x86.avx2.pmadd.wd"},
           {16, "llvm.x86.avx512.pmaddw.d.512"}},
          adds, pairs),
      dot("vdpbf16ps", "Pairs of bf16. Subnormal numbers are taken as 0.", {f32, bf16, bf16}, 2,
          {{4, "llvm.x86.avx512bf16.dpbf16ps.128"},
           {8, "llvm.x86.avx512bf16.dpbf16ps.256"},
           {16, "llvm.x86.avx512bf16.dpbf16ps.512"}},
          accumulates,
          [](const Target& t, int64_t) { return t.has("avx512bf16") && t.has("avx512vl"); }),
  };
}

}  // namespace

const std::vector<MachineInstruction>& dot_instructions() {
  static const std::vector<MachineInstruction> all = make_dots();
  return all;
}

bool adds_products(const Target& target, DataType sum, DataType a, DataType b, int64_t size) {
  const auto is_it = [&](const MachineInstruction& dot, const InstructionForm& f) {
    const bool types = f.types == std::vector{sum, a, b} || f.types == std::vector{sum, b, a};
    const bool whole = !target.is_x86() || 4 * f.extents[0][0] == target.vector_bytes;
    return types && f.extents[1][0] == size && whole && dot.legal(target, f);
  };
  return std::ranges::any_of(dot_instructions(), [&](const MachineInstruction& dot) {
    return std::ranges::any_of(dot.forms, [&](const InstructionForm& f) { return is_it(dot, f); });
  });
}

}  // namespace heddle
