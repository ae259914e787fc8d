// Helpers of the tests of measuring: a small task, candidates, and checks for remaining processes.
#pragma once

#include <dirent.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "heddle/measure/measure.h"
#include "heddle/ops/linalg.h"
#include "heddle/support/rng.h"

namespace heddle::testing {

inline Target two_threads() {
  Target t = Target::host();
  t.cores = 2;
  return t;
}

inline TuneTask small_matmul(const Target& target = two_threads()) {
  return make_task("matmul:48x40x56",
                   {ops::matmul(placeholder({48, 40}, f32, "A"), placeholder({40, 56}, f32, "B"))},
                   target);
}

inline TuneTask one_thread_matmul() {
  Target t = Target::host();
  t.cores = 1;
  return small_matmul(t);
}

/// The default and random legal candidates.
inline std::vector<Schedule> candidates(const TuneTask& task, size_t count, uint64_t seed = 1) {
  Rng rng(seed);
  std::vector<Schedule> out{task.tmpl.instantiate(task.tmpl.default_config())};
  while (out.size() < count) {
    Config c;
    for (const Knob& k : task.tmpl.knobs()) c.values.push_back(rng.choose(k.values));
    if (task.tmpl.why_invalid(c).empty()) out.push_back(task.tmpl.instantiate(c));
  }
  return out;
}

/// So short that tests are quick; nothing here asserts on a time measured.
inline MeasureProtocol quick_protocol() {
  MeasureProtocol p;
  p.min_seconds = 0;
  p.max_repeats = 3;
  p.cutoff = 0;
  return p;
}

/// Results by index; each index must be reported once.
struct Collected {
  std::vector<MeasureResult> results;
  std::vector<int> reports;
};
inline Collected measure_all(Measurer& measurer, const TuneTask& task,
                             const std::vector<Schedule>& schedules,
                             const TuneClock& clock = TuneClock(),
                             double best = std::numeric_limits<double>::infinity()) {
  Collected out;
  out.results.resize(schedules.size());
  out.reports.resize(schedules.size());
  measurer.measure(task, schedules, best, clock, [&](size_t i, const MeasureResult& r) {
    out.results.at(i) = r;
    ++out.reports.at(i);
  });
  return out;
}

/// Neither living nor dead ones.
inline bool has_children() { return !(::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD); }

/// Of the first thread of this process.
inline std::vector<pid_t> children() {
  const std::string self = std::to_string(::getpid());
  std::ifstream file("/proc/self/task/" + self + "/children");
  std::vector<pid_t> out;
  for (pid_t pid = 0; file >> pid;) out.push_back(pid);
  return out;
}

inline int open_files() {
  int count = 0;
  DIR* dir = ::opendir("/proc/self/fd");
  while (dir && ::readdir(dir)) ++count;
  if (dir) ::closedir(dir);
  return count;
}

}  // namespace heddle::testing
