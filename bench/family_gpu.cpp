// Families of kernels on a GPU.
//
//   family_gpu check [COUNT] [SEED]   random families at random sizes against the interpreter
//   family_gpu figures [SIZES] [SECONDS] [product|softmax]
//                                     unseen sizes of a product and a softmax, in f16: a family and
//                                     its generic kernel against the static choice for each size.
//                                     With SECONDS the sizes are tuned for so long in all, and the
//                                     family for four times the share of one size, its race
//                                     included
//   family_gpu dispatch               what a family adds to a call before the launch
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "heddle/codegen/interpreter.h"
#include "heddle/driver/choose_family.h"
#include "heddle/driver/generic_family.h"
#include "heddle/heddle.h"
#include "heddle/runtime/cuda.h"
#include "heddle/runtime/cuda_timing.h"
#include "heddle/search/tune_family.h"
#include "heddle/support/rng.h"

namespace {

using namespace heddle;

struct Subject {
  std::string name;
  std::vector<Dim> dims;
  std::vector<Tensor> args;  // inputs, then the result
};

Subject product(const Dim& m, const Expr& n, const Expr& k, DataType t) {
  const Tensor a = placeholder({m, k}, t, "a"), b = placeholder({k, n}, t, "b");
  const Axis d = reduce_axis(k, "k");
  const Tensor c = compute(
      {m, n},
      [&](Axis i, Axis j) {
        return t == f32 ? sum(a(i, d) * b(d, j), d)
                        : cast(t, sum(cast(f32, a(i, d)) * cast(f32, b(d, j)), d));
      },
      "c");
  return {"product " + to_string(t), {m}, {a, b, c}};
}

Subject softmax(const Expr& rows, const Dim& n, DataType t) {
  const Tensor x = placeholder({rows, n}, t, "x");
  const Axis j = reduce_axis(n, "j"), k = reduce_axis(n, "k");
  const Tensor most = compute({rows}, [&](Axis i) { return max(cast(f32, x(i, j)), j); }, "max");
  const Tensor power =
      compute({rows, n}, [&](Axis i, Axis c) { return exp(cast(f32, x(i, c)) - most(i)); }, "exp");
  const Tensor total = compute({rows}, [&](Axis i) { return sum(power(i, k), k); }, "total");
  const Tensor y = compute(
      {rows, n}, [&](Axis i, Axis c) { return cast(t, power(i, c) / total(i)); }, "softmax");
  return {"softmax " + to_string(t), {n}, {x, y}};
}

Subject elementwise(const Dim& n, const Expr& cols) {
  const Tensor x = placeholder({n, cols}, f32, "x"), b = placeholder({cols}, f32, "b");
  return {
      "elementwise",
      {n},
      {x, b, compute({n, cols}, [&](Axis i, Axis j) { return max(x(i, j) + b(j), 0.f); }, "y")}};
}

Subject sums(const Dim& n, const Expr& other, bool of_columns) {
  const Tensor x =
      of_columns ? placeholder({n, other}, f32, "x") : placeholder({other, n}, f32, "x");
  const Axis k = reduce_axis(n, "k");
  const Tensor y =
      compute({other}, [&](Axis i) { return of_columns ? sum(x(k, i), k) : sum(x(i, k), k); }, "y");
  return {of_columns ? "column sums" : "row sums", {n}, {x, y}};
}

std::vector<Tensor> outputs_of(const Subject& s) { return {s.args.back()}; }

std::vector<NDArray> arrays_of(const std::vector<Tensor>& args) {
  std::vector<NDArray> out;
  for (const Tensor& t : args) {
    out.push_back(t.op()->is_placeholder() ? NDArray::random(t.extents(), t.dtype(), out.size() + 1)
                                           : NDArray::zeros(t.extents(), t.dtype()));
  }
  return out;
}

std::vector<NDArray> on_gpu(const std::vector<NDArray>& arrays) {
  std::vector<NDArray> out;
  for (const NDArray& a : arrays) out.push_back(a.to_device(Device::cuda()));
  return out;
}

int64_t log_uniform(Rng& rng, int64_t lo, int64_t hi) {
  const double u = rng.uniform_real();
  const double x = std::exp(std::log(lo) + u * (std::log(hi + 1.0) - std::log(lo)));
  return std::clamp(static_cast<int64_t>(x), lo, hi);
}

// ---- check ----

Subject random_subject(Rng& rng) {
  const int64_t hi = log_uniform(rng, 2, 400);
  const Dim n = dim("n", 1, hi);
  const int64_t other = log_uniform(rng, 1, 150), depth = log_uniform(rng, 1, 150);
  switch (rng.uniform_int(0, 6)) {
    case 0: return product(n, other, depth, f32);
    case 1: return product(n, 8 * (other / 8 + 1), 8 * (depth / 8 + 1), f16);
    case 2: return product(n, other, depth, f16);
    case 3: return softmax(other, n, rng.uniform_int(0, 1) ? f32 : f16);
    case 4: return elementwise(n, other);
    case 5: return sums(n, other, true);
    default: return sums(n, other, false);
  }
}

bool right_at(const Kernel& kernel, const Subject& s, int64_t size) {
  const Instance at = at_sizes(outputs_of(s), {{s.dims[0], size}});
  const std::vector<Tensor> args = at.of(s.args);
  const std::vector<NDArray> arrays = arrays_of(args);
  std::vector<TensorValue> values;
  for (size_t i = 0; i + 1 < args.size(); ++i) values.push_back({args[i], arrays[i]});
  const NDArray want = interpret(at.outputs, values)[0];
  const std::vector<NDArray> there = on_gpu(arrays);
  kernel.call(there);
  const double tolerance = want.dtype() == f16 ? 1e-2 : 1e-3;
  const Difference d = compare(there.back().to_device(Device::cpu()), want, tolerance, tolerance);
  if (!d.ok()) std::printf("WRONG at %lld: %s\n", (long long)size, describe(d, want).c_str());
  return d.ok();
}

int check(int count, uint64_t seed) {
  Rng rng(seed);
  const Target target = Target::cuda();
  int wrong = 0, calls = 0;
  for (int i = 0; i < count; ++i) {
    const Subject s = random_subject(rng);
    const Dim& n = s.dims[0];
    const int64_t at = log_uniform(rng, 1, n.hi());
    const Kernel kernel = build(family_schedule(outputs_of(s), {{n, at}}, target), s.args);
    for (int c = 0; c < 12; ++c, ++calls) {
      const int64_t size = c == 0 ? n.hi() : log_uniform(rng, 1, n.hi());
      if (right_at(kernel, s, size)) continue;
      std::printf("  %s 1..%lld chosen at %lld\n", s.name.c_str(), (long long)n.hi(),
                  (long long)at);
      ++wrong;
    }
  }
  std::printf("%d random families, %d calls, %d wrong\n", count, calls, wrong);
  return wrong == 0 ? 0 : 1;
}

// ---- figures ----

constexpr double kBudgets = 4;  // the family is tuned for the time of so many single sizes

double seconds(const Kernel& kernel, const std::vector<std::vector<NDArray>>& sets) {
  cuda::TimingOptions options;
  options.cold_l2 = false;
  options.samples = 10;
  options.budget_s = 0.03;
  const cuda::Timing t = cuda::time_kernel(kernel, sets, options);
  if (!t.ok()) {
    std::printf("failed: %s\n", t.message.c_str());
    std::exit(1);
  }
  return t.measurement.median_s;
}

void in_threads(size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::min(14U, std::thread::hardware_concurrency()); ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < count; i = next++) work(i);
    });
  }
  for (std::thread& t : threads) t.join();
}

