// Families at sizes that they have not seen, against the static choice for each size alone.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "family_gpu/parts.h"
#include "heddle/family/choose.h"
#include "heddle/family/generic.h"
#include "heddle/heddle.h"
#include "heddle/runtime/cuda.h"
#include "heddle/runtime/cuda_timing.h"
#include "heddle/search/tune_family.h"
#include "heddle/support/error.h"
#include "size_race.h"

namespace heddle::bench {
namespace {

constexpr double kBudgets = 4;  // the family is tuned for the time of so many single sizes
constexpr int kRounds = 3;      // in which the kernels are timed in turns

/// One way to make kernels for all sizes, and how it compares with a kernel for each size alone.
struct Form {
  std::string name;
  FamilyKernel kernel;
  double logs = 0, worst = 1e9;
  std::string worst_at = {};
  int count = 0;

  void add(double ratio, const std::string& size) {
    logs += std::log(ratio);
    ++count;
    if (ratio >= worst) return;
    worst = ratio;
    worst_at = size;
  }
};

/// A subject, its sizes, and the kernels that are built side by side.
struct Race {
  Subject subject;
  std::vector<std::vector<int64_t>> sizes;
  std::vector<Kernel> own, tuned;
  std::vector<std::vector<NDArray>> arrays;
  std::optional<FamilyKernel> generic, one;
  FamilyResult family;
  std::vector<std::string> errors;  ///< one text for each job
};

double seconds(const Kernel& kernel, const std::vector<std::vector<NDArray>>& sets) {
  cuda::TimingOptions options;
  options.cold_l2 = false;
  options.samples = 6;
  options.budget_s = 0.02;
  const cuda::Timing t = cuda::time_kernel(kernel, sets, options);
  if (!t.ok()) {
    std::printf("failed: %s\n", t.message.c_str());
    std::exit(1);
  }
  return t.measurement.median_s;
}

std::vector<std::vector<int64_t>> sizes_of_race(const Subject& s, const FigureOptions& o) {
  if (o.at.empty()) return drawn_sizes(s.dims, o.sizes, o.seed);
  std::vector<std::vector<int64_t>> out;
  for (const std::string& size : CLI::detail::split(o.at, ',')) out.push_back({std::stoll(size)});
  return out;
}

FamilyKernel alone(const Kernel& kernel) { return FamilyKernel({{"", kernel}}, {TreeNode()}); }

/// Builds number `job` of a race: its generic family, one kernel for all sizes, then those for each
/// size.
void build_one(Race& r, size_t job, const FigureOptions& o) {
  const Target target = o.build_for.empty() ? Target::cuda() : Target::parse(o.build_for);
  const Subject& s = r.subject;
  try {
    if (job == 0) {
      r.generic = generic_family(s.args, target);
    } else if (job == 1) {
      const std::vector<Tensor> outputs = s.outputs();
      if (o.one)
        r.one = alone(build(family_schedule(outputs, usual_sizes(outputs), target), s.args));
    } else {
      const Instance at = s.at(r.sizes[job - 2]);
      r.own[job - 2] = build(create_schedule(at.outputs, target), at.of(s.args));
      r.arrays[job - 2] = arrays_of(at.of(s.args));
    }
  } catch (const Error& e) {
    r.errors[job] = e.what();
  }
}

std::vector<Race> build_all(const FigureOptions& o) {
  std::vector<Race> races;
  std::vector<std::pair<size_t, size_t>> jobs;
  for (const DataType dtype : o.dtypes) {
    for (const std::string& text : o.subjects) {
      Race r;
      try {
        r.subject = subject_of(text, dtype);
      } catch (const Error& e) {
        std::printf("%s %s: %s\n", text.c_str(), to_string(dtype).c_str(), e.what());
        continue;
      }
      r.sizes = sizes_of_race(r.subject, o);
      r.own.resize(r.sizes.size());
      r.arrays.resize(r.sizes.size());
      r.errors.resize(r.sizes.size() + 2);
      for (size_t j = 0; j < r.errors.size(); ++j) jobs.emplace_back(races.size(), j);
      races.push_back(std::move(r));
    }
  }
  // Families have several kernels, so they begin first.
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const auto& a, const auto& b) { return (a.second == 0) > (b.second == 0); });
  const Timer timer;
  in_threads(jobs.size(), [&](size_t i) { build_one(races[jobs[i].first], jobs[i].second, o); });
  std::printf("%zu subjects built in %.1f s\n", races.size(), timer.elapsed_s());
  return races;
}

/// The tasks of one size each, tuned together.
void tune_sizes(Race& r, double seconds_in_all) {
  const Target target = Target::cuda();
  std::vector<TuneTask> tasks;
  for (const std::vector<int64_t>& size : r.sizes) {
    const Instance at = r.subject.at(size);
    tasks.push_back(make_task(r.subject.name + " " + sizes_text(size), at.outputs, target,
                              at.of(r.subject.args)));
  }
  TuneOptions options;
  options.target = target;
  options.budget = std::chrono::duration<double>(seconds_in_all);
  const TuneReport report = tune_tasks(tasks, options);
  r.tuned.resize(tasks.size());
  in_threads(tasks.size(),
             [&](size_t i) { r.tuned[i] = build(report.tasks[i].schedule, tasks[i].args); });
  std::printf("%d trials, %zu sizes, %.1f s in all\n", report.trials, tasks.size(),
              report.elapsed_seconds);
}

