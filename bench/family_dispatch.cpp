// What a family of kernels adds to a call of a plain kernel, on the CPU: the same small kernel is
// called for a constant shape, for all sizes, and through a tree on the sizes.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "heddle/driver/choose_family.h"
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
  const Dim n = dim("n", 1, 4096);
  const Tensor a = placeholder({n}, f32, "a"), b = placeholder({n}, f32, "b");
  const Tensor c = compute({n}, [&](Axis i) { return a(i) + b(i); }, "c");
  const Instance at = at_sizes({c}, {{n, 16}});
  const Kernel plain = build(create_schedule(at.outputs), at.of(std::vector<Tensor>{a, b, c}));
  const Kernel small = build(family_schedule({c}, {{n, 16}}), {a, b, c});
  const Kernel large = build(family_schedule({c}, {{n, 4096}}), {a, b, c});
  // The leaf of this size takes three questions.
  const FamilyKernel family({{"small", small}, {"large", large}}, {{0, 1024, 1, 2, 0},
                                                                   {0, 256, 3, 4, 0},
                                                                   {-1, 0, 0, 0, 1},
                                                                   {0, 64, 5, 6, 0},
                                                                   {-1, 0, 0, 0, 1},
                                                                   {-1, 0, 0, 0, 0},
                                                                   {-1, 0, 0, 0, 1}});
  const std::vector<NDArray> arrays = {NDArray::random({16}, f32, 1), NDArray::random({16}, f32, 2),
                                       NDArray::zeros({16}, f32)};
  std::vector<double> times[3];
  for (int round = 0; round < 201; ++round) {
    times[0].push_back(nanoseconds_per_call([&] { plain.call(arrays); }));
    times[1].push_back(nanoseconds_per_call([&] { small.call(arrays); }));
    times[2].push_back(nanoseconds_per_call([&] { family.call(arrays); }));
  }
  const double base = median(times[0]);
  std::printf("kernel for a constant shape  %7.1f ns a call\n", base);
  std::printf("kernel for all sizes         %7.1f ns a call, %+.1f\n", median(times[1]),
              median(times[1]) - base);
  std::printf("family, three questions      %7.1f ns a call, %+.1f\n", median(times[2]),
              median(times[2]) - base);
}