/// The tasks of one size each, tuned together. Empty for no seconds.
std::vector<Kernel> tuned_kernels(const Subject& s, const std::vector<int64_t>& sizes,
                                  const Target& target, double seconds) {
  if (seconds <= 0) return {};
  std::vector<TuneTask> tasks;
  for (const int64_t size : sizes) {
    const Instance at = at_sizes(outputs_of(s), {{s.dims[0], size}});
    tasks.push_back(
        make_task(s.name + " " + std::to_string(size), at.outputs, target, at.of(s.args)));
  }
  TuneOptions options;
  options.target = target;
  options.budget = std::chrono::duration<double>(seconds);
  const TuneReport report = tune_tasks(tasks, options);
  std::vector<Kernel> kernels(sizes.size());
  in_threads(sizes.size(),
             [&](size_t i) { kernels[i] = build(report.tasks[i].schedule, tasks[i].args); });
  std::printf("%d trials, %zu sizes, %.1f s in all\n", report.trials, sizes.size(),
              report.elapsed_seconds);
  return kernels;
}

/// The geometric mean and the least of some ratios.
struct Summary {
  double logs = 0, worst = 1e9;
  int count = 0;
  void add(double ratio) {
    logs += std::log(ratio);
    worst = std::min(worst, ratio);
    ++count;
  }
  void print(const char* what) const {
    if (count > 0) std::printf("  %s %.3f, worst %.2f", what, std::exp(logs / count), worst);
  }
};

