// Compares fork and join of Heddle's pool, OpenMP (gomp, by default and with
// OMP_WAIT_POLICY=active) and TBB.
//
//   fork_join [--rounds N] [--threads T]     runs each runtime in a process of its own, in turns
//   fork_join --runtime heddle [...]         runs one of them, with Google Benchmark's options
//
// The first form prints a table of the microseconds beyond the work.
//
// Each runtime has its own process, because idle workers of one (of gomp's forever, if active) spin
// on the cores of the next. They run in turns, because the speed of the machine changes from minute
// to minute.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "heddle/runtime/thread_pool.h"
#include "heddle/support/json.h"
#include "regions.h"

namespace heddle::bench {

using Clock = std::chrono::steady_clock;

void work_for(std::int64_t nanoseconds) {
  if (nanoseconds <= 0) return;
  const auto end = Clock::now() + std::chrono::nanoseconds(nanoseconds);
  while (Clock::now() < end) {
  }
}

void heddle_region(int threads, std::int64_t nanoseconds) {
  const ScopedThreads scope(threads);
  heddle_parallel_for(
      [](std::int64_t, std::int64_t, void* time) { work_for(*static_cast<std::int64_t*>(time)); },
      &nanoseconds, threads);
}

namespace {

constexpr int kGaps[] = {0, 1, 10, 100, 1000};  // microseconds of serial work before a region
constexpr int kBodies[] = {0, 1, 10, 100};      // microseconds of work of each thread

using Region = void (*)(int, std::int64_t);

struct Runtime {
  const char* name;
  const char* wait_policy;  // OMP_WAIT_POLICY; null: not set
  Region region;
  bool (*available)();
};
constexpr Runtime kRuntimes[] = {
    {"heddle", nullptr, heddle_region, [] { return true; }},
    {"gomp", nullptr, openmp_region, have_openmp},
    {"gomp-active", "active", openmp_region, have_openmp},
    {"tbb", nullptr, tbb_region, have_tbb},
};

double quantile(std::vector<double>& values, double at) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(at * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void run(benchmark::State& state, Region region, int threads, int gap_us, int body_us) {
  const std::int64_t gap = gap_us * 1000, body = body_us * 1000;
  for (int i = 0; i < 20; ++i) {
    work_for(gap);
    region(threads, body);
  }
  std::vector<double> beyond;  // microseconds
  for (auto _ : state) {
    work_for(gap);
    const auto begin = Clock::now();
    region(threads, body);
    const std::chrono::duration<double> took = Clock::now() - begin;
    state.SetIterationTime(took.count());
    beyond.push_back(took.count() * 1e6 - body_us);
  }
  // The median is used, because the mean is dominated by the few times when the system takes a core
  // away.
  state.counters["median_us"] = quantile(beyond, 0.5);
  state.counters["p95_us"] = quantile(beyond, 0.95);
}

const Runtime& runtime_named(const std::string& name) {
  for (const Runtime& r : kRuntimes) {
    if (r.name == name) return r;
  }
  throw std::runtime_error("there is no runtime '" + name + "'");
}

void register_cases(const Runtime& runtime, int threads) {
  for (const int gap : kGaps) {
    for (const int body : kBodies) {
      const std::string name = "gap_us:" + std::to_string(gap) + "/body_us:" + std::to_string(body);
      benchmark::RegisterBenchmark(name.c_str(), run, runtime.region, threads, gap, body)
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond)
          ->Iterations(std::clamp(100000 / (gap + body + 2), 100, 20000));
    }
  }
}

struct Figures {
  std::vector<double> median, p95;
};

// Runs this program with one runtime and adds the times that it prints.
void add_round(const char* self, const Runtime& runtime, int threads,
               std::map<std::string, Figures>& figures) {
  std::string command;
  if (runtime.wait_policy != nullptr) {
    command = std::string("OMP_WAIT_POLICY=") + runtime.wait_policy + " ";
  }
  command += "'" + std::string(self) + "' --runtime " + runtime.name + " --threads " +
             std::to_string(threads) + " --benchmark_format=json 2>/dev/null";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::string text;
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  if (::pclose(pipe) != 0) throw std::runtime_error("failed: " + command);
  const Json report = Json::parse(text);
  for (const Json& each : report.at("benchmarks").elements()) {
    const std::string name = each.at("name").as_string();
    Figures& f = figures[name.substr(0, name.find("/iterations"))];
    f.median.push_back(each.at("median_us").as_double());
    f.p95.push_back(each.at("p95_us").as_double());
  }
}

void print_table(const char* self, int threads, int rounds) {
  std::vector<const Runtime*> runtimes;
  for (const Runtime& r : kRuntimes) {
    if (r.available()) runtimes.push_back(&r);
  }
  std::map<std::string, std::map<std::string, Figures>> all;
  for (int round = 0; round < rounds; ++round) {
    for (const Runtime* r : runtimes) add_round(self, *r, threads, all[r->name]);
  }
  std::printf("%d threads, %d rounds: microseconds beyond the work, median (95th percentile)\n",
              threads, rounds);
  std::printf("%-8s%-8s", "gap us", "body us");
  for (const Runtime* r : runtimes) std::printf("%22s", r->name);
  std::printf("%16s\n", "best / heddle");
  double product = 1;
  int cases = 0;
  for (const int gap : kGaps) {
    for (const int body : kBodies) {
      const std::string key = "gap_us:" + std::to_string(gap) + "/body_us:" + std::to_string(body);
      std::printf("%-8d%-8d", gap, body);
      double ours = 0, best = 1e300;
      for (const Runtime* r : runtimes) {
        Figures& f = all[r->name][key];
        const double median = quantile(f.median, 0.5);
        std::printf("%12.2f (%7.2f)", median, quantile(f.p95, 0.5));
        (r == runtimes[0] ? ours : best) = r == runtimes[0] ? median : std::min(best, median);
      }
      if (runtimes.size() > 1) {
        std::printf("%16.2f", best / ours);
        product *= best / ours;
        ++cases;
      }
      std::printf("\n");
    }
  }
  if (cases > 0)
    std::printf("geometric mean of best / heddle: %.2f\n", std::pow(product, 1.0 / cases));
}

}  // namespace
}  // namespace heddle::bench

int main(int argc, char** argv) {
  using namespace heddle::bench;
  const char* runtime = nullptr;
  int threads = heddle::default_num_threads(), rounds = 3;
  std::vector<char*> rest{argv[0]};
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const bool has_value = i + 1 < argc;
    if (arg == "--runtime" && has_value) {
      runtime = argv[++i];
    } else if (arg == "--threads" && has_value) {
      threads = std::max(2, std::atoi(argv[++i]));
    } else if (arg == "--rounds" && has_value) {
      rounds = std::max(1, std::atoi(argv[++i]));
    } else {
      rest.push_back(argv[i]);
    }
  }
  try {
    if (runtime == nullptr) {
      print_table(argv[0], threads, rounds);
      return 0;
    }
    register_cases(runtime_named(runtime), threads);
    int count = static_cast<int>(rest.size());
    benchmark::Initialize(&count, rest.data());
    if (benchmark::ReportUnrecognizedArguments(count, rest.data())) return 2;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
