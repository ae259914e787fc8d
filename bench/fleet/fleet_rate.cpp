// Trials per second of a fleet, and the time of a trial beyond that of a local one.
//
//   fleet_rate ADDRESS [--device NAME] [--trials N] [--batch N] [--devices N] [--beside_local]
//
// Random legal configs of a small matrix product. With --beside_local each batch is measured by the
// workers of this machine as well, in turns, and the medians over batches are compared. See
// rate.py.
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
  int trials = 1000, batch = 64, devices = 1;
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
    } else if (option == "--trials") {
      r.trials = std::atoi(value);
    } else if (option == "--batch") {
      r.batch = std::atoi(value);
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

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
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

int run(const Request& request) {
  Target target = Target::host();
  target.cores = 1;
  const TuneTask task = make_task(
      "matmul", {ops::matmul(placeholder({96, 96}, f32, "A"), placeholder({96, 96}, f32, "B"))},
      target);
  const auto fleet = make_fleet_measurer(
      {.target = target, .address = request.address, .resource = request.device});
  const auto local = request.beside_local ? make_worker_measurer() : nullptr;
  Rng rng(1);
  wait_for(*fleet, task, request, rng);
  const double before = running_seconds(*fleet);
  std::vector<double> by_fleet, by_local;
  int failed = 0, done = 0;
  double seconds = 0;
  std::vector<Schedule> next = draw(task, request.batch, rng);
  while (done < request.trials) {
    // As in the tuner, the next batch is announced before this one is measured.
    const std::vector<Schedule> batch = std::exchange(next, draw(task, request.batch, rng));
    if (!local) fleet->prefetch(task, next);
    if (local) by_local.push_back(seconds_of(*local, task, batch, &failed) / request.batch);
    const double took = seconds_of(*fleet, task, batch, &failed);
    by_fleet.push_back(took / request.batch);
    seconds += took;
    done += request.batch;
  }
  std::printf("%d trials (%d failed) on %d devices: %.0f trials/s\n", done, failed, fleet->width(),
              done / seconds);
  std::printf("candidates were on devices %.1f %% of the time\n",
              100 * (running_seconds(*fleet) - before) / (seconds * fleet->width()));
  std::printf("a trial: fleet %.2f ms", 1e3 * median(by_fleet));
  if (local) {
    std::printf(", local %.2f ms, beyond it %.2f ms", 1e3 * median(by_local),
                1e3 * (median(by_fleet) - median(by_local)));
  }
  std::printf("\n");
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