struct Compared {
  std::vector<int64_t> sizes;
  std::vector<Kernel> own, tuned;
  FamilyResult family;
  Kernel one;            ///< the choice at 256
  FamilyKernel generic;  ///< several, without a race
};

const Kernel* picked_kernel(const FamilyKernel& family, const std::vector<NDArray>& arrays) {
  const std::string picked = family.picked(arrays);
  for (const FamilyKernel::Variant& v : family.variants())
    if (v.name == picked) return &v.kernel;
  return nullptr;
}

void compare_sizes(const Subject& s, const Compared& c) {
  Summary of_static, of_tuned, of_generic, of_one;
  for (size_t i = 0; i < c.sizes.size(); ++i) {
    const Instance at = at_sizes(outputs_of(s), {{s.dims[0], c.sizes[i]}});
    const std::vector<NDArray> arrays = on_gpu(arrays_of(at.of(s.args)));
    const auto sets = cuda::rotated_arguments(arrays, 128 << 20, 32);
    const std::string picked = c.family.kernel.picked(arrays);
    std::vector<const Kernel*> kernels = {&c.own[i], picked_kernel(c.family.kernel, arrays),
                                          picked_kernel(c.generic, arrays), &c.one};
    if (!c.tuned.empty()) kernels.push_back(&c.tuned[i]);
    std::vector<double> t(kernels.size(), 1e9);
    for (int round = 0; round < 3; ++round)
      for (size_t k = 0; k < kernels.size(); ++k) t[k] = std::min(t[k], seconds(*kernels[k], sets));
    of_static.add(t[0] / t[1]);
    of_generic.add(t[0] / t[2]);
    of_one.add(t[0] / t[3]);
    std::printf(
        "%6lld  static %8.2f us  family %8.2f (%4.2f, %s)  generic %8.2f (%4.2f, %s)  one %8.2f "
        "(%4.2f)",
        (long long)c.sizes[i], t[0] * 1e6, t[1] * 1e6, t[0] / t[1], picked.c_str(), t[2] * 1e6,
        t[0] / t[2], c.generic.picked(arrays).c_str(), t[3] * 1e6, t[0] / t[3]);
    if (t.size() > 4) {
      const double best = std::min(t[4], t[0]);  // the static schedule is a candidate, too
      of_tuned.add(best / t[1]);
      std::printf("  tuned %8.2f (%4.2f)", best * 1e6, best / t[1]);
    }
    std::printf("\n");
  }
  std::printf("%s:", s.name.c_str());
  of_static.print("family of static");
  of_tuned.print("family of tuned");
  of_generic.print("generic family of static");
  of_one.print("one kernel of static");
  std::printf("\n\n");
  std::fflush(stdout);
}

/// The family, tuned for so long with its race; 0: its static choices race for six seconds.
FamilyResult family_of(const Subject& s, const Target& target, double seconds) {
  FamilyOptions options;
  options.target = target;
  options.race_seconds = seconds > 0 ? 0.3 * seconds : 6;
  const Timer timer;
  TuneOptions tuning;
  tuning.target = target;
  tuning.budget = std::chrono::duration<double>(seconds);
  FamilyResult result = seconds > 0 ? tune_family(s.dims, s.args, options, tuning)
                                    : choose_family(s.dims, s.args, options);
  std::printf("%sfamily: budget %.1f s, %.1f s with its builds\n", to_text(result).c_str(), seconds,
              timer.elapsed_s());
  return result;
}

