// heddle run for a subject with a range of sizes: runs its kernels on random arrays at some sizes.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>

#include "commands.h"
#include "heddle/driver/choose_family.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "heddle/support/table.h"
#include "subjects/family_subject.h"
#include "subjects/target_text.h"

namespace heddle::cli {
namespace {

constexpr double kRaceSeconds = 2;

void check_options(const RunOptions& o) {
  const bool model_only = !o.inputs.empty() || !o.outputs.empty() || !o.dims.empty() ||
                          o.batch > 0 || !o.passes.empty();
  if (model_only)
    throw_user_error("a range of sizes is run on random arrays", {},
                     "--input, --output, --dims, --batch and --passes are for models");
}

/// "8x32" for two dimensions.
std::vector<int64_t> parse_sizes(const std::string& text, const std::vector<Dim>& dims) {
  std::vector<int64_t> sizes;
  const char *at = text.data(), *end = at + text.size();
  while (true) {
    int64_t size = 0;
    const auto [after, error] = std::from_chars(at, end, size);
    if (error != std::errc()) break;
    sizes.push_back(size);
    at = after;
    if (at == end || *at != 'x') break;
    ++at;
  }
  if (at != end || sizes.size() != dims.size())
    throw_user_error("--sizes cannot be '" + text + "'", {},
                     "write a whole number for each range, such as 17, or 8x32 for two ranges");
  for (size_t i = 0; i < dims.size(); ++i) (void)SizeValue(dims[i], sizes[i]);
  return sizes;
}

/// The smallest sizes, those in the middle, and the largest.
std::vector<std::vector<int64_t>> usual_runs(const std::vector<Dim>& dims) {
  std::vector<std::vector<int64_t>> runs(3);
  for (const Dim& d : dims) {
    const auto middle =
        static_cast<int64_t>(std::sqrt(static_cast<double>(d.lo()) * static_cast<double>(d.hi())));
    runs[0].push_back(d.lo());
    runs[1].push_back(std::max(middle / d.multiple() * d.multiple(), d.lo()));
    runs[2].push_back(d.hi());
  }
  return runs;
}

class FamilyRunner {
 public:
  FamilyRunner(const FamilySubject& f, const FamilyKernel& kernel, const RunOptions& options)
      : f_(f), kernel_(kernel), options_(options) {
    for (const Tensor& t : f.args) {
      if (!t.op()->is_placeholder()) outputs_.push_back(t);
    }
  }

  std::vector<std::string> row(const std::vector<int64_t>& sizes) const {
    std::vector<SizeValue> values;
    std::string text;
    for (size_t i = 0; i < sizes.size(); ++i) {
      values.emplace_back(f_.dims[i], sizes[i]);
      text += (i ? " x " : "") + std::to_string(sizes[i]);
    }
    std::vector<NDArray> arrays;
    for (const Tensor& t : at_sizes(outputs_, values).of(f_.args)) {
      arrays.push_back(t.op()->is_placeholder()
                           ? NDArray::random(t.extents(), t.dtype(), options_.seed + arrays.size())
                           : NDArray::zeros(t.extents(), t.dtype()));
    }
    const Timer first;
    kernel_.call(arrays);
    double seconds = first.elapsed_s();
    if (options_.seconds > 0)
      seconds = measure([&] { kernel_.call(arrays); }, options_.seconds).median_s;
    return {text, kernel_.picked(arrays), format_time(seconds)};
  }

 private:
  const FamilySubject& f_;
  const FamilyKernel& kernel_;
  const RunOptions& options_;
  std::vector<Tensor> outputs_;
};

}  // namespace

int run_family(const RunOptions& options) {
  check_options(options);
  const Target target = target_of(options.target, options.threads);
  if (!target.runs_here())
    throw_user_error("kernels for " + to_string(target) + " do not run on this machine");
  const FamilySubject f = family_subject(options.model, dtype_of(options.precision));
  std::vector<std::vector<int64_t>> runs;
  for (const std::string& text : options.sizes) runs.push_back(parse_sizes(text, f.dims));
  if (runs.empty()) runs = usual_runs(f.dims);
  const ScopedThreads threads(target.cores);
  FamilyOptions family;
  family.target = target;
  family.race_seconds = kRaceSeconds;
  const FamilyResult made = choose_family(f.dims, f.args, family);
  std::string names;
  for (const Dim& d : f.dims) names += (names.empty() ? "" : " x ") + d.name();
  Table table({names, "kernel", options.seconds > 0 ? "a call" : "first call"});
  table.align_left(1);
  const FamilyRunner runner(f, made.kernel, options);
  for (const std::vector<int64_t>& sizes : runs) table.add_row(runner.row(sizes));
  std::cout << f.subject << "  " << options.precision << ", for " << to_string(target) << "\n\n"
            << table.to_string() << made.variants.size() << " of " << made.candidates
            << " kernels are kept\n";
  return 0;
}

}  // namespace heddle::cli
