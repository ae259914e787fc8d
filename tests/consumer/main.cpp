// A program of a user who installed Heddle.
//
//   consumer                          computes
//   consumer measure <log>            times and records a schedule that is not the static choice
//   consumer recorded <prefix> <file> expects that record to be found, and used
//   consumer tune                     tunes, in worker processes of the installed library
#include <heddle/heddle.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>
using namespace heddle;

namespace {

struct Product {
  Tensor a = placeholder({16, 32}, f32, "a"), b = placeholder({32, 8}, f32, "b");
  Axis k = reduce_axis(32, "k");
  Tensor c = compute({16, 8}, [&](Axis i, Axis j) { return sum(a(i, k) * b(k, j), k); }, "c");
};

// Runs the schedule, and checks the result. Returns the seconds of the last of a few calls; 0 where
// the result was wrong.
double run(const Product& p, const Schedule& schedule) {
  const NDArray ones = NDArray::full({16, 32}, f32, 1), halves = NDArray::full({32, 8}, f32, 0.5);
  NDArray result = NDArray::zeros({16, 8}, f32);
  const Kernel kernel = build(schedule, {p.a, p.b, p.c});
  double seconds = 0;
  for (int i = 0; i < 3; ++i) {
    const Timer timer;
    kernel(ones, halves, result);
    seconds = timer.elapsed_s();
  }
  return allclose(result, NDArray::full({16, 8}, f32, 16)) ? seconds : 0;
}

// With what one header gives: operators, weights that the kernel brings along, a network of two
// layers, where its time goes, and tuning that says how it goes.
bool network() {
  const Tensor x = placeholder({4, 32}, f32, "x");
  const Tensor w = constant(NDArray::full({32, 8}, f32, 0.5), "w");
  const Tensor y = ops::relu(
      ops::matmul(ops::relu(ops::matmul(x, w)), constant(NDArray::full({8, 8}, f32, 1), "v")));
  const NetworkKernel kernel = Network({y}).build({x, y});
  kernel.prepare();
  const NDArray in = full_like(x, 1), out = zeros_like(y);
  kernel(in, out);
  std::cout << kernel.profile({in, out}, 0.01);
  std::cout << tune({y}, {.max_trials = 2, .progress = print_progress()});
  return allclose(out, full_like(y, 128));
}

int compute_only() {
  const Product p;
  const bool good = run(p, create_schedule({p.c})) > 0 && network();
  std::printf("consumer: %s on %s\n", good ? "ok" : "WRONG", to_string(Target::host()).c_str());
  return good ? 0 : 1;
}

int measure(const char* log) {
  const Product p;
  const Template t = make_template(ComputeDag({p.c}), Target::host());
  for (size_t knob = 0; knob < t.knobs().size(); ++knob) {
    for (const int64_t value : t.knobs()[knob].values) {
      Config config = t.default_config();
      config.values[knob] = value;
      if (value == t.default_config().values[knob] || !t.why_invalid(config).empty()) continue;
      Record record = make_record("consumer", t, config);
      record.seconds = {run(p, t.instantiate(config))};
      record.protocol = "consumer";
      RecordLog(log).append(record);
      std::printf("consumer: measured %s\n", record.config.dump().c_str());
      return 0;
    }
  }
  return 1;
}

int recorded(const std::string& prefix, const std::string& file) {
  // Nothing of the build or source tree may be consulted.
  for (const std::string& path : tophub_files()) {
    if (path.rfind(prefix, 0) != 0) {
      std::printf("consumer: WRONG: %s is not under %s\n", path.c_str(), prefix.c_str());
      return 1;
    }
  }
  const Product p;
  const Schedule schedule = create_schedule({p.c});
  const bool good = schedule.provenance.rfind("record of " + file, 0) == 0 && run(p, schedule) > 0;
  std::printf("consumer: %s: %s\n", good ? "ok" : "WRONG", schedule.provenance.c_str());
  return good ? 0 : 1;
}

int tune_it() {
  const Product p;
  TuneOptions options;
  options.max_trials = 4;
  options.budget = std::chrono::seconds(30);
  options.progress = [](const TuneProgress&) {};
  const TuneResult best = tune({p.c}, options);
  const bool good = best.report.trials > 0 && best.failures == 0 && run(p, best.schedule) > 0;
  std::printf("consumer: %s: %d trials\n", good ? "ok" : "WRONG", best.report.trials);
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 1 && words[0] == "tune") return tune_it();
  if (words.size() == 2 && words[0] == "measure") return measure(argv[2]);
  if (words.size() == 3 && words[0] == "recorded") return recorded(words[1], words[2]);
  return compute_only();
}
