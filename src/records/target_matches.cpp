#include <algorithm>
#include <limits>

#include "heddle/records/database.h"
#include "records/log_ratio.h"

namespace heddle {

using namespace records;
namespace {

/// The features of "+a,-b", sorted.
std::string sorted_features(const std::string& text) {
  std::vector<std::string> features;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    features.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  std::sort(features.begin(), features.end());
  std::string out;
  for (const std::string& f : features) out += f + ",";
  return out;
}

}  // namespace

bool target_matches(const Target& have, const Target& want) {
  if (have.is_cuda() && want.is_cuda()) {
    // The number of SMs tells boards of one name, and slices of one GPU, apart.
    return have.gpu.name == want.gpu.name && have.gpu.arch == want.gpu.arch &&
           have.gpu.sms == want.gpu.sms;
  }
  return have.kind == want.kind && have.mcpu == want.mcpu && have.triple == want.triple &&
         have.cores == want.cores && have.vector_bytes == want.vector_bytes &&
         have.vector_registers == want.vector_registers &&
         sorted_features(have.features) == sorted_features(want.features);
}

double chip_distance(const Target& a, const Target& b) {
  // Chips of other names differ in more than the table says, and those of another architecture in
  // their instructions.
  constexpr double kOtherName = 0.5, kOtherArch = 2;
  if (a.kind != b.kind || a.triple != b.triple) return std::numeric_limits<double>::infinity();
  Target same_threads = a;
  same_threads.cores = b.cores;
  if (target_matches(same_threads, b)) return 0;
  if (a.is_cuda()) {
    return kOtherName + (a.gpu.arch == b.gpu.arch ? 0 : kOtherArch) +
           log_ratio(a.gpu.sms, b.gpu.sms) + log_ratio(a.gpu.bandwidth_gbs, b.gpu.bandwidth_gbs) +
           log_ratio(a.gpu.f32_lanes, b.gpu.f32_lanes) +
           log_ratio(a.gpu.smem_per_sm, b.gpu.smem_per_sm);
  }
  const auto bytes = [](int64_t n) { return static_cast<double>(n); };
  return kOtherName + log_ratio(a.vector_bytes, b.vector_bytes) +
         log_ratio(a.vector_registers, b.vector_registers) + log_ratio(a.fma_units, b.fma_units) +
         log_ratio(bytes(a.l1d_bytes), bytes(b.l1d_bytes)) +
         log_ratio(bytes(a.l2_bytes), bytes(b.l2_bytes));
}

}  // namespace heddle
