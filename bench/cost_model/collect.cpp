// Times random configs in this process, each for a few milliseconds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <limits>

#include "bench.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"

namespace heddle::bench {
namespace {

// On one thread the CPU time is measured.
double now(const Target& target) {
  if (target.cores == 1) return processor_time();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double time_of(const Schedule& s, const std::vector<Tensor>& args, const Target& target) {
  Kernel kernel = build(s, args);
  std::vector<NDArray> arrays;
  for (const Tensor& t : args) arrays.push_back(NDArray::random(t.extents(), t.dtype(), 1));
  kernel.call(arrays);
  double least = std::numeric_limits<double>::infinity(), whole = 0;
  for (int i = 0; i < 200 && (whole < 0.015 || i < 3); ++i) {
    double begin = now(target);
    kernel.call(arrays);
    double t = now(target) - begin;
    least = std::min(least, t);
    whole += t;
  }
  return least;
}

}  // namespace

int collect(const std::string& path, int per_task) {
  const Target target = bench_target();
  std::ofstream out(path, std::ios::app);
  Timer whole;
  for (const Task& task : bench_tasks(target)) {
    Timer timer;
    int done = 0;
    for (const Config& c : random_configs(task.tmpl, per_task, 17)) {
      double seconds = 0;
      try {
        seconds = time_of(task.tmpl.instantiate(c), task.args, target);
      } catch (const Error& e) {
        std::fprintf(stderr, "%s: %s\n", task.name.c_str(), e.what());
        continue;
      }
      out << task.name << '\t';
      for (size_t i = 0; i < c.values.size(); ++i) out << (i ? "," : "") << c.values[i];
      out << '\t' << seconds << std::endl;
      ++done;
    }
    std::printf("%-28s %4d configs in %.1f s\n", task.name.c_str(), done, timer.elapsed_s());
    std::fflush(stdout);
  }
  std::printf("%.0f s in all\n", whole.elapsed_s());
  return 0;
}

}  // namespace heddle::bench
