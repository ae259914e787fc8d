#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "bench.h"
#include "heddle/ops/ops.h"
#include "heddle/support/error.h"
#include "heddle/support/rng.h"

namespace heddle::bench {
namespace {

using ops::NHWC;

Tensor in(std::vector<int64_t> shape) {
  std::vector<Expr> extents(shape.begin(), shape.end());
  return placeholder(extents, f32, "x");
}

}  // namespace

Target bench_target() {
  const char* threads = std::getenv("HEDDLE_BENCH_THREADS");
  return threads ? Target::parse(std::string("llvm -mcpu=native -threads=") + threads)
                 : Target::host();
}

std::vector<Task> bench_tasks(const Target& target) {
  std::vector<std::pair<std::string, Tensor>> all = {
      {"matmul 512x512x512", ops::matmul(in({512, 512}), in({512, 512}))},
      {"matmul 127x511x255", ops::matmul(in({127, 255}), in({255, 511}))},
      {"matmul 128x1024x1024", ops::matmul(in({128, 1024}), in({1024, 1024}))},
      {"matmul 784x128x1152", ops::matmul(in({784, 1152}), in({1152, 128}))},
      {"batch_matmul 12x128x128x64", ops::batch_matmul(in({12, 128, 64}), in({12, 64, 128}))},
      {"conv 64x56 3x3",
       ops::conv2d(in({1, 56, 56, 64}), in({3, 3, 64, 64}), {.padding = {1}, .layout = NHWC})},
      {"conv 128x28 3x3",
       ops::conv2d(in({1, 28, 28, 128}), in({3, 3, 128, 128}), {.padding = {1}, .layout = NHWC})},
      {"conv 256x14->1024 1x1",
       ops::conv2d(in({1, 14, 14, 256}), in({1, 1, 256, 1024}), {.layout = NHWC})},
      {"conv 32x56 3x3 relu",
       ops::relu(ops::conv2d(in({1, 56, 56, 32}), in({3, 3, 32, 32}),
                             {.stride = {2}, .padding = {1}, .layout = NHWC}))},
      {"depthwise 144x56", ops::depthwise_conv2d(in({1, 56, 56, 144}), in({3, 3, 1, 144}),
                                                 {.padding = {1}, .layout = NHWC})},
      {"softmax 1000x1000", ops::softmax(in({1000, 1000}))},
      {"layer_norm 197x768", ops::layer_norm(in({197, 768}), in({768}), in({768}))},
      {"row_sum 1000x1000", ops::sum(in({1000, 1000}), {1})},
      {"column_sum 1000x1000", ops::sum(in({1000, 1000}), {0})},
      {"transpose 1000x1000", ops::transpose(in({1000, 1000}))},
      {"gelu 512x1024", ops::gelu(in({512, 1024}))},
  };
  std::vector<Task> out;
  for (auto& [name, result] : all) {
    ComputeDag dag({result});
    std::vector<Tensor> args = dag.placeholders();
    args.push_back(result);
    out.push_back({name, std::move(args), make_template(dag, target)});
  }
  return out;
}

double processor_time() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::vector<Config> random_configs(const Template& t, int count, uint64_t seed) {
  Rng rng(seed);
  std::vector<Config> out;
  for (int tries = 0; tries < 50 * count && static_cast<int>(out.size()) < count; ++tries) {
    Config c;
    for (const Knob& k : t.knobs()) c.values.push_back(rng.choose(k.values));
    if (t.why_invalid(c).empty() && std::find(out.begin(), out.end(), c) == out.end())
      out.push_back(std::move(c));
  }
  return out;
}

std::vector<Sample> read_samples(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw_runtime_error("cannot read '" + path + "'", {}, "run collect first");
  std::vector<Sample> out;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream parts(line);
    Sample s;
    std::string values, seconds;
    if (!std::getline(parts, s.task, '\t') || !std::getline(parts, values, '\t') ||
        !std::getline(parts, seconds)) {
      continue;
    }
    std::istringstream numbers(values);
    for (std::string v; std::getline(numbers, v, ',');) s.config.values.push_back(std::stoll(v));
    s.seconds = std::stod(seconds);
    out.push_back(std::move(s));
  }
  return out;
}

}  // namespace heddle::bench
