#include "heuristics/collect/quiet.h"

#include <chrono>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <thread>

#include "runtime/machine/cpu_topology.h"

namespace heddle::learning {
namespace {

// The system counts hundredths of a second.
constexpr std::chrono::milliseconds kGlance{100};
// Cores that are busy for less than this share disturb little.
constexpr double kBusy = 0.15;
constexpr int kIdleColumns[] = {3, 4};  // idle, and waiting for a disk

std::string proc_stat() {
  std::ifstream file("/proc/stat");
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Ticks {
  double all = 0, idle = 0;
};

/// The ticks of these cores: lines such as "cpu3 user nice system idle iowait irq ...".
Ticks ticks_of(const std::string& stat, const std::vector<int>& cpus) {
  Ticks sum;
  std::istringstream lines(stat);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    bool own = false;
    for (const int cpu : cpus) own |= name == "cpu" + std::to_string(cpu);
    double ticks = 0;
    for (int column = 0; own && column < 8 && words >> ticks; ++column) {
      sum.all += ticks;
      for (const int idle : kIdleColumns) sum.idle += column == idle ? ticks : 0;
    }
  }
  return sum;
}

}  // namespace

double busy_share(const std::string& before, const std::string& after,
                  const std::vector<int>& cpus) {
  const Ticks a = ticks_of(before, cpus), b = ticks_of(after, cpus);
  const double all = b.all - a.all;
  return all > 0 ? 1 - (b.idle - a.idle) / all : 0;
}

double wait_for_quiet(double most_seconds, const TuneClock& clock) {
  const auto begin = std::chrono::steady_clock::now();
  const std::span<const int> own = internal::cpu_topology().cpus();
  const std::vector<int> cpus(own.begin(), own.end());
  std::chrono::duration<double> waited{0};
  while (waited.count() < most_seconds && !clock.expired()) {
    const std::string before = proc_stat();
    std::this_thread::sleep_for(kGlance);
    if (busy_share(before, proc_stat(), cpus) < kBusy) break;
    waited = std::chrono::steady_clock::now() - begin;
  }
  return waited.count();
}

}  // namespace heddle::learning
