// Compares a model over ranges of sizes with the same model imported and built for each size alone,
// at random sizes. It prints figures of docs/shape-families.md.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "heddle/dag/instance.h"
#include "heddle/network/network.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "size_race.h"
#include "subjects/model_subject.h"

namespace {

using namespace heddle;

struct Options {
  std::string subject, at;
  int threads = 2, sizes = 40;
  uint64_t seed = 1;
  bool work = false;  ///< processor time of one thread
};

/// Sizes whose logarithms are evenly spread.
std::vector<std::vector<int64_t>> drawn(const std::vector<Dim>& dims, const Options& o) {
  std::vector<std::vector<int64_t>> out;
  for (const std::string& size : CLI::detail::split(o.at, ',')) {
    if (!size.empty()) out.push_back({std::stoll(size)});
  }
  if (!out.empty()) return out;
  return bench::drawn_sizes(dims, o.sizes, o.seed);
}

class Comparison {
 public:
  explicit Comparison(const Options& o)
      : o_(o), target_(Target::host()), model_(cli::import_subject(o.subject, f32)) {
    target_.cores = o.threads;
    const Timer timer;
    const Network network(model_.outputs, target_);
    family_ = network.build(model_.args());
    std::printf("%s\n%sbuilt in %.1f s: %zu nodes, %d kernels\n\n", o.subject.c_str(),
                network.to_text().c_str(), timer.elapsed_s(), network.nodes().size(),
                family_.build_report().kernels);
  }

  void run() {
    std::printf("%12s %12s %12s %7s\n", "size", "alone, ms", "range, ms", "ratio");
    double logs = 0, worst = 1e300;
    const auto sizes = drawn(model_.dims, o_);
    for (const std::vector<int64_t>& at : sizes) {
      const double ratio = compare(at);
      logs += std::log(ratio);
      worst = std::min(worst, ratio);
    }
    std::printf("%zu sizes: geometric mean %.3f, worst %.3f\n", sizes.size(),
                std::exp(logs / static_cast<double>(sizes.size())), worst);
  }

 private:
  double compare(const std::vector<int64_t>& sizes) {
    std::vector<SizeValue> values;
    std::string text;
    for (size_t i = 0; i < sizes.size(); ++i) {
      values.emplace_back(model_.dims[i], sizes[i]);
      text += (i ? "x" : "") + std::to_string(sizes[i]);
    }
    const Instance at = at_sizes(model_.outputs, values);
    const std::vector<Tensor> args = at.of(model_.args());
    const NetworkKernel one = Network(at.outputs, target_).build(args);
    std::vector<NDArray> arrays;
    for (const Tensor& t : args) {
      arrays.push_back(t.op()->is_placeholder()
                           ? NDArray::random(t.extents(), t.dtype(), arrays.size() + 1)
                           : NDArray::zeros(t.extents(), t.dtype()));
    }
    const std::vector<std::function<void()>> runs = {[&] { one.call(arrays); },
                                                     [&] { family_.call(arrays); }};
    const std::vector<double> s =
        o_.work ? bench::processor_times(runs) : bench::times_on_the_clock(runs);
    const double ratio = s[0] / s[1];
    std::printf("%12s %12.3f %12.3f %7.2f\n", text.c_str(), s[0] * 1e3, s[1] * 1e3, ratio);
    std::fflush(stdout);
    return ratio;
  }

  const Options& o_;
  Target target_;
  OnnxModel model_;
  NetworkKernel family_;
};

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app("A model over ranges of sizes against the model at each size alone");
  app.add_option("subject", o.subject, "such as bert.onnx:batch=1,seq=1..512")->required();
  app.add_option("--sizes", o.sizes, "how many sizes are drawn")->capture_default_str();
  app.add_option("--at", o.at, "these sizes instead: 1,17,300");
  app.add_option("--seed", o.seed, "of the sizes")->capture_default_str();
  app.add_option("--threads", o.threads, "threads")->capture_default_str();
  app.add_flag("--work", o.work, "compare processor time on one thread, for a loaded machine");
  CLI11_PARSE(app, argc, argv);
  try {
    if (o.work) o.threads = 1;
    const ScopedThreads threads(o.threads);
    Comparison(o).run();
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
  return 0;
}
