// Target::host(): cpuid or the CPU's id register for the name, sysfs for the caches.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "heddle/runtime/thread_pool.h"
#include "heddle/target/target.h"
#include "runtime/machine/cpu_features.h"
#include "target/cpu_table.h"
#include "target/target_text.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace heddle {
namespace internal {
namespace {

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

#if defined(__x86_64__)
std::string_view probe_name() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0) return {};
  const bool intel = b == signature_INTEL_ebx, amd = b == signature_AMD_ebx;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return {};
  unsigned family = a >> 8 & 15, model = a >> 4 & 15;
  if (family == 6 || family == 15) model += (a >> 16 & 15) << 4;
  if (family == 15) family += a >> 20 & 255;
  const unsigned stepping = a & 15;

  if (intel && family == 6) {
    switch (model) {
      case 0x1a:
      case 0x1e:
      case 0x1f:
      case 0x2e:
      case 0x25:
      case 0x2c:
      case 0x2f: return "nehalem";
      case 0x2a:
      case 0x2d:
      case 0x3a:
      case 0x3e: return "sandybridge";
      case 0x3c:
      case 0x3f:
      case 0x45:
      case 0x46: return "haswell";
      case 0x3d:
      case 0x47:
      case 0x4f:
      case 0x56: return "broadwell";
      case 0x4e:
      case 0x5e:
      case 0x8e:
      case 0x9e:
      case 0xa5:
      case 0xa6: return "skylake";
      case 0x55:
        return stepping >= 10 ? "cooperlake" : stepping >= 5 ? "cascadelake" : "skylake-avx512";
      case 0x6a:
      case 0x6c: return "icelake-server";
      case 0x8f: return "sapphirerapids";
      case 0xcf: return "emeraldrapids";
      default: return {};
    }
  }
  if (amd) {
    if (family == 0x17) return model >= 0x30 ? "znver2" : "znver1";
    if (family == 0x19) {
      return (model >= 0x10 && model <= 0x1f) || (model >= 0x60 && model <= 0xaf) ? "znver4"
                                                                                  : "znver3";
    }
    if (family == 0x1a) return "znver5";
  }
  return {};
}
#elif defined(__aarch64__)
std::string_view probe_name() {
#ifdef __APPLE__
  return "apple-m1";
#else
  const std::string id = read_line("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1");
  unsigned long long midr = 0;
  if (std::sscanf(id.c_str(), "%llx", &midr) != 1) return {};
  if (midr >> 24 == 0x61) return "apple-m1";
  if (midr >> 24 != 0x41) return {};
  switch (midr >> 4 & 0xfff) {
    case 0xd0c: return "neoverse-n1";
    case 0xd40: return "neoverse-v1";
    case 0xd49: return "neoverse-n2";
    default: return {};
  }
#endif
}
#else
std::string_view probe_name() { return {}; }
#endif

// The features of the table row that this machine lacks.
std::vector<std::string> hidden_features(const CpuRow& row) {
  return missing_features(split(row.features, ','));
}

// AMX is often hidden or refused where all other features are available. The CPU is still
// recognised.
bool host_has_all_but_tiles(const CpuRow& row) {
  const std::vector<std::string> hidden = hidden_features(row);
  return row.arch == host_arch() && std::all_of(hidden.begin(), hidden.end(), [](const auto& name) {
           return name.starts_with("amx-");
         });
}

// The row of the CPU's name. Where a hypervisor hides some of its features, or its model, the
// richest level that this machine fulfils. Only the named CPUs have tile registers.
const CpuRow& host_row() {
  const CpuRow* named = find_cpu(probe_name());
  if (named != nullptr && host_has_all_but_tiles(*named)) return *named;
  for (const char* level :
       {"graniterapids", "sapphirerapids", "x86-64-v4", "x86-64-v3", "x86-64-v2", "generic"}) {
    const CpuRow* row = find_cpu(level);
    if (row->arch == host_arch() && hidden_features(*row).empty()) return *row;
  }
  return *find_cpu("x86-64");
}

int count_cpus(const std::string& list) {  // "0-3,8"
  int count = 0;
  for (const std::string& piece : split(list, ',')) {
    int first = 0, last = 0;
    const int fields = std::sscanf(piece.c_str(), "%d-%d", &first, &last);
    count += fields == 2 ? last - first + 1 : fields;
  }
  return std::max(count, 1);
}

// The largest L3 per core of any CPU, in bytes. A virtual machine of a few cores may see a larger
// L3, of which the rest serves others.
constexpr std::int64_t kMostL3ACore = 32 << 20;

void probe_caches(Target& target) {
  const std::string cpu = "/sys/devices/system/cpu/cpu0/";
  const int threads_per_core = count_cpus(read_line(cpu + "topology/thread_siblings_list"));
  for (int i = 0; i < 8; ++i) {
    const std::string folder = cpu + "cache/index" + std::to_string(i) + "/";
    const std::string type = read_line(folder + "type"), level = read_line(folder + "level");
    if (type != "Data" && type != "Unified") continue;
    long long size = 0;
    char unit = 'K';
    if (std::sscanf(read_line(folder + "size").c_str(), "%lld%c", &size, &unit) < 1 || size <= 0) {
      continue;
    }
    const std::int64_t bytes = size << (unit == 'M' ? 20 : 10);
    const int sharing = count_cpus(read_line(folder + "shared_cpu_list"));
    const int cores = std::max(1, sharing / threads_per_core);
    if (level == "1") target.l1d_bytes = bytes / cores;
    if (level == "2") target.l2_bytes = bytes / cores;
    if (level == "3") target.l3_bytes = std::min(bytes, kMostL3ACore * cores);
  }
}

}  // namespace

}  // namespace internal

const Target& Target::host() {
  static const Target host = [] {
    const internal::CpuRow& row = internal::host_row();
    Target target = Target::parse("llvm -mcpu=" + std::string(row.name));
    const std::vector<std::string> known = internal::split(row.features, ',');
    const auto change = [&](char sign, const std::string& feature) {
      target.features += (target.features.empty() ? "" : ",") + std::string(1, sign) + feature;
    };
    for (const std::string& feature : internal::host_features()) {
      if (std::find(known.begin(), known.end(), feature) == known.end()) change('+', feature);
    }
    for (const std::string& feature : internal::hidden_features(row)) change('-', feature);
    const internal::Vector vector =
        internal::vector_of(row.arch, internal::apply_features(row.features, target.features));
    target.vector_bytes = vector.bytes;
    target.vector_registers = vector.registers;
    target.cores = default_num_threads();
    internal::probe_caches(target);
    return target;
  }();
  return host;
}

bool Target::runs_here() const {
  if (is_cuda()) return internal::cuda_runs_here(gpu);
  const internal::CpuRow* row = internal::find_cpu(mcpu);
  if (row == nullptr || row->arch != internal::host_arch()) return false;
  const auto& have = internal::host_features();
  for (const std::string& feature : internal::features_of(*this)) {
    if (std::find(have.begin(), have.end(), feature) == have.end()) return false;
  }
  return true;
}

}  // namespace heddle
