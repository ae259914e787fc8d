// Measures what a multi-kernel adds to a call of a plain kernel on the CPU. The same small kernel
// is called directly, through a multi-kernel of fixed shapes, and through one that looks the shapes
// up.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "heddle/driver/build_multi.h"
#include "heddle/heddle.h"

namespace {

using namespace heddle;

double nanoseconds_per_call(FunctionRef<void()> call) {
  constexpr int kCalls = 20000;
  const Timer timer;
  for (int i = 0; i < kCalls; ++i) call();
  return timer.elapsed_s() / kCalls * 1e9;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

}  // namespace

int main() {
  const Tensor a = placeholder({16}, f32, "a"), b = placeholder({16}, f32, "b");
  const Tensor c = compute({16}, [&](Axis i) { return a(i) + b(i); }, "c");
  const Schedule schedule = create_schedule({c});
  const Kernel plain = build(schedule, {a, b, c});
  MultiOptions options;
  options.pick.store = nullptr;
  const MultiKernel fixed = build_multi({schedule, naive_schedule({c})}, {a, b, c}, options);
  // Two sizes behind one callable.
  const auto variant = [&](const std::string& name, int64_t n) {
    const Tensor x = placeholder({n}), y = placeholder({n});
    const Tensor z = compute({n}, [&](Axis i) { return x(i) + y(i); });
    const Kernel k = build(create_schedule({z}), {x, y, z});
    KernelVariant v;
    v.name = name;
    v.args = k.args();
    v.compile = [k] { return k; };
    return v;
  };
  const MultiKernel by_shape({.name = "sum"}, {variant("16", 16), variant("32", 32)}, options.pick);

  const std::vector<NDArray> arrays = {NDArray::random({16}, f32, 1), NDArray::random({16}, f32, 2),
                                       NDArray::zeros({16}, f32)};
  std::vector<double> times[3];
  for (int round = 0; round < 201; ++round) {
    times[0].push_back(nanoseconds_per_call([&] { plain.call(arrays); }));
    times[1].push_back(nanoseconds_per_call([&] { fixed.call(arrays); }));
    times[2].push_back(nanoseconds_per_call([&] { by_shape.call(arrays); }));
  }
  const double base = median(times[0]);
  std::printf("plain kernel                 %7.1f ns a call\n", base);
  std::printf("multi-kernel, fixed shapes   %7.1f ns a call, %+.1f\n", median(times[1]),
              median(times[1]) - base);
  std::printf("multi-kernel, by shape       %7.1f ns a call, %+.1f\n", median(times[2]),
              median(times[2]) - base);
  return 0;
}
