// What a family of kernels adds to a call before the launch.
#include <algorithm>
#include <cstdio>

#include "family_gpu/parts.h"
#include "heddle/heddle.h"
#include "heddle/runtime/cuda.h"
#include "three_questions.h"

namespace heddle::bench {
namespace {

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

}  // namespace

void print_dispatch() {
  const Subject s = subject_of("add_relu:1..4096x64", f32);
  const Target target = Target::cuda();
  const Instance at = s.at({16});
  const Kernel plain = build(create_schedule(at.outputs, target), at.of(s.args));
  const Kernel all = build(family_schedule(s.outputs(), {{s.dims[0], 16}}, target), s.args);
  const FamilyKernel family({{"a", all}, {"b", all.clone()}}, three_questions());
  const std::vector<NDArray> arrays = on_gpu(arrays_of(at.of(s.args)));
  double base = nanoseconds_of([&] { plain.call(arrays); });
  const double one = nanoseconds_of([&] { all.call(arrays); });
  const double several = nanoseconds_of([&] { family.call(arrays); });
  base = std::min(base, nanoseconds_of([&] { plain.call(arrays); }));
  std::printf("a call: constant shape %.0f ns, all sizes %+.0f, family of three questions %+.0f\n",
              base, one - base, several - base);
}

}  // namespace heddle::bench
