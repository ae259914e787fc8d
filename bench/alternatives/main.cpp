// Shows how far the static choice of the graph is from the best one. Each subject runs as the
// static choice has it and in every graph that rules make of it, all with the schedules of the
// rules.
//
//   graph_sweep --target cuda --dtype f32 --dtype f16       twelve convolutions
//   graph_sweep --target llvm conv2d:c=64,h=56,k=64,r=3,pad=1,layout=nhwc
//
// A line of each subject has the times of all graphs, the static choice first; the table follows.
//
// The times are those that `heddle heuristic collect` would log: all graphs of a subject beside the
// static choice, and the leaders in a race.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "heddle/driver/build.h"
#include "heddle/heuristics/collect.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "heuristics/collect/measure_choices.h"
#include "subjects/subjects.h"
#include "subjects/target_text.h"
#include "support/table.h"

namespace {

using namespace heddle;

struct Options {
  std::vector<std::string> subjects, dtypes;
  std::string target = "llvm -mcpu=native";
  int threads = 2;
  std::string turns;
};

// Layers of ResNet-50, VGG, MobileNet and an Inception network.
std::vector<std::string> twelve_convolutions() {
  return {"conv2d:n=8,c=3,h=224,w=224,k=64,r=7,stride=2,pad=3,layout=nchw",
          "conv2d:n=8,c=64,h=56,w=56,k=64,r=3,pad=1,layout=nchw",
          "conv2d:n=8,c=64,h=56,w=56,k=256,r=1,layout=nchw",
          "conv2d:n=8,c=256,h=56,w=56,k=512,r=1,stride=2,layout=nchw",
          "conv2d:n=8,c=128,h=28,w=28,k=128,r=3,pad=1,layout=nchw",
          "conv2d:n=8,c=512,h=7,w=7,k=512,r=3,pad=1,layout=nchw",
          "conv2d:n=8,c=64,h=56,w=56,k=64,r=3,pad=1,layout=nhwc",
          "conv2d:n=8,c=256,h=14,w=14,k=256,r=3,pad=1,layout=nhwc",
          "conv2d:n=8,c=512,h=7,w=7,k=2048,r=1,layout=nhwc",
          "conv2d:n=1,c=64,h=112,w=112,k=128,r=3,pad=1,layout=nhwc",
          "conv2d:n=8,c=48,h=35,w=35,k=64,r=5,pad=2,layout=nhwc",
          "conv2d:n=32,c=128,h=28,w=28,k=128,r=3,stride=2,pad=1,layout=nhwc"};
}

/// Speeds relative to another schedule, and their geometric mean.
struct Ratios {
  double logs = 0, worst = 1;
  int count = 0;
  void add(double ratio) {
    logs += std::log(ratio);
    worst = std::max(worst, ratio);
    ++count;
  }
  double mean() const { return std::exp(logs / std::max(1, count)); }
};

struct Sweep {
  const Options& o;
  Target target;
  Measurer& measurer;
  Table table{{"subject", "type", "static", "graph", "best", "graph", "static / best", "graphs"}};
  Ratios over_best = {};

  void run(const std::string& subject, const std::string& dtype) {
    const cli::Problem problem = cli::make_problem(subject, cli::dtype_of(dtype));
    const std::vector<Schedule> schedules = graphs_of(problem);
    const ComputeDag dag(problem.outputs);
    TuneTask task{.name = subject,
                  .args = problem.args(),
                  .tmpl = make_template_of_alternatives(dag, target, {})};
    const TuneClock clock(600);
    const ChoiceTimes times = measure_choices(measurer, task, schedules, clock);
    print_each(subject, dtype, schedules, times.seconds);
    std::vector<std::string> row{subject, dtype};
    if (!times.problem.empty()) {
      row.resize(8, "-");
      row[5] = times.problem;
      return table.add_row(row);
    }
    const auto best = static_cast<std::size_t>(
        std::min_element(times.seconds.begin(), times.seconds.end(), less_or_failed) -
        times.seconds.begin());
    for (const std::size_t i : {std::size_t{0}, best}) {
      row.push_back(format_fixed(times.seconds[i] * 1e6, 1) + " us");
      row.push_back(graph_of(schedules[i]));
    }
    over_best.add(times.seconds[0] / times.seconds[best]);
    row.push_back(format_fixed(times.seconds[0] / times.seconds[best], 2));
    row.push_back(std::to_string(schedules.size()));
    table.add_row(row);
  }

  // One line for a subject, as soon as it is measured: each schedule with its time.
  static void print_each(const std::string& subject, const std::string& dtype,
                         const std::vector<Schedule>& schedules,
                         const std::vector<double>& seconds) {
    std::string line = subject + " " + dtype + ": ";
    for (std::size_t i = 0; i < schedules.size(); ++i) {
      if (i > 0) line += ", ";
      line += graph_of(schedules[i]) + " ";
      line += std::isnan(seconds[i]) ? "failed" : format_fixed(seconds[i] * 1e6, 2) + " us";
    }
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }

  // A failed schedule has no time. It is never the best.
  static bool less_or_failed(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

  // The schedule of the static choice, then those of all graphs that the rules make.
  std::vector<Schedule> graphs_of(const cli::Problem& problem) const {
    const BuildOutcome outcome =
        build_choices(heuristic_of(target.is_cuda() ? "cuda_alternative" : "alternative"),
                      problem.outputs, target);
    if (!outcome.built.empty()) return outcome.built.front().schedules;
    AutoSchedulerOptions options;
    options.use_records = false;
    return {create_schedule(problem.outputs, target, options)};
  }

  // The graph of a schedule, as it names itself.
  static std::string graph_of(const Schedule& schedule) {
    const std::string name = schedule.dag().alternative();
    return name.empty() ? "as declared" : name;
  }
};

int run(Options o) {
  if (o.subjects.empty()) o.subjects = twelve_convolutions();
  if (o.dtypes.empty()) o.dtypes = {"f32"};
  const Target target = cli::target_of(o.target, o.threads);
  const ScopedThreads threads(target.is_cuda() ? default_num_threads() : o.threads);
  const auto measurer =
      target.is_cuda() ? make_cuda_measurer({.turns = o.turns}) : make_worker_measurer();
  Sweep sweep{o, target, *measurer};
  for (const int c : {0, 1, 3, 5}) sweep.table.align_left(static_cast<size_t>(c));
  for (const std::string& dtype : o.dtypes) {
    for (const std::string& subject : o.subjects) {
      std::fprintf(stderr, "%s %s\n", subject.c_str(), dtype.c_str());
      sweep.run(subject, dtype);
    }
  }
  std::printf("%s", sweep.table.to_string().c_str());
  std::printf("static over best of %d: %.3f in geometric mean, %.2f at worst\n",
              sweep.over_best.count, sweep.over_best.mean(), sweep.over_best.worst);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app{"The static choice of the graph beside all graphs that rules make"};
  app.add_option("subjects", o.subjects, "As of `heddle bench` (default: twelve convolutions)");
  app.add_option("--dtype", o.dtypes, "Types of the inputs (f32)")->allow_extra_args(false);
  app.add_option("--target", o.target, "Machine: llvm -mcpu=native, or cuda");
  app.add_option("--threads", o.threads, "Of kernels for CPUs (2)")->check(CLI::Range(1, 1024));
  app.add_option("--turns", o.turns, "A file that processes which share the GPU lock in turns");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(std::move(o));
  } catch (const Error& e) {
    std::fprintf(stderr, "graph_sweep: %s\n", e.what());
    return 2;
  }
}
