// What a call of a ready kernel costs the host beyond the driver's launch, for an empty kernel with
// four arguments:
//
//   cuda_dispatch [calls]            on the GPU here; NVRTC is not needed (the kernel is PTX)
//
// Prints nanoseconds a call of cuLaunchKernel through Function::launch, of Kernel::call with an
// array of handles, of kernel(a, b, c, d), and of a CUDA graph with the same calls, each as the
// median of rounds whose work is waited for between them. Exit status 1 when there is no GPU.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "heddle/runtime/cuda.h"
#include "heddle/runtime/cuda_timing.h"
#include "heddle/runtime/kernel.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "runtime/cuda/cuda_program.h"

namespace {

using namespace heddle;

constexpr const char* kEmpty = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry empty(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) { ret; }
)";

// The driver's queue holds 1,024 launches. A call waits for the GPU when it is full, so rounds are
// shorter.
constexpr int kRound = 500;

template <typename F>
double nanoseconds(int rounds, F&& f) {
  std::vector<double> times;
  for (int r = 0; r < rounds; ++r) {
    cuda::synchronize();
    const Timer timer;
    for (int i = 0; i < kRound; ++i) f();
    times.push_back(timer.elapsed_s() / kRound * 1e9);
  }
  cuda::synchronize();
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

int run(int rounds) {
  auto program = std::make_shared<cuda::Program>();
  program->cubin = kEmpty;
  program->launches = {{"empty", {132, 1, 1}, {128, 1, 1}, 0, 1, {0, 1, 2, 3}}};
  KernelCode code;
  code.name = "empty";
  std::vector<NDArray> arrays;
  for (const char* name : {"a", "b", "c", "d"}) {
    code.args.push_back({name, f32, {256, 256}, name[0] == 'd'});
    arrays.push_back(NDArray::zeros({256, 256}, f32, Device::cuda()));
  }
  code.cuda = program;
  const Kernel kernel(std::move(code));

  const cuda::Module module = cuda::Module::load(kEmpty);
  const cuda::Function function = module.function("empty");
  const cuda::Stream stream = cuda::Stream::current();
  std::vector<void*> addresses;
  std::vector<void*> params;
  for (const NDArray& a : arrays) addresses.push_back(a.data());
  for (void*& address : addresses) params.push_back(&address);

  kernel.call(arrays);
  const double raw =
      nanoseconds(rounds, [&] { function.launch(stream, {132, 1, 1}, {128, 1, 1}, params); });
  const double call = nanoseconds(rounds, [&] { kernel.call(arrays); });
  const double direct =
      nanoseconds(rounds, [&] { kernel(arrays[0], arrays[1], arrays[2], arrays[3]); });
  const cuda::Graph graph = cuda::capture([&] {
    for (int i = 0; i < 10; ++i) kernel.call(arrays);
  });
  const double replay = nanoseconds(rounds / 4 + 1, [&] { graph.launch(); });
  std::printf("launch            %8.0f ns\n", raw);
  std::printf("kernel.call(list) %8.0f ns  (%+.0f)\n", call, call - raw);
  std::printf("kernel(a,b,c,d)   %8.0f ns  (%+.0f)\n", direct, direct - raw);
  std::printf("graph of 10 calls %8.0f ns\n", replay);
  const cuda::Timing t = cuda::time_kernel(kernel, arrays);
  std::printf("time_kernel       %8.0f ns on the GPU, %d sets, %d launches a graph, %s%s\n",
              t.measurement.median_s * 1e9, t.sets, t.launches, t.cold ? "cold" : "warm",
              t.ok() ? "" : (": " + t.message).c_str());
  return t.ok() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (!cuda::available()) {
    std::fprintf(stderr, "no GPU: %s\n", cuda::unavailable_reason().c_str());
    return 1;
  }
  try {
    return run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 20);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
