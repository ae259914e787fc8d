// Times random configs, each for a few milliseconds in this process.
#include <cstdio>
#include <fstream>

#include "bench.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"

namespace heddle::bench {
namespace {

double time_of(const Schedule& s, const std::vector<Tensor>& args, const Target& target) {
  Kernel kernel = build(s, args, {.target = target});
  std::vector<NDArray> arrays;
  for (const Tensor& t : args) arrays.push_back(NDArray::random(t.extents(), t.dtype(), 1));
  // The least of the samples: others work on this machine too.
  return measure([&] { kernel.call(arrays); }, 0.012, 200).min_s;
}

}  // namespace

int collect(const std::string& path, int per_task) {
  const Target& target = Target::host();
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
