// Prints how many candidates are measured per second, and the parts of the time of one.
//
//   measure_rate [matmul:512x512x512 | conv:64x56x56x64x3] [threads] [seconds] [seed]
//
// Random legal configs in batches of 32, as a tuner without a model would send them. Workers,
// protocol and checks are the tuner's own.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "heddle/driver/build.h"
#include "heddle/measure/measure.h"
#include "heddle/ops/conv.h"
#include "heddle/ops/linalg.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "heddle/support/rng.h"

namespace {

using namespace heddle;

std::vector<int64_t> numbers(const std::string& text) {
  std::vector<int64_t> out;
  for (size_t at = 0; at < text.size();) {
    char* end = nullptr;
    out.push_back(std::strtoll(text.c_str() + at, &end, 10));
    at = static_cast<size_t>(end - text.c_str()) + 1;
  }
  return out;
}

std::vector<Tensor> declare(const std::string& subject) {
  const size_t colon = subject.find(':');
  const std::vector<int64_t> n =
      colon == std::string::npos ? std::vector<int64_t>{} : numbers(subject.substr(colon + 1));
  if (subject.starts_with("matmul:") && n.size() == 3) {
    return {ops::matmul(placeholder({n[0], n[1]}, f32, "A"), placeholder({n[1], n[2]}, f32, "B"))};
  }
  if (subject.starts_with("conv:") && n.size() == 5) {
    ops::Conv conv;
    conv.padding = {n[4] / 2};
    return {ops::conv2d(placeholder({1, n[0], n[1], n[2]}, f32, "x"),
                        constant_placeholder({n[3], n[0], n[4], n[4]}, f32, "w"), conv)};
  }
  throw_user_error("unknown subject '" + subject + "'", {},
                   "matmul:MxKxN or conv:CxHxWxKxR (NCHW, stride 1, padded)");
}

Config draw(const Template& t, Rng& rng) {
  for (;;) {
    Config c;
    for (const Knob& k : t.knobs()) c.values.push_back(rng.choose(k.values));
    if (t.why_invalid(c).empty()) return c;
  }
}

int run(const std::string& subject, int threads, double seconds, uint64_t seed) {
  Target target = Target::host();
  target.cores = threads;
  const TuneTask task = make_task(subject, declare(subject), target);
  const std::unique_ptr<Measurer> measurer = make_worker_measurer();
  const TuneClock clock(seconds);
  Rng rng(seed);
  int ok = 0, cut = 0, samples = 0;
  double best = std::numeric_limits<double>::infinity(), compile = 0, drawing = 0;
  std::map<MeasureError, int> errors;
  while (!clock.expired()) {
    const Timer timer;
    std::vector<Schedule> batch;
    if (ok == 0) batch.push_back(task.tmpl.instantiate(task.tmpl.default_config()));
    while (batch.size() < 32) batch.push_back(task.tmpl.instantiate(draw(task.tmpl, rng)));
    drawing += timer.elapsed_s();
    measurer->measure(task, batch, best, clock, [&](size_t, const MeasureResult& r) {
      compile += r.compile_seconds;
      samples += static_cast<int>(r.seconds.size());
      if (r.ok()) {
        ++ok;
        cut += r.cut_off;
        best = std::min(best, r.median());
      } else if (errors[r.error]++ < 3 && r.error != MeasureError::Cancelled) {
        std::printf("failed: %s\n", r.message.c_str());
      }
    });
  }
  const double elapsed = clock.elapsed_s();
  int failures = 0;
  for (const auto& [error, count] : errors)
    failures += error == MeasureError::Cancelled ? 0 : count;
  const int trials = ok + failures;
  std::printf(
      "%s, %d threads: %.1f trials/s (%d in %.2f s; %d cut off, %d failed), %.1f samples "
      "a trial, best %.3f ms = %.1f GFLOP/s\n",
      subject.c_str(), threads, trials / elapsed, trials, elapsed, cut, failures,
      static_cast<double>(samples) / std::max(ok, 1), best * 1e3, task.flops() / best * 1e-9);
  std::printf("  compile takes %.1f ms a candidate on one core\n", compile / std::max(ok, 1) * 1e3);
  for (const auto& [name, s] : measurer->time_spent()) {
    std::printf("  %-10s %6.2f s  %5.1f %%  %6.2f ms a trial\n", name.c_str(), s, 100 * s / elapsed,
                s / std::max(trials, 1) * 1e3);
  }
  std::printf("  %-10s %6.2f s  %5.1f %%\n", "(draw)", drawing, 100 * drawing / elapsed);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "matmul:512x512x512", argc > 2 ? std::atoi(argv[2]) : 1,
               argc > 3 ? std::atof(argv[3]) : 10,
               argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
