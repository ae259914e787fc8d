// Lesson 5: tune a kernel.
//
// create_schedule (lesson 1) measures nothing: rules choose tiles, packing and threads from what is
// known of the machine. `tune` starts from that choice and looks for a better one, by building
// candidates and timing them on this machine for as long as we allow. What it returns is never
// slower than where it started: at the end the best are timed against the static choice, in turns,
// and a tie goes to the static choice.
//
//   build/bin/tutorial_05_tune_a_kernel [seconds]      (6; or HEDDLE_TUTORIAL_SECONDS)
#include <heddle/heddle.h>
#include <heddle/search/tune.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "common/budget.h"
#include "common/expect.h"

using namespace heddle;
using namespace heddle::tutorials;

namespace {

constexpr int M = 256, N = 320, K = 384;

// relu(A x B + bias), as in lesson 1.
struct Dense {
  Tensor A = placeholder({M, K}, f32, "A"), B = placeholder({K, N}, f32, "B");
  Tensor bias = placeholder({N}, f32, "bias");
  Tensor D;
  Dense() {
    Axis k = reduce_axis(K, "k");
    Tensor C = compute({M, N}, [&](Axis i, Axis j) { return sum(A(i, k) * B(k, j), k); }, "C");
    D = compute({M, N}, [&](Axis i, Axis j) { return max(C(i, j) + bias(j), 0.f); }, "D");
  }
};

NDArray in_c(const NDArray& a, const NDArray& b, const NDArray& bias) {
  NDArray d = NDArray::zeros({M, N}, f32);
  const float *pa = a.data<float>(), *pb = b.data<float>(), *pv = bias.data<float>();
  float* pd = d.data<float>();
  for (int i = 0; i < M; ++i) {
    for (int k = 0; k < K; ++k) {
      for (int j = 0; j < N; ++j) pd[i * N + j] += pa[i * K + k] * pb[k * N + j];
    }
    for (int j = 0; j < N; ++j) pd[i * N + j] = std::max(pd[i * N + j] + pv[j], 0.0F);
  }
  return d;
}

// A line a second: a progress callback is called from tune, in this thread, after every trial.
void print_progress(const TuneProgress& p) {
  static double last = 0;
  const TaskProgress& task = p.tasks.at(0);
  if (task.best_seconds <= 0 || p.elapsed_seconds < last + 1) return;
  last = p.elapsed_seconds;
  std::printf("  %5.1f s  %4d trials   best so far %7.1f us\n", p.elapsed_seconds, p.trials,
              task.best_seconds * 1e6);
  std::fflush(stdout);
}

size_t lines_of(const std::string& path) {
  std::ifstream in(path);
  size_t lines = 0;
  for (std::string line; std::getline(in, line);) ++lines;
  return lines;
}

int run(double seconds) {
  const Dense dense;

  // ---- What there is to choose -----------------------------------------------------------------
  //
  // The rules wrote a template: steps with knobs. Tuning chooses a value for each knob, nothing
  // else, so every candidate is a schedule that a rule might have chosen, and computes the same.
  const Template knobs = make_template(ComputeDag({dense.D}), Target::host());
  std::printf("relu(A x B + bias), %d x %d x %d: %zu knobs, %.2g configurations\n", M, N, K,
              knobs.knobs().size(), knobs.space_size());

  // ---- Tune ------------------------------------------------------------------------------------
  //
  // Each candidate is compiled and run in a worker process, so that one that crashes or hangs is
  // only a line in the log. A model learns from the times which candidates are worth measuring.
  const TemporaryFile log("tutorial-05.jsonl");
  TuneOptions options;
  options.budget = std::chrono::duration<double>(seconds);
  options.log = log.path();
  options.progress = print_progress;
  std::printf("tuning for %.0f s\n", seconds);
  const TuneResult tuned = tune({dense.D}, options);

  std::printf("\n%d trials, %d of them failures\n", tuned.trials, tuned.failures);
  std::printf("  static  %8.1f us\n  tuned   %8.1f us   %.2f times as fast\n",
              tuned.static_seconds * 1e6, tuned.best_seconds * 1e6,
              tuned.static_seconds / tuned.best_seconds);
  if (!tuned.improved) std::printf("  (the static choice was the best that was found)\n");
  if (tuned.config) {
    for (size_t k = 0; k < knobs.knobs().size(); ++k) {
      const Knob& knob = knobs.knobs()[k];
      if (tuned.config->values[k] == knob.default_value) continue;
      std::printf("    %-24s %6s, not %s (%s)\n", knob.name.c_str(),
                  knob.text_of(tuned.config->values[k]).c_str(),
                  knob.text_of(knob.default_value).c_str(), knob.reason.c_str());
    }
  }

  // ---- Use it ----------------------------------------------------------------------------------
  //
  // The result is a Schedule like any other.
  const Kernel kernel = build(tuned.schedule, {dense.A, dense.B, dense.bias, dense.D});
  const NDArray a = NDArray::random({M, K}, f32, 1), b = NDArray::random({K, N}, f32, 2);
  const NDArray bias = NDArray::random({N}, f32, 3), d = NDArray::zeros({M, N}, f32);
  kernel(a, b, bias, d);
  const Difference difference = compare(d, in_c(a, b, bias), 1e-5, 1e-4);

  // ---- Go on another day -----------------------------------------------------------------------
  //
  // Every measurement is a line of the log, written as soon as it is there: even `kill -9` loses
  // none that was done. Tuning again with the same log starts from all of them, and measures none
  // of them twice.
  const size_t before = lines_of(log.path());
  int resumed = 0;
  options.budget = std::chrono::duration<double>(seconds / 3);
  options.progress = [&](const TuneProgress& p) { resumed = p.tasks.at(0).resumed; };
  const TuneResult again = tune({dense.D}, options);
  std::printf("\nagain, for %.0f s: %d trials taken over from the log, %d new ones\n", seconds / 3,
              resumed, again.trials);
  std::printf("  static  %8.1f us\n  tuned   %8.1f us\n", again.static_seconds * 1e6,
              again.best_seconds * 1e6);
  std::printf("the log has %zu records, of which %zu are new\n", lines_of(log.path()),
              lines_of(log.path()) - before);

  HEDDLE_EXPECT(difference.ok(), describe(difference, d));
  HEDDLE_EXPECT(tuned.trials > 0, "nothing was measured");
  HEDDLE_EXPECT(tuned.best_seconds <= tuned.static_seconds, "slower than the static choice");
  HEDDLE_EXPECT(before > 0, "nothing was written to the log");
  HEDDLE_EXPECT(resumed > 0, "the log was not resumed from");
  HEDDLE_EXPECT(again.best_seconds <= again.static_seconds, "slower than the static choice");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(tuning_seconds(argc, argv, 6));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