/// The family, tuned for so long with its race; 0: its static choices race for six seconds.
FamilyResult family_of(const Subject& s, double tuned_for) {
  FamilyOptions options;
  options.target = Target::cuda();
  options.race_seconds = tuned_for > 0 ? 0.3 * tuned_for : 6;
  const Timer timer;
  TuneOptions tuning;
  tuning.target = options.target;
  tuning.budget = std::chrono::duration<double>(tuned_for);
  FamilyResult result = tuned_for > 0 ? tune_family(s.dims, s.args, options, tuning)
                                      : choose_family(s.dims, s.args, options);
  std::printf("%sfamily: budget %.1f s, %.1f s with its builds\n", to_text(result).c_str(),
              tuned_for, timer.elapsed_s());
  return result;
}

const Kernel& picked_kernel(const FamilyKernel& family, const std::vector<NDArray>& arrays) {
  const std::string picked = family.picked(arrays);
  for (const FamilyKernel::Variant& v : family.variants())
    if (v.name == picked) return v.kernel;
  throw_internal_error("a family picked '" + picked + "', which it does not have");
}

/// Times all forms at size number `i` and prints a line.
void race_at(const Race& r, size_t i, std::vector<Form>& forms, Form& of_tuned) {
  const std::vector<NDArray> arrays = on_gpu(r.arrays[i]);
  const auto sets = cuda::rotated_arguments(arrays, 128 << 20, 32);
  std::vector<const Kernel*> kernels = {&r.own[i]};
  for (const Form& f : forms) kernels.push_back(&picked_kernel(f.kernel, arrays));
  if (!r.tuned.empty()) kernels.push_back(&r.tuned[i]);
  std::vector<double> t(kernels.size(), 1e9);
  for (int round = 0; round < kRounds; ++round)
    for (size_t k = 0; k < kernels.size(); ++k) t[k] = std::min(t[k], seconds(*kernels[k], sets));
  const std::string size = sizes_text(r.sizes[i]);
  std::printf("%9s  static %9.2f us", size.c_str(), t[0] * 1e6);
  for (size_t f = 0; f < forms.size(); ++f) {
    forms[f].add(t[0] / t[f + 1], size);
    std::printf("  %s %9.2f (%4.2f%s%s)", forms[f].name.c_str(), t[f + 1] * 1e6, t[0] / t[f + 1],
                forms[f].name == "one kernel" ? "" : ", ", forms[f].kernel.picked(arrays).c_str());
  }
  if (!r.tuned.empty() && forms[0].name == "family") {
    const double best = std::min(t.back(), t[0]);  // the static schedule is a candidate, too
    of_tuned.add(best / t[1], size);
    std::printf("  tuned %9.2f (%4.2f)", best * 1e6, best / t[1]);
  }
  std::printf("\n");
  std::fflush(stdout);
}

/// Races a subject and adds lines to the table of all.
void race(Race& r, const FigureOptions& o, std::string* table) {
  std::printf("\n%s\n", r.subject.name.c_str());
  std::vector<Form> forms;
  Form of_tuned{"family, of tuned sizes", {}};
  if (o.seconds > 0) tune_sizes(r, o.seconds);
  if (o.family) {
    r.family = family_of(r.subject, kBudgets * o.seconds / static_cast<double>(r.sizes.size()));
    forms.push_back({"family", r.family.kernel});
  }
  if (r.generic) forms.push_back({"generic", *r.generic});
  if (r.one) forms.push_back({"one kernel", *r.one});
  for (const std::string& e : r.errors) {
    if (!e.empty()) std::printf("no kernel: %s\n", e.c_str());
  }
  for (size_t i = 0; i < r.sizes.size(); ++i) {
    if (r.errors[i + 2].empty()) race_at(r, i, forms, of_tuned);
    r.arrays[i].clear();
  }
  forms.push_back(of_tuned);
  for (const Form& f : forms) {
    if (f.count == 0) continue;
    char line[200];
    std::snprintf(line, sizeof(line), "| %-40s | %-22s | %2d | %5.2f | %5.2f at %-9s | %zu |\n",
                  r.subject.name.c_str(), f.name.c_str(), f.count, std::exp(f.logs / f.count),
                  f.worst, f.worst_at.c_str(), f.kernel.variants().size());
    std::printf("%s", line);
    *table += line;
  }
}

void print_errors(const std::vector<Race>& races) {
  for (const Race& r : races) {
    for (const std::string& e : r.errors) {
      if (!e.empty()) std::printf("%s: %s\n", r.subject.name.c_str(), e.c_str());
    }
  }
}

}  // namespace

void print_figures(const FigureOptions& o) {
  std::vector<Race> races = build_all(o);
  std::string table;
  if (!o.build_for.empty()) return print_errors(races);
  for (Race& r : races) race(r, o, &table);
  std::printf(
      "\n| subject | kernels | sizes | mean | worst | kernels |\n|---|---|---|---|---|---|\n%s",
      table.c_str());
}

}  // namespace heddle::bench