void figures_of(const Subject& s, int count, double tuning) {
  const Dim& n = s.dims[0];
  const Target target = Target::cuda();
  const std::vector<Tensor> outputs = outputs_of(s);
  Rng rng(7);
  Compared c;
  for (int i = 0; i < count; ++i) c.sizes.push_back(log_uniform(rng, n.lo(), n.hi()));
  std::sort(c.sizes.begin(), c.sizes.end());
  c.own.resize(c.sizes.size());
  const AutoSchedulerOptions plain = current_auto_scheduler_options();
  const Timer timer;
  in_threads(c.sizes.size(), [&](size_t i) {
    const Instance at = at_sizes(outputs, {{n, c.sizes[i]}});
    c.own[i] = build(create_schedule(at.outputs, target, plain), at.of(s.args));
  });
  std::printf("%s, %s 1..%lld: static choices built in %.1f s\n", s.name.c_str(), n.name().c_str(),
              (long long)n.hi(), timer.elapsed_s());
  c.one = build(family_schedule(outputs, usual_sizes(outputs), target), s.args);
  c.generic = generic_family(s.args, target);
  c.tuned = tuned_kernels(s, c.sizes, target, tuning);
  c.family = family_of(s, target, kBudgets * tuning / count);
  compare_sizes(s, c);
}

int figures(int count, double tuning, const std::string& only) {
  if (only != "softmax") figures_of(product(dim("m", 1, 2048), 768, 768, f16), count, tuning);
  if (only != "product") figures_of(softmax(4096, dim("n", 1, 8192), f16), count, tuning);
  return 0;
}

// ---- dispatch ----

double nanoseconds_of(const std::function<void()>& call) {
  constexpr int kCalls = 300;  // fewer than the launches that a queue holds
  std::vector<double> rounds;
  for (int round = 0; round < 101; ++round) {
    const Timer timer;
    for (int i = 0; i < kCalls; ++i) call();
    rounds.push_back(timer.elapsed_s() / kCalls * 1e9);
    cuda::Stream::current(0).synchronize();
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds[rounds.size() / 2];
}

int dispatch() {
  const Subject s = elementwise(dim("n", 1, 4096), 64);
  const Target target = Target::cuda();
  const std::vector<Tensor> outputs = outputs_of(s);
  const Instance at = at_sizes(outputs, {{s.dims[0], 16}});
  const Kernel plain = build(create_schedule(at.outputs, target), at.of(s.args));
  const Kernel all = build(family_schedule(outputs, {{s.dims[0], 16}}, target), s.args);
  const FamilyKernel family({{"a", all}, {"b", all.clone()}}, {{0, 1024, 1, 2, 0},
                                                               {0, 256, 3, 4, 0},
                                                               {-1, 0, 0, 0, 1},
                                                               {0, 64, 5, 6, 0},
                                                               {-1, 0, 0, 0, 1},
                                                               {-1, 0, 0, 0, 0},
                                                               {-1, 0, 0, 0, 1}});
  const std::vector<NDArray> arrays = on_gpu(arrays_of(at.of(s.args)));
  double base = nanoseconds_of([&] { plain.call(arrays); });
  const double one = nanoseconds_of([&] { all.call(arrays); });
  const double several = nanoseconds_of([&] { family.call(arrays); });
  base = std::min(base, nanoseconds_of([&] { plain.call(arrays); }));
  std::printf("a call: constant shape %.0f ns, all sizes %+.0f, family of three questions %+.0f\n",
              base, one - base, several - base);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const int count = argc > 2 ? std::atoi(argv[2]) : 0;
  if (what == "check")
    return check(count ? count : 40, argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1);
  if (what == "figures")
    return figures(count ? count : 40, argc > 3 ? std::atof(argv[3]) : 0, argc > 4 ? argv[4] : "");
  if (what == "dispatch") return dispatch();
  std::fputs("usage: family_gpu check|figures|dispatch\n", stderr);
  return 2;
}
