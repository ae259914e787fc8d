// heddle run for a subject with a range of sizes: runs its kernels on random arrays at some sizes.
#include <iostream>

#include "common/run_sizes.h"
#include "heddle/family/choose.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "run_family.h"
#include "subjects/family_subject.h"
#include "subjects/target_text.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

constexpr double kRaceSeconds = 2;

void check_options(const Request& o) {
  const bool model_only =
      !o.inputs.empty() || !o.outputs.empty() || o.batch > 0 || !o.passes.empty();
  if (model_only)
    throw_user_error("a range of sizes is run on random arrays", {},
                     "--input, --output, --batch and --passes are for models");
}

class FamilyRunner {
 public:
  FamilyRunner(const FamilySubject& f, const FamilyKernel& kernel, const Request& options)
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
  const Request& options_;
  std::vector<Tensor> outputs_;
};

}  // namespace

int run_family(const Request& options) {
  check_options(options);
  const Target target = target_of(options.target, options.threads);
  if (!target.runs_here())
    throw_user_error("kernels for " + to_string(target) + " do not run on this machine");
  const FamilySubject f = family_subject(options.subject, dtype_of(options.dtype));
  const std::vector<std::vector<int64_t>> runs = run_sizes(options.sizes, f.dims);
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
  std::cout << f.subject << "  " << options.dtype << ", for " << to_string(target) << "\n\n"
            << table.to_string() << made.variants.size() << " of " << made.candidates
            << " kernels are kept\n";
  return 0;
}

}  // namespace heddle::cli
