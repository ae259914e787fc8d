// A synthetic tuning log, for tests of drawing and counting.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "heddle/records/record.h"
#include "heddle/support/rng.h"

namespace heddle {

struct SyntheticTask {
  std::string name;
  double static_seconds = 2e-3;
  double flops = 2.7e8, bytes = 3e6;
};

/// `trials` a task, in rounds of 32 that take turns, then a race of each task's static and best.
/// Config {"tile": 8} is the static one.
inline std::vector<Record> synthetic_records(const std::vector<SyntheticTask>& tasks, int trials,
                                             double failing = 0.1, uint64_t seed = 1) {
  Rng rng(seed);
  std::vector<Record> records;
  std::vector<double> best(tasks.size(), INFINITY);
  std::vector<int64_t> best_tile(tasks.size(), 8);
  auto uniform = [&] { return rng.uniform_real(); };
  auto record_of = [&](size_t task, int64_t tile) {
    Record r;
    r.structural_hash = 100 + task;
    r.subject = tasks[task].name;
    r.target = Target::parse("llvm -mcpu=haswell -threads=2");
    r.template_name = "complex_reduction";
    r.config = Json::object({{"tile", tile}, {"unroll", 16}, {"pack", tile % 2}});
    r.protocol = "warm repeats=30";
    r.flops = tasks[task].flops;
    r.bytes = tasks[task].bytes;
    r.compile_seconds = 0.02 + 0.01 * uniform();
    r.measure_seconds = 0.008 + 0.004 * uniform();
    r.machine = "Some CPU (2 cores, L2 1M, L3 32M)";
    r.build = "0.1.0";
    r.unix_time = 1700000000 + static_cast<int64_t>(records.size()) / 30;
    return r;
  };
  const int rounds = (trials + 31) / 32;
  for (int round = 0; round < rounds; ++round) {
    for (size_t task = 0; task < tasks.size(); ++task) {
      for (int i = 32 * round; i < std::min(trials, 32 * round + 32); ++i) {
        Record r = record_of(task, i == 0 ? 8 : 9 + i);
        const double t = tasks[task].static_seconds;
        const double learned = 1 - std::exp(-i / 60.0);
        const double seconds =
            i == 0 ? t : t * (0.62 + (1.8 - 1.5 * learned) * uniform() * uniform() * 2);
        r.predicted = learned * (t / seconds) + (1 - learned) * uniform();
        if (i > 0 && uniform() < failing) {
          r.error = static_cast<MeasureError>(rng.uniform_int(1, 6));
          r.message = "something <went> & wrong with \"it\"";
        } else {
          r.seconds = {seconds, seconds * 1.01, seconds * 0.99};
          if (r.median() < best[task]) {
            best[task] = r.median();
            best_tile[task] = i == 0 ? 8 : 9 + i;
          }
        }
        records.push_back(std::move(r));
      }
    }
  }
  for (size_t task = 0; task < tasks.size(); ++task) {
    if (!std::isfinite(best[task])) continue;
    for (const bool is_static : {true, false}) {
      Record r = record_of(task, is_static ? 8 : best_tile[task]);
      r.verdict = Verdict::Raced;
      const double seconds = is_static ? tasks[task].static_seconds : best[task];
      r.seconds = {seconds * 1.02};
      records.push_back(std::move(r));
    }
  }
  return records;
}

}  // namespace heddle
