// Lesson 8: a kernel for a GPU.
//
// The declaration is that of lesson 1; the target is another. The meta-templates for CUDA bind
// loops to blocks and threads, stage tiles in shared memory and keep accumulators in registers;
// what comes out is CUDA C++ text, which NVRTC compiles. None of that needs a GPU: without one the
// lesson shows the schedule, the text and what it uses, and runs a small case on the emulator,
// which knows barriers and finds races. Only time needs a GPU.
//
//   build/bin/tutorial_08_a_gpu_kernel [seconds]      of tuning (10; or HEDDLE_TUTORIAL_SECONDS)
#include <heddle/codegen/cuda.h>
#include <heddle/codegen/emulator.h>
#include <heddle/driver/gpu_kernel_use.h>
#include <heddle/heddle.h>
#include <heddle/runtime/cuda.h>
#include <heddle/runtime/cuda_timing.h>
#include <heddle/search/tune.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "common/budget.h"
#include "common/expect.h"

using namespace heddle;
using namespace heddle::tutorials;

namespace {

// relu(A x B + bias), as in lesson 1.
struct Dense {
  int m, n, k;
  Tensor A = placeholder({m, k}, f32, "A"), B = placeholder({k, n}, f32, "B");
  Tensor bias = placeholder({n}, f32, "bias");
  Tensor D;
  Dense(int m_, int n_, int k_) : m(m_), n(n_), k(k_) {
    Axis r = reduce_axis(k, "k");
    Tensor C = compute({m, n}, [&](Axis i, Axis j) { return sum(A(i, r) * B(r, j), r); }, "C");
    D = compute({m, n}, [&](Axis i, Axis j) { return max(C(i, j) + bias(j), 0.f); }, "D");
  }
  std::vector<Tensor> args() const { return {A, B, bias, D}; }
  std::vector<NDArray> arrays() const {
    return {NDArray::random({m, k}, f32, 1), NDArray::random({k, n}, f32, 2),
            NDArray::random({n}, f32, 3), NDArray::zeros({m, n}, f32)};
  }
};

// What a kernel for the CPU makes of the same declaration.
NDArray on_cpu(const Dense& dense, std::vector<NDArray> arrays) {
  arrays.back() = NDArray::zeros(arrays.back().shape(), f32);
  build(create_schedule({dense.D}), dense.args()).call(arrays);
  return arrays.back();
}

std::string first_lines(const std::string& text, int count) {
  size_t end = 0;
  while (count-- > 0 && end != std::string::npos) end = text.find('\n', end + (end > 0 ? 1 : 0));
  return end == std::string::npos ? text : text.substr(0, end) + "\n  ...\n";
}

// ---- without a GPU -----------------------------------------------------------------------------

void show(const Dense& dense, const Target& target) {
  const Schedule schedule = create_schedule({dense.D}, target);
  std::printf("the schedule for %s (%s):\n\n%s\n", to_string(target).c_str(),
              schedule.provenance.c_str(), first_lines(schedule.to_text(), 30).c_str());
  const GpuProgram program = lower_gpu(schedule, dense.args());
  const std::string text = emit_cuda(program);
  const size_t kernel = text.find("__global__");
  std::printf("the text, from its kernel on:\n\n%s\n",
              first_lines(text.substr(kernel == std::string::npos ? 0 : kernel), 40).c_str());
  try {
    for (const GpuKernelUse& use : gpu_kernel_uses(program, target)) {
      std::printf(
          "%s: %ld blocks of %ld threads, %ld bytes of shared memory, %d registers, "
          "%d bytes spilled; %d blocks on an SM at a time\n",
          use.kernel.c_str(), static_cast<long>(use.blocks), static_cast<long>(use.threads),
          static_cast<long>(use.shared_bytes), use.registers, use.spilled_bytes, use.blocks_per_sm);
      HEDDLE_EXPECT(use.blocks_per_sm > 0, "the kernel does not fit an SM");
    }
  } catch (const Error& error) {
    if (error.kind != ErrorKind::Runtime) throw;
    std::printf("what it uses is not known here: %s\n", error.message.c_str());
  }
}

// A small case, whose tiles are cut at every border, thread by thread.
void run_on_emulator(const Target& target) {
  const Dense small(40, 24, 48);
  const std::vector<NDArray> arrays = small.arrays();
  emulate(lower_gpu(create_schedule({small.D}, target), small.args()), arrays);
  HEDDLE_EXPECT(allclose(arrays.back(), on_cpu(small, arrays), 1e-5, 1e-5),
                "the emulated GPU and the CPU disagree");
  std::printf("\nthe emulator ran 40 x 24 x 48: no race, and what the CPU computes\n");
}

// ---- with one ----------------------------------------------------------------------------------

double time_us(const Kernel& kernel, const std::vector<NDArray>& arrays) {
  const cuda::Timing t = cuda::time_kernel(kernel, arrays);
  HEDDLE_EXPECT(t.ok(), t.message);
  return t.measurement.median_s * 1e6;
}

void run_on_gpu(const Dense& dense, const Target& target, double seconds) {
  // Candidates are compiled on all cores while the GPU measures others, in processes of their own.
  TuneOptions options;
  options.target = target;
  options.budget = std::chrono::duration<double>(seconds);
  std::printf("\ntuning for %.0f s\n", seconds);
  const TuneResult tuned = tune({dense.D}, options);
  std::printf("  %d trials in %.1f s, %d failed\n", tuned.trials, tuned.report.elapsed_seconds,
              tuned.failures);
  for (const RejectionCount& r : tuned.rejections) {
    std::printf("  %5d refused: %s\n", r.count, r.reason.c_str());
  }

  // A schedule knows what it is for, and so does build().
  const Schedule rules = create_schedule({dense.D}, target, {.use_records = false});
  const Kernel fixed = build(rules, dense.args());
  const Kernel best = build(tuned.schedule, dense.args());
  const std::vector<NDArray> host = dense.arrays();
  std::vector<NDArray> arrays;
  for (const NDArray& a : host) arrays.push_back(a.to_device(Device::cuda()));
  const NDArray expected = on_cpu(dense, host);
  std::printf("\n%d x %d x %d, of a call, arguments not in L2\n", dense.m, dense.n, dense.k);
  for (const auto& [name, kernel] : {std::pair{"static", fixed}, std::pair{"tuned", best}}) {
    kernel.call(arrays);
    HEDDLE_EXPECT(allclose(arrays.back().to_host(), expected, 1e-4, 1e-3),
                  std::string(name) + ": the GPU and the CPU disagree");
    const double us = time_us(kernel, arrays);
    std::printf("  %-7s %8.1f us  %6.2f TFLOP/s\n", name, us,
                2e-6 * dense.m * dense.n * dense.k / us);
  }
  HEDDLE_EXPECT(tuned.best_seconds <= tuned.static_seconds, "tuning made it slower");
}

int run(double seconds) {
  const Target target = Target::cuda();
  const Dense dense(1024, 1024, 1024);
  show(dense, target);
  run_on_emulator(target);
  if (!cuda::available()) {
    std::printf("no GPU here (%s): tuning and timing need one\n",
                cuda::unavailable_reason().c_str());
    return 0;
  }
  run_on_gpu(dense, target, seconds);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(tuning_seconds(argc, argv, 10));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
