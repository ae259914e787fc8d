// Compares a model over ranges of sizes with the same model built for each size alone, at random
// sizes, on a CPU or a GPU. It prints figures of docs/measurements/dynamic-shapes.md.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "heddle/dag/instance.h"
#include "heddle/network/network.h"
#include "heddle/network/size_kernels.h"
#include "heddle/runtime/cuda.h"
#include "heddle/runtime/profile.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "size_race.h"
#include "subjects/model_subject.h"
#include "subjects/target_text.h"

namespace {

using namespace heddle;

struct Options {
  std::string subject, at, target = "llvm -mcpu=native", dtype = "f32";
  int threads = 2, sizes = 40;
  uint64_t seed = 1;
  bool work = false;   ///< processor time of one thread
  bool check = false;  ///< compare the outputs with those of this CPU in f32
  double race = 0;     ///< seconds of a race of kernels; 0: none
  double profile = 0;  ///< seconds of a profile of both at each size; 0: none
};

/// Seconds of a call on the GPU: of each the least median of several turns.
std::vector<double> gpu_times(const std::vector<std::function<void()>>& runs) {
  constexpr int kTurns = 9, kWarm = 3, kCalls = 10;
  std::vector<std::vector<double>> samples(runs.size());
  for (const auto& run : runs) {
    for (int i = 0; i < kWarm; ++i) run();  // loads code, captures the graph
  }
  for (int turn = 0; turn < kTurns; ++turn) {
    for (size_t r = 0; r < runs.size(); ++r) {
      cuda::synchronize();
      const Timer timer;
      for (int i = 0; i < kCalls; ++i) runs[r]();
      cuda::synchronize();
      samples[r].push_back(timer.elapsed_s() / kCalls);
    }
  }
  std::vector<double> seconds;
  for (std::vector<double>& s : samples) {
    std::sort(s.begin(), s.end());
    seconds.push_back(s[s.size() / 2]);
  }
  return seconds;
}

/// The largest difference of two arrays, in units of the largest element of `want`.
double difference(const NDArray& got, const NDArray& want) {
  double most = 0, largest = 1e-30;
  for (int64_t i = 0; i < want.size(); ++i) {
    const double d = std::abs(got.get(i) - want.get(i));
    most = std::isnan(d) ? 1e300 : std::max(most, d);
    largest = std::max(largest, std::abs(want.get(i)));
  }
  return most / largest;
}

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
      : o_(o),
        target_(Target::parse(o.target)),
        model_(cli::import_subject(o.subject, cli::dtype_of(o.dtype))) {
    if (!target_.is_cuda()) target_.cores = o.threads;
    const Timer timer;
    const Network network(model_.outputs, target_);
    if (o.race > 0) {
      const auto kernels = choose_kernels(network, model_.dims, {.race_seconds = o.race});
      std::printf("%s\n", to_text(kernels).c_str());
      family_ = network.build(model_.args(), kernels);
    } else {
      family_ = network.build(model_.args());
    }
    std::printf("%s\n%sbuilt in %.1f s: %zu nodes, %d kernels, %.0f MB of packed weights\n\n",
                o.subject.c_str(), network.to_text().c_str(), timer.elapsed_s(),
                network.nodes().size(), family_.build_report().kernels,
                static_cast<double>(family_.build_report().prepared_bytes) * 1e-6);
    if (!o.check) return;
    Target host = Target::host();
    host.cores = o.threads;
    const OnnxModel plain = cli::import_subject(o.subject, f32);
    reference_ = Network(plain.outputs, host).build(plain.args());
  }

  void run() {
    std::printf("%12s %12s %12s %7s%s\n", "size", "alone, ms", "range, ms", "ratio",
                o_.check ? "  difference: alone, range" : "");
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
  /// The arrays of a call on the device of the target.
  std::vector<NDArray> here(const std::vector<NDArray>& arrays) const {
    if (!target_.is_cuda()) return arrays;
    std::vector<NDArray> there;
    for (const NDArray& a : arrays) there.push_back(a.to_device(Device::cuda()));
    return there;
  }

  /// The outputs are the last arrays. `want`: all arrays of a call of the reference.
  double difference_of(const NetworkKernel& kernel, const std::vector<NDArray>& arrays,
                       const std::vector<NDArray>& want) const {
    kernel.call(arrays);
    double most = 0;
    for (size_t o = arrays.size() - model_.outputs.size(); o < arrays.size(); ++o)
      most = std::max(most, difference(arrays[o].to_host(), want[o]));
    return most;
  }

  std::string check(const NetworkKernel& one, const std::vector<NDArray>& given,
                    const std::vector<NDArray>& arrays) const {
    if (!reference_) return "";
    std::vector<NDArray> want = given;
    for (size_t o = given.size() - model_.outputs.size(); o < given.size(); ++o)
      want[o] = NDArray::zeros(given[o].shape(), f32);
    reference_.call(want);
    char text[64];
    std::snprintf(text, sizeof text, "  %.1e, %.1e", difference_of(one, arrays, want),
                  difference_of(family_, arrays, want));
    return text;
  }

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
    const std::vector<NDArray> used = here(arrays);
    const std::string differences = check(one, arrays, used);
    const std::vector<std::function<void()>> runs = {[&] { one.call(used); },
                                                     [&] { family_.call(used); }};
    const std::vector<double> s = target_.is_cuda() ? gpu_times(runs)
                                  : o_.work         ? bench::processor_times(runs)
                                                    : bench::times_on_the_clock(runs);
    const double ratio = s[0] / s[1];
    std::printf("%12s %12.3f %12.3f %7.2f%s\n", text.c_str(), s[0] * 1e3, s[1] * 1e3, ratio,
                differences.c_str());
    std::fflush(stdout);
    if (o_.profile > 0) {
      std::cout << "alone:\n" << one.profile(arrays, o_.profile);
      std::cout << "range:\n" << family_.profile(arrays, o_.profile) << std::flush;
    }
    return ratio;
  }

  const Options& o_;
  Target target_;
  OnnxModel model_;
  NetworkKernel family_, reference_;
};

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app("A model over ranges of sizes against the model at each size alone");
  app.add_option("subject", o.subject, "such as bert.onnx:batch=1,seq=1..512")->required();
  app.add_option("--sizes", o.sizes, "how many sizes are drawn")->capture_default_str();
  app.add_option("--at", o.at, "these sizes instead: 1,17,300");
  app.add_option("--seed", o.seed, "of the sizes")->capture_default_str();
  app.add_option("--target", o.target, "llvm, or cuda")->capture_default_str();
  app.add_option("--dtype", o.dtype, "precision of the model")->capture_default_str();
  app.add_flag("--check", o.check, "compare the outputs with those of this CPU in f32");
  app.add_option("--threads", o.threads, "threads")->capture_default_str();
  app.add_option("--race", o.race, "seconds in which the kernels of the range race first");
  app.add_option("--profile", o.profile, "seconds of a profile of both, node by node");
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
