// Trials per second of a fleet, and the time of a trial beyond that of a local one.
//
//   fleet_rate ADDRESS [--device NAME] [--trials N] [--batch N] [--devices N] [--beside_local]
//              [--target llvm|cuda] [--size N] [--parts N]
//
// Random legal configs of a matrix product of N x N x N, f32 on one core of a CPU, f16 on a GPU.
// With --beside_local each batch is measured by the workers of this machine as well, in turns, and
// the median over batches of the difference is shown: it is what a trial costs through the fleet,
// whatever else goes on. The local workers get each batch in --parts parts. A fleet of one device
// gets it in two, and the static choice is compiled and timed in each. See rate.py.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/measure/fleet.h"
#include "heddle/ops/linalg.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "heddle/support/rng.h"

namespace {

using namespace heddle;

struct Request {
  std::string address, device;
  std::string target = "llvm";
  int trials = 1000, batch = 64, devices = 1, size = 96, parts = 1;
  bool beside_local = false;
};

Request request_of(int argc, char** argv) {
  Request r;
  if (argc > 1) r.address = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--beside_local") {
      r.beside_local = true;
      continue;
    }
    if (i + 1 == argc) throw_user_error("'" + option + "' wants a value");
    const char* value = argv[++i];
    if (option == "--device") {
      r.device = value;
    } else if (option == "--target") {
      r.target = value;
    } else if (option == "--size") {
      r.size = std::atoi(value);
    } else if (option == "--trials") {
      r.trials = std::atoi(value);
    } else if (option == "--batch") {
      r.batch = std::atoi(value);
    } else if (option == "--parts") {
      r.parts = std::max(1, std::atoi(value));
    } else if (option == "--devices") {
      r.devices = std::atoi(value);
    } else {
      throw_user_error("there is no option '" + option + "'");
    }
  }
  return r;
}

std::vector<Schedule> draw(const TuneTask& task, int count, Rng& rng) {
  std::vector<Schedule> out;
  while (static_cast<int>(out.size()) < count) {
    Config c;
    for (const Knob& k : task.tmpl.knobs()) c.values.push_back(rng.choose(k.values));
    if (task.tmpl.why_invalid(c).empty()) out.push_back(task.tmpl.instantiate(c));
  }
  return out;
}

/// Seconds of a batch. Adds the number of failed candidates to `failed`.
double seconds_of(Measurer& measurer, const TuneTask& task, const std::vector<Schedule>& batch,
                  int* failed) {
  const Timer timer;
  measurer.measure(task, batch, std::numeric_limits<double>::infinity(), TuneClock(),
                   [&](size_t, const MeasureResult& r) { *failed += !r.ok(); });
  return timer.elapsed_s();
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}
double median(const std::vector<double>& values) { return quantile(values, 0.5); }

/// Seconds of a batch that is measured in parts, one after the other.
double seconds_of_parts(Measurer& measurer, const TuneTask& task,
                        const std::vector<Schedule>& batch, int parts, int* failed) {
  const auto size = static_cast<ptrdiff_t>((batch.size() + static_cast<size_t>(parts) - 1) /
                                           static_cast<size_t>(parts));
  double seconds = 0;
  for (auto at = batch.begin(); at != batch.end();) {
    const auto end = at + std::min(size, batch.end() - at);
    seconds += seconds_of(measurer, task, {at, end}, failed);
    at = end;
  }
  return seconds;
}

/// Waits until the requested number of devices has joined.
void wait_for(Measurer& fleet, const TuneTask& task, const Request& request, Rng& rng) {
  int failed = 0;
  for (int i = 0; i < 300 && fleet.width() < request.devices; ++i) {
    seconds_of(fleet, task, draw(task, 1, rng), &failed);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  // Each device is used once first, because the setup of a task is not part of a trial.
  seconds_of(fleet, task, draw(task, 4 * request.devices, rng), &failed);
}

/// The seconds for which all devices ran candidates.
double running_seconds(const Measurer& fleet) {
  for (const auto& [part, seconds] : fleet.time_spent()) {
    if (part == "run (all nodes)") return seconds;
  }
  return 0;
}

Target target_of(const Request& request) {
  Target target = request.target == "cuda" ? Target::cuda() : Target::host();
  if (!target.is_cuda()) target.cores = 1;
  return target;
}

TuneTask task_of(const Request& request, const Target& target) {
  const DataType dtype = target.is_cuda() ? f16 : f32;
  const auto square = [&](const char* name) {
    return placeholder({request.size, request.size}, dtype, name);
  };
  return make_task("matmul", {ops::matmul(square("A"), square("B"))}, target);
}

/// Seconds of a trial, by batch.
struct Times {
  std::vector<double> fleet, local, beyond;
};

void print(const Times& times) {
  std::printf("a trial: fleet %.2f ms", 1e3 * median(times.fleet));
  if (!times.local.empty()) {
    std::printf(", local %.2f ms, beyond it %.2f ms (half of %zu batches: %.2f to %.2f)",
                1e3 * median(times.local), 1e3 * median(times.beyond), times.beyond.size(),
                1e3 * quantile(times.beyond, 0.25), 1e3 * quantile(times.beyond, 0.75));
  }
  std::printf("\n");
}

int run(const Request& request) {
  const Target target = target_of(request);
  const TuneTask task = task_of(request, target);
  const auto fleet = make_fleet_measurer(
      {.target = target, .address = request.address, .resource = request.device});
  std::unique_ptr<Measurer> local;
  if (request.beside_local)
    local = target.is_cuda() ? make_cuda_measurer() : make_worker_measurer();
  Rng rng(1);
  wait_for(*fleet, task, request, rng);
  const double before = running_seconds(*fleet);
  Times times;
  int failed = 0, done = 0;
  double seconds = 0;
  if (local) seconds_of(*local, task, draw(task, 4, rng), &failed);  // as the fleet had its first
  std::vector<Schedule> next = draw(task, request.batch, rng);
  for (bool local_first = true; done < request.trials; local_first = !local_first) {
    // As in the tuner, the next batch is announced before this one is measured.
    const std::vector<Schedule> batch = std::exchange(next, draw(task, request.batch, rng));
    if (!local) fleet->prefetch(task, next);
    const auto local_turn = [&] {
      if (!local) return;
      const double took = seconds_of_parts(*local, task, batch, request.parts, &failed);
      times.local.push_back(took / request.batch);
    };
    if (local_first) local_turn();
    const double took = seconds_of(*fleet, task, batch, &failed);
    if (!local_first) local_turn();
    times.fleet.push_back(took / request.batch);
    if (local) times.beyond.push_back(times.fleet.back() - times.local.back());
    seconds += took;
    done += request.batch;
  }
  std::printf("%d trials (%d failed) on %d devices: %.1f trials/s\n", done, failed, fleet->width(),
              done / seconds);
  std::printf("candidates were on devices %.1f %% of the time\n",
              100 * (running_seconds(*fleet) - before) / (seconds * fleet->width()));
  for (const auto& [part, of_it] : fleet->time_spent())
    std::printf("  %s: %.2f s\n", part.c_str(), of_it);
  print(times);
  for (const std::string& problem : fleet->problems())
    std::printf("problem: %s\n", problem.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(request_of(argc, argv));
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
