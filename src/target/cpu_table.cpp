#include "target/cpu_table.h"

#include <algorithm>

namespace heddle::internal {
namespace {

constexpr std::int64_t kK = 1 << 10;
constexpr std::int64_t kM = 1 << 20;

// Feature levels, each on top of the one before.
#define HEDDLE_V2 "sse4.2"
#define HEDDLE_AVX HEDDLE_V2 ",avx"
#define HEDDLE_V3 HEDDLE_AVX ",avx2,fma,f16c"
#define HEDDLE_V4 HEDDLE_V3 ",avx512f,avx512bw,avx512dq,avx512vl"
#define HEDDLE_VNNI HEDDLE_V4 ",avx512vnni"
#define HEDDLE_BF16 HEDDLE_VNNI ",avx512bf16"
#define HEDDLE_AMX HEDDLE_BF16 ",avx512fp16,avxvnni,amx-tile,amx-bf16,amx-int8"
#define HEDDLE_AVX_VNNI HEDDLE_V3 ",avxvnni"
#define HEDDLE_INT8 HEDDLE_AVX_VNNI ",avxvnniint8"

constexpr Arch kX86 = Arch::X86;
constexpr Arch kArm = Arch::Aarch64;

// FMA units are counted at full vector width. Zen 1 and Zen 4 split a 256-bit or 512-bit FMA in
// two, as does Crestmont (Sierra Forest), whose L2 is a quarter of what four cores share. L3 is
// that of one group of cores.
constexpr CpuRow kTable[] = {
    // name, architecture, features, FMA units, cores, L1d, L2, L3
    {"x86-64", kX86, "", 1, 4, 32 * kK, 256 * kK, 8 * kM},
    {"x86-64-v2", kX86, HEDDLE_V2, 1, 4, 32 * kK, 256 * kK, 8 * kM},
    {"x86-64-v3", kX86, HEDDLE_V3, 2, 4, 32 * kK, 256 * kK, 8 * kM},
    {"x86-64-v4", kX86, HEDDLE_V4, 2, 16, 32 * kK, 1 * kM, 22 * kM},
    {"nehalem", kX86, HEDDLE_V2, 1, 4, 32 * kK, 256 * kK, 8 * kM},
    {"sandybridge", kX86, HEDDLE_AVX, 1, 4, 32 * kK, 256 * kK, 8 * kM},
    {"haswell", kX86, HEDDLE_V3, 2, 4, 32 * kK, 256 * kK, 8 * kM},
    {"broadwell", kX86, HEDDLE_V3, 2, 4, 32 * kK, 256 * kK, 8 * kM},
    {"skylake", kX86, HEDDLE_V3, 2, 4, 32 * kK, 256 * kK, 8 * kM},
    {"skylake-avx512", kX86, HEDDLE_V4, 2, 16, 32 * kK, 1 * kM, 22 * kM},
    {"cascadelake", kX86, HEDDLE_VNNI, 2, 16, 32 * kK, 1 * kM, 22 * kM},
    {"cooperlake", kX86, HEDDLE_BF16, 2, 16, 32 * kK, 1 * kM, 22 * kM},
    {"icelake-server", kX86, HEDDLE_VNNI, 2, 16, 48 * kK, 1280 * kK, 48 * kM},
    {"sapphirerapids", kX86, HEDDLE_AMX, 2, 32, 48 * kK, 2 * kM, 60 * kM},
    {"emeraldrapids", kX86, HEDDLE_AMX, 2, 32, 48 * kK, 2 * kM, 160 * kM},
    {"graniterapids", kX86, HEDDLE_AMX ",amx-fp16", 2, 32, 48 * kK, 2 * kM, 288 * kM},
    {"alderlake", kX86, HEDDLE_AVX_VNNI, 2, 8, 48 * kK, 1280 * kK, 30 * kM},
    {"arrowlake-s", kX86, HEDDLE_INT8, 2, 8, 48 * kK, 3 * kM, 36 * kM},
    {"lunarlake", kX86, HEDDLE_INT8, 2, 4, 48 * kK, 2560 * kK, 12 * kM},
    {"sierraforest", kX86, HEDDLE_INT8, 1, 16, 32 * kK, 1 * kM, 96 * kM},
    {"znver1", kX86, HEDDLE_V3, 1, 8, 32 * kK, 512 * kK, 8 * kM},
    {"znver2", kX86, HEDDLE_V3, 2, 8, 32 * kK, 512 * kK, 16 * kM},
    {"znver3", kX86, HEDDLE_V3, 2, 8, 32 * kK, 512 * kK, 32 * kM},
    {"znver4", kX86, HEDDLE_BF16, 1, 8, 32 * kK, 1 * kM, 32 * kM},
    {"znver5", kX86, HEDDLE_BF16 ",avxvnni", 2, 8, 48 * kK, 1 * kM, 32 * kM},
    {"generic", kArm, "neon", 1, 4, 32 * kK, 512 * kK, 4 * kM},
    {"neoverse-n1", kArm, "neon,dotprod,fullfp16", 2, 16, 64 * kK, 1 * kM, 32 * kM},
    {"neoverse-v1", kArm, "neon,dotprod,fullfp16,bf16,i8mm,sve", 4, 16, 64 * kK, 1 * kM, 32 * kM},
    {"neoverse-n2", kArm, "neon,dotprod,fullfp16,bf16,i8mm,sve", 2, 16, 64 * kK, 1 * kM, 64 * kM},
    {"apple-m1", kArm, "neon,dotprod,fullfp16", 4, 4, 128 * kK, 3 * kM, 8 * kM},
};

bool contains(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// Features that are no longer there where another one is turned off, as LLVM and processors have it.
struct Need {
  std::string_view feature, needs;
};
constexpr Need kNeeds[] = {{"avx", "sse4.2"},
                           {"avx2", "avx"},
                           {"fma", "avx"},
                           {"f16c", "avx"},
                           {"avxvnni", "avx2"},
                           {"avxvnniint8", "avx2"},
                           {"avx512f", "avx2"},
                           {"avx512f", "fma"},
                           {"avx512f", "f16c"},
                           {"avx512bw", "avx512f"},
                           {"avx512dq", "avx512f"},
                           {"avx512vl", "avx512f"},
                           {"avx512vnni", "avx512f"},
                           {"avx512bf16", "avx512bw"},
                           {"avx512fp16", "avx512bw"},
                           {"amx-bf16", "amx-tile"},
                           {"amx-int8", "amx-tile"},
                           {"amx-fp16", "amx-tile"}};

void turn_off(std::vector<std::string>* features, std::string_view name) {
  std::erase(*features, name);
  for (const Need& n : kNeeds) {
    if (n.needs == name && contains(*features, n.feature)) turn_off(features, n.feature);
  }
}

}  // namespace

std::span<const CpuRow> cpu_table() { return kTable; }

const CpuRow* find_cpu(std::string_view name) {
  for (const CpuRow& row : kTable) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

Vector vector_of(Arch arch, const std::vector<std::string>& features) {
  // No SVE code is generated yet. AArch64 has the 32 NEON registers of 16 bytes.
  if (arch == Arch::Aarch64) return {16, 32};
  if (contains(features, "avx512f") && contains(features, "avx512vl")) return {64, 32};
  if (contains(features, "avx")) return {32, 16};
  return {16, 16};
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) pieces.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

std::vector<std::string> apply_features(std::string_view base, std::string_view changes) {
  std::vector<std::string> features = split(base, ',');
  for (const std::string& change : split(changes, ',')) {
    const std::string name = change.substr(1);
    if (change[0] == '-') turn_off(&features, name);
    if (change[0] == '+') {
      std::erase(features, name);
      features.push_back(name);
    }
  }
  return features;
}

std::vector<std::string> features_of(const Target& target) {
  const CpuRow* row = find_cpu(target.mcpu);
  return apply_features(row == nullptr ? std::string_view() : row->features, target.features);
}

}  // namespace heddle::internal
