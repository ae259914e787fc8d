#include "common/machine.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <sstream>

#include "heddle/runtime/thread_pool.h"
#include "heddle/target/target.h"
#include "peers/cpu_features.h"
#include "peers/peer_cblas.h"
#include "peers/peer_libxsmm.h"
#include "peers/peer_onednn.h"
#include "peers/peer_openblas.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

// Bandwidth is measured for working sets between these sizes. Other sizes take the nearer end.
constexpr int64_t kLeastBytes = int64_t{64} << 10, kMostBytes = int64_t{256} << 20;
constexpr int64_t kReportedBytes = int64_t{64} << 20;

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json openblas_json() {
  const peers::OpenBlasInfo& info = peers::openblas_info();
  Json j = Json::object();
  j["version"] = info.config;
  j["core"] = info.core_name;
  j["core_type_set"] = info.core_type_set;
  return j;
}

}  // namespace

Machine::Machine(const Target& target)
    : simd_(!target.is_x86() || target.has("avx512f") ? peers::Simd::kBest
            : target.has("fma")                       ? peers::Simd::kAvx2
                                                      : peers::Simd::kSse) {}

const peers::FmaPeak& Machine::peak(int threads) {
  for (const Peak& p : peaks_) {
    if (p.threads == threads) return p.peak;
  }
  peaks_.push_back({threads, peers::fma_peak_f32(threads, 20, simd_)});
  return peaks_.back().peak;
}

Machine::Speed& Machine::speed(int threads, int64_t bytes) {
  for (Speed& s : speeds_) {
    if (s.threads == threads && s.bytes == bytes) return s;
  }
  speeds_.push_back({threads, bytes});
  return speeds_.back();
}

double Machine::measured(Speed& s, Bound bound) {
  const bool read = bound == Bound::Read;
  double& value = read ? s.read : s.copy;
  if (value == 0) {
    auto gb = [&](peers::Traffic kind) {
      return peers::memory_bandwidth(kind, s.threads, static_cast<size_t>(s.bytes), 10)
          .gb_per_second;
    };
    value = read ? gb(peers::Traffic::kRead)
                 : std::max(gb(peers::Traffic::kCopy), gb(peers::Traffic::kCopyNonTemporal));
  }
  return value;
}

Ceiling Machine::fma(int threads, DataType dtype) {
  const peers::FmaPeak& p = peak(threads);
  double factor = 0;
  if (dtype == f32) factor = 1;
  if (dtype == f64) factor = 0.5;
  if (factor == 0) return {};
  Ceiling c;
  c.per_second = p.gflops * factor * 1e9;
  c.text = format_fixed(p.gflops * factor, 1) + " GFLOP/s (" + p.instruction + ")";
  return c;
}

Ceiling Machine::bandwidth(Bound bound, int threads, int64_t bytes) {
  // Sizes near each other share a measurement, at the nearest 2^n or 1.5 * 2^n.
  int64_t size = kLeastBytes;
  for (int64_t power = kLeastBytes; power <= kMostBytes; power *= 2) {
    for (const int64_t candidate : {power, power / 2 * 3}) {
      if (candidate <= kMostBytes && std::abs(candidate - bytes) < std::abs(size - bytes)) {
        size = candidate;
      }
    }
  }
  Speed& s = speed(threads, size);
  const double gb = measured(s, bound);
  Ceiling c;
  c.per_second = gb * 1e9;
  c.text = format_fixed(gb, 1) + " GB/s (" + (bound == Bound::Read ? "read" : "copy") + ", " +
           (size >= (1 << 20) ? std::to_string(size >> 20) + " MiB)"
                              : std::to_string(size >> 10) + " KiB)");
  return c;
}

Json Machine::to_json(const std::vector<int>& threads, const std::vector<std::string>& peers) {
  Json j = Json::object();
  j["cpu"] = peers::cpu_features().brand;
  j["cores"] = default_num_threads();
  j["target"] = to_string(Target::host());
  j["date"] = utc_now();
  j["heddle"] = HEDDLE_VERSION;
  double load[3] = {};
  if (getloadavg(load, 3) == 3) j["load_average"] = Json::array({load[0], load[1], load[2]});

  Json fma = Json::array();
  Json bandwidth = Json::array();
  for (const int n : threads) {
    const peers::FmaPeak& p = peak(n);
    fma.push_back(
        Json::object({{"threads", n}, {"gflops", p.gflops}, {"instruction", p.instruction}}));
    Speed& s = speed(n, kReportedBytes);
    measured(s, Bound::Read);
    measured(s, Bound::Copy);
  }
  for (const Speed& s : speeds_) {
    Json one = Json::object({{"threads", s.threads}, {"bytes", s.bytes}});
    if (s.read > 0) one["read_gb_per_s"] = s.read;
    if (s.copy > 0) one["copy_gb_per_s"] = s.copy;
    bandwidth.push_back(std::move(one));
  }
  j["fma_peak_f32"] = std::move(fma);
  j["bandwidth"] = std::move(bandwidth);

  Json versions = Json::object();
  auto wanted = [&](const char* name) {
    return std::find(peers.begin(), peers.end(), name) != peers.end();
  };
  if (wanted("openblas") && peers::openblas_available()) versions["openblas"] = openblas_json();
  if (wanted("onednn") && peers::onednn_available()) {
    versions["onednn"] = Json::object({{"version", peers::onednn_version()}});
  }
  for (const auto& [name, peer] : peers::kCblasPeers) {
    if (wanted(name) && peer().available)
      versions[name] = Json::object({{"version", peer().version}});
  }
  if (wanted("libxsmm") && peers::libxsmm_available()) {
    versions["libxsmm"] = Json::object({{"version", peers::libxsmm_version()}});
  }
  j["peers"] = std::move(versions);
  return j;
}

}  // namespace heddle::cli
