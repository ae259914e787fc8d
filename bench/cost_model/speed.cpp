// Programs per second on one core, for the work that evolutionary search does with every candidate.
#include <cstdio>

#include "bench.h"
#include "heddle/cost_model/cost_model.h"

namespace heddle::bench {
namespace {

template <class F>
double per_second(int programs, F&& once) {
  once();
  double begin = processor_time(), spent = 0;
  int rounds = 0;
  do {
    once();
    ++rounds;
    spent = processor_time() - begin;
  } while (spent < 0.25);
  return programs * rounds / spent;
}

}  // namespace

int speed() {
  const Target target = bench_target();
  std::printf("programs a second on one core%10s %14s %14s %14s %14s\n", "", "instantiate",
              "nest+features", "all three", "extract lowered");
  for (const Task& task : bench_tasks(target)) {
    std::vector<Config> configs = random_configs(task.tmpl, 200, 5);
    int n = static_cast<int>(configs.size());
    std::vector<Schedule> schedules;
    std::vector<LoweredFunction> lowered;
    for (const Config& c : configs) {
      schedules.push_back(task.tmpl.instantiate(c));
      lowered.push_back(lower(schedules.back(), task.args).main);
    }
    double instantiate = per_second(n, [&] {
      for (const Config& c : configs) task.tmpl.instantiate(c);
    });
    double nest = per_second(n, [&] {
      for (const Schedule& s : schedules) schedule_features(s, task.args);
    });
    double all = per_second(n, [&] {
      for (const Config& c : configs) schedule_features(task.tmpl.instantiate(c), task.args);
    });
    double extract = per_second(n, [&] {
      for (const LoweredFunction& f : lowered) extract_features(f, target);
    });
    std::printf("%-39s %14.0f %14.0f %14.0f %14.0f\n", task.name.c_str(), instantiate, nest, all,
                extract);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace heddle::bench
