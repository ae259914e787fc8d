// Compares a family of kernels with a kernel for each size alone, at random sizes. It prints the
// figures of docs/measurements/dynamic-shapes.md.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "heddle/family/choose.h"
#include "heddle/family/generic.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/search/tune_family.h"
#include "heddle/support/error.h"
#include "size_race.h"
#include "subjects/family_subject.h"
#include "subjects/target_text.h"

namespace {

using namespace heddle;

struct Options {
  std::vector<std::string> subjects = {"matmul:1..2048x768x768", "softmax:1..8192x768",
                                       "softmax:64x1..8192",
                                       "conv2d:n=1..32,c=64,h=56,w=56,k=64,r=3,pad=1"};
  DataType dtype = f32;
  int threads = 2, sizes = 40, points = 0;
  uint64_t seed = 1;
  double tune = 0;       ///< seconds for a size alone; a family has four times as long
  bool work = false;     ///< processor time of one thread
  bool generic = false;  ///< generic_family and the kernel of create_schedule as well
  bool no_family = false;
  std::string at;  ///< sizes, in place of random ones
};

std::vector<std::vector<int64_t>> drawn(const std::vector<Dim>& dims, const Options& o) {
  std::vector<std::vector<int64_t>> out;
  if (!o.at.empty()) {
    for (const std::string& size : CLI::detail::split(o.at, ',')) out.push_back({std::stoll(size)});
    return out;
  }
  return bench::drawn_sizes(dims, o.sizes, o.seed);
}

/// One way to make kernels for all sizes, and how it compares with a kernel for each size alone.
struct Form {
  const char* name;
  FamilyKernel kernel;
  double logs = 0, worst = 1e300;
};

class Comparison {
 public:
  Comparison(const std::string& subject, const Options& o)
      : o_(o), family_(cli::family_subject(subject, o.dtype)), target_(Target::host()) {
    target_.cores = o.threads;
    for (const Tensor& t : family_.args) {
      if (!t.op()->is_placeholder()) outputs_.push_back(t);
    }
  }

  void run() {
    if (!o_.no_family) {
      made_ = make_family();
      forms_.push_back({"family", made_.kernel});
    }
    if (o_.generic) {
      forms_.push_back({"generic", generic_family(family_.args, target_)});
      const Kernel one = build(create_schedule(outputs_, target_), family_.args);
      forms_.push_back({"one kernel", FamilyKernel({{"", one}}, {TreeNode()})});
    }
    std::printf("%s\n", family_.subject.c_str());
    if (!o_.no_family) std::printf("%s\n", to_text(made_).c_str());
    std::printf("%12s %12s", "size", "alone, us");
    for (const Form& f : forms_) std::printf(" %10s, us   ratio", f.name);
    std::printf("\n");
    const auto sizes = drawn(family_.dims, o_);
    for (const std::vector<int64_t>& at : sizes) compare(at);
    for (const Form& f : forms_) {
      std::printf("%s, %zu sizes: geometric mean %.3f, worst %.3f\n", f.name, sizes.size(),
                  std::exp(f.logs / static_cast<double>(sizes.size())), f.worst);
    }
    std::printf("\n");
    std::fflush(stdout);
  }

 private:
  Kernel alone(const Instance& at) const {
    if (o_.tune <= 0) return build(create_schedule(at.outputs, target_), at.of(family_.args));
    TuneOptions tuning;
    tuning.budget = std::chrono::duration<double>(o_.tune);
    tuning.target = target_;
    return build(heddle::tune(at.outputs, tuning).schedule, at.of(family_.args));
  }

  FamilyResult make_family() const {
    FamilyOptions options;
    options.target = target_;
    options.points = o_.points;
    if (o_.tune <= 0) return choose_family(family_.dims, family_.args, options);
    TuneOptions tuning;
    tuning.budget = std::chrono::duration<double>(4 * o_.tune);
    tuning.target = target_;
    options.race_seconds = 0.4 * o_.tune;
    return tune_family(family_.dims, family_.args, options, tuning);
  }

  /// Times all forms at these sizes, prints the times and adds their ratios.
  void compare(const std::vector<int64_t>& sizes) {
    std::vector<SizeValue> values;
    std::string text;
    for (size_t i = 0; i < sizes.size(); ++i) {
      values.emplace_back(family_.dims[i], sizes[i]);
      text += (i ? "x" : "") + std::to_string(sizes[i]);
    }
    const Instance at = at_sizes(outputs_, values);
    const Kernel one = alone(at);
    std::vector<NDArray> arrays;
    for (const Tensor& t : at.of(family_.args)) {
      arrays.push_back(t.op()->is_placeholder()
                           ? NDArray::random(t.extents(), t.dtype(), arrays.size() + 1)
                           : NDArray::zeros(t.extents(), t.dtype()));
    }
    std::vector<std::function<void()>> runs = {[&] { one.call(arrays); }};
    for (const Form& f : forms_) runs.emplace_back([&] { f.kernel.call(arrays); });
    const std::vector<double> s =
        o_.work ? bench::processor_times(runs) : bench::times_on_the_clock(runs);
    std::printf("%12s %12.2f", text.c_str(), s[0] * 1e6);
    for (size_t i = 0; i < forms_.size(); ++i) {
      const double ratio = s[0] / s[i + 1];
      forms_[i].logs += std::log(ratio);
      forms_[i].worst = std::min(forms_[i].worst, ratio);
      std::printf(" %14.2f %7.2f", s[i + 1] * 1e6, ratio);
    }
    for (const Form& f : forms_) std::printf("  %s", f.kernel.picked(arrays).c_str());
    std::printf("\n");
    std::fflush(stdout);
  }

  const Options& o_;
  cli::FamilySubject family_;
  Target target_;
  std::vector<Tensor> outputs_;
  FamilyResult made_;
  std::vector<Form> forms_;
};

}  // namespace

int main(int argc, char** argv) {
  Options o;
  std::string dtype = "f32";
  CLI::App app("Families of kernels against a kernel for each size alone");
  app.add_option("subject", o.subjects, "subjects with a range, such as matmul:1..2048x768x768");
  app.add_option("--sizes", o.sizes, "how many sizes are drawn")->capture_default_str();
  app.add_option("--at", o.at, "these sizes instead: 1,17,300");
  app.add_option("--seed", o.seed, "of the sizes")->capture_default_str();
  app.add_option("--points", o.points, "sizes that the family is chosen at; 0: as choose_family");
  app.add_option("--tune", o.tune, "seconds to tune a size alone; the family has four times that");
  app.add_option("--threads", o.threads, "threads")->capture_default_str();
  app.add_option("--dtype", dtype, "type of the elements")->capture_default_str();
  app.add_flag("--work", o.work, "compare processor time on one thread, for a loaded machine");
  app.add_flag("--generic", o.generic, "generic_family and the kernel of create_schedule as well");
  app.add_flag("--no-family", o.no_family, "leave choose_family and its race out");
  CLI11_PARSE(app, argc, argv);
  try {
    o.dtype = cli::dtype_of(dtype);
    const ScopedThreads threads(o.work ? 1 : o.threads);
    for (const std::string& subject : o.subjects) Comparison(subject, o).run();
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
  return 0;
}
