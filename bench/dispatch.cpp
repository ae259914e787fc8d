// Measures what dispatch adds to a call of a plain kernel on the CPU: the same small kernel is called
// directly, through multi-kernels of fixed shapes and by shape, for all sizes, and through a tree on
// the sizes.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "heddle/driver/build_multi.h"
#include "heddle/family/choose.h"
#include "heddle/heddle.h"

using namespace heddle;

namespace {

constexpr int kCalls = 20000, kRounds = 201;

// Over 1 to 4096: sizes up to 64 lead to kernel 0 by three questions, all others to kernel 1.
SizeTree three_questions() {
  const TreeNode small{.yes = 0}, large{.yes = 1};
  return {{0, 1, 2, 1024, 0}, {0, 3, 4, 256, 0}, large, {0, 5, 6, 64, 0}, large, small, large};
}

struct Callable {
  const char* what;
  std::function<void()> call;
  std::vector<double> ns = {};
};

// Prints the median time of a call of each, measured in turns, and what it adds to the first.
void print_times(std::vector<Callable> callables) {
  for (int round = 0; round < kRounds; ++round) {
    for (Callable& c : callables) {
      const Timer timer;
      for (int i = 0; i < kCalls; ++i) c.call();
      c.ns.push_back(timer.elapsed_s() / kCalls * 1e9);
    }
  }
  double first = 0;
  for (Callable& c : callables) {
    std::nth_element(c.ns.begin(), c.ns.begin() + kRounds / 2, c.ns.end());
    const double median = c.ns[kRounds / 2];
    if (&c == callables.data()) first = median;
    std::printf("%-28s %7.1f ns a call, %+.1f\n", c.what, median, median - first);
  }
}

// A multi-kernel that looks two sizes up.
MultiKernel by_shape(const PickOptions& pick) {
  const auto variant = [](const std::string& name, int64_t n) {
    const Tensor x = placeholder({n}), y = placeholder({n});
    const Tensor z = compute({n}, [&](Axis i) { return x(i) + y(i); });
    const Kernel k = build(create_schedule({z}), {x, y, z});
    KernelVariant v;
    v.name = name;
    v.args = k.args();
    v.compile = [k] { return k; };
    return v;
  };
  return MultiKernel({.name = "sum"}, {variant("16", 16), variant("32", 32)}, pick);
}

}  // namespace

int main() {
  const Dim n = dim("n", 1, 4096);
  const Tensor a = placeholder({n}, f32, "a"), b = placeholder({n}, f32, "b");
  const Tensor c = compute({n}, [&](Axis i) { return a(i) + b(i); }, "c");
  const Instance at = at_sizes({c}, {{n, 16}});
  const std::vector<Tensor> args = at.of(std::vector<Tensor>{a, b, c});
  const Schedule schedule = create_schedule(at.outputs);
  const Kernel plain = build(schedule, args);
  MultiOptions options;
  options.pick.store = nullptr;
  const MultiKernel fixed = build_multi({schedule, naive_schedule(at.outputs)}, args, options);
  const MultiKernel looked_up = by_shape(options.pick);
  const Kernel small = build(family_schedule({c}, {{n, 16}}), {a, b, c});
  const Kernel large = build(family_schedule({c}, {{n, 4096}}), {a, b, c});
  // The leaf of this size takes three questions.
  const FamilyKernel family({{"small", small}, {"large", large}}, three_questions());
  const std::vector<NDArray> arrays = {NDArray::random({16}, f32, 1), NDArray::random({16}, f32, 2),
                                       NDArray::zeros({16}, f32)};
  print_times({{"kernel for a constant shape", [&] { plain.call(arrays); }},
               {"multi-kernel, fixed shapes", [&] { fixed.call(arrays); }},
               {"multi-kernel, by shape", [&] { looked_up.call(arrays); }},
               {"kernel for all sizes", [&] { small.call(arrays); }},
               {"family, three questions", [&] { family.call(arrays); }}});
}
