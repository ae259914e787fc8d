#include "heddle/runtime/profile.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ostream>

#include "heddle/runtime/cuda.h"
#include "heddle/runtime/cuda_timing.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "heddle/support/json.h"
#include "runtime/kernel/profile_steps.h"
#include "support/table.h"

namespace heddle {
namespace {

constexpr int kMostRounds = 1000;

double median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

void run_step(const ProfiledStep& step) {
  call_checked(step.kernel, step.args.arrays, step.args.sizes);
}

/// As often as a call runs it.
void run_all(const ProfiledStep& step) {
  for (std::int64_t run = 0; run < step.args.runs; ++run) run_step(step);
}

/// Times the steps one after the other.
std::vector<double> round_on_cpu(std::span<const ProfiledStep> steps) {
  std::vector<double> seconds;
  for (const ProfiledStep& step : steps) {
    const Timer timer;
    run_all(step);
    seconds.push_back(timer.elapsed_s());
  }
  return seconds;
}

std::vector<double> round_on_gpu(std::span<const ProfiledStep> steps, int device) {
  std::vector<cuda::Event> events;
  for (std::size_t i = 0; i <= steps.size(); ++i) events.emplace_back(device);
  events[0].record();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    run_all(steps[i]);
    events[i + 1].record();
  }
  events.back().synchronize();
  std::vector<double> seconds;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    seconds.push_back(events[i + 1].seconds_since(events[i]));
  }
  return seconds;
}

/// Fills the caches, also those of each thread, with other data.
class CacheFlusher {
 public:
  CacheFlusher() {
    const long l3 = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
    const auto bytes = std::clamp<std::int64_t>(2 * l3, 16 << 20, 128 << 20);
    memory_ = NDArray::zeros({bytes}, u8);
  }
  void flush() {
    ++value_;
    parallel_for(memory_.size(), [&](std::int64_t begin, std::int64_t end) {
      std::memset(memory_.data<std::uint8_t>() + begin, value_,
                  static_cast<std::size_t>(end - begin));
    });
  }

 private:
  NDArray memory_;
  unsigned char value_ = 0;
};

/// Times each step alone, first with warm caches, then with caches that were filled with other
/// data.
void time_alone_on_cpu(std::span<const ProfiledStep> steps, double seconds, Profile* profile) {
  const double each = seconds / static_cast<double>(2 * steps.size());
  CacheFlusher flusher;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto call = [&] { run_step(steps[i]); };
    profile->rows[i].alone_s = measure(call, each).median_s;
    std::vector<double> samples;
    const Timer total;
    do {
      flusher.flush();
      const Timer timer;
      call();
      samples.push_back(timer.elapsed_s());
    } while (total.elapsed_s() < each && samples.size() < kMostRounds);
    profile->rows[i].cold_s = median(std::move(samples));
  }
}

void time_alone_on_gpu(std::span<const ProfiledStep> steps, double seconds, Profile* profile) {
  const double each = seconds / static_cast<double>(2 * steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const bool cold : {false, true}) {
      cuda::TimingOptions options;
      options.cold_l2 = cold;
      options.budget_s = each;
      const std::vector<NDArray> sets[] = {steps[i].args.arrays};
      const cuda::Timing timing = cuda::time_calls(
          steps[i].name,
          [&](std::span<const NDArray> on) {
            call_checked(steps[i].kernel, on, steps[i].args.sizes);
          },
          sets, options);
      if (!timing.ok()) throw_runtime_error("cannot time " + steps[i].name + ": " + timing.message);
      (cold ? profile->rows[i].cold_s : profile->rows[i].alone_s) = timing.measurement.median_s;
    }
  }
}

ProfileRow row_of(const ProfiledStep& step) {
  ProfileRow row;
  row.name = step.name;
  const KernelWork& work = step.kernel.work();
  row.flops = work.flops;
  row.bytes = work.bytes;
  if (!work.roof) return row;
  const Roof roof = work.roof();
  if (roof.bytes_per_second > 0) row.least_s = row.bytes / roof.bytes_per_second;
  if (roof.flops_per_second > 0) {
    row.least_s = std::max(row.least_s, row.flops / roof.flops_per_second);
  }
  return row;
}

void time_in_network(std::span<const ProfiledStep> steps, int gpu, double seconds,
                     Profile* profile) {
  std::vector<std::vector<double>> samples(steps.size());
  const Timer total;
  int rounds = 0;
  do {
    const std::vector<double> round = gpu < 0 ? round_on_cpu(steps) : round_on_gpu(steps, gpu);
    for (std::size_t i = 0; i < steps.size(); ++i) samples[i].push_back(round[i]);
  } while (++rounds < kMostRounds && (rounds < 3 || total.elapsed_s() < seconds));
  for (std::size_t i = 0; i < steps.size(); ++i)
    profile->rows[i].in_network_s = median(std::move(samples[i]));
}

/// Counts the runs of each step, and the share of each in all.
void add_runs(std::span<const ProfiledStep> steps, Profile* profile) {
  double sum = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    ProfileRow& row = profile->rows[i];
    const std::int64_t runs = steps[i].args.runs;
    if (runs > 1) row.name += ", " + std::to_string(runs) + " times";
    for (double* of_run : {&row.alone_s, &row.cold_s, &row.flops, &row.bytes, &row.least_s})
      *of_run *= static_cast<double>(runs);
    sum += row.in_network_s;
  }
  for (ProfileRow& row : profile->rows) row.share = sum > 0 ? row.in_network_s / sum : 0;
}

std::string rate(double amount, double seconds) {
  return amount > 0 && seconds > 0 ? format_fixed(amount / seconds * 1e-9, 1) : "";
}

// "79 %"; ">100 %" where the declaration's work is not what the kernel does.
std::string share_of_roof(const ProfileRow& row) {
  if (!(row.least_s > 0 && row.in_network_s > 0)) return "";
  if (row.least_s > row.in_network_s) return ">100 %";
  return format_fixed(100 * row.least_s / row.in_network_s, 0) + " %";
}

}  // namespace

Profile profile_steps(std::span<const ProfiledStep> steps, FunctionRef<void()> whole,
                      double seconds) {
  if (!(seconds > 0)) throw_user_error("a profile of " + std::to_string(seconds) + " seconds");
  Profile profile;
  profile.threads = num_threads();
  for (const ProfiledStep& step : steps) profile.rows.push_back(row_of(step));
  const bool on_gpu = !steps.empty() && steps[0].kernel.cuda_program() != nullptr;
  const int gpu =
      on_gpu && !steps[0].args.arrays.empty() ? steps[0].args.arrays[0].device().index : -1;
  const Measurement call = measure(
      [&] {
        whole();
        if (gpu >= 0) cuda::synchronize(gpu);
      },
      0.25 * seconds);
  profile.call_s = call.median_s;
  profile.calls = static_cast<int>(call.samples_s.size()) * call.calls_per_sample;
  if (steps.empty()) return profile;
  time_in_network(steps, gpu, 0.25 * seconds, &profile);
  if (gpu >= 0) {
    time_alone_on_gpu(steps, 0.5 * seconds, &profile);
  } else {
    time_alone_on_cpu(steps, 0.5 * seconds, &profile);
  }
  add_runs(steps, &profile);
  return profile;
}

std::string Profile::to_string() const {
  Table table({"node", "share", "in network", "alone", "cold", "GFLOP/s", "GB/s", "of roof"});
  ProfileRow all;
  for (const ProfileRow& row : rows) {
    table.add_row({row.name, format_fixed(100 * row.share, 1) + " %", format_time(row.in_network_s),
                   format_time(row.alone_s), format_time(row.cold_s),
                   rate(row.flops, row.in_network_s), rate(row.bytes, row.in_network_s),
                   share_of_roof(row)});
    all.in_network_s += row.in_network_s;
    all.alone_s += row.alone_s;
    all.cold_s += row.cold_s;
    all.flops += row.flops;
    all.least_s += std::min(row.least_s, row.in_network_s);
  }
  if (rows.size() > 1) {
    table.add_rule();
    table.add_row({std::to_string(rows.size()) + " nodes", "", format_time(all.in_network_s),
                   format_time(all.alone_s), format_time(all.cold_s),
                   rate(all.flops, all.in_network_s), "", share_of_roof(all)});
  }
  const bool above = std::any_of(rows.begin(), rows.end(), [](const ProfileRow& row) {
    return row.in_network_s > 0 && row.least_s > row.in_network_s;
  });
  return table.to_string() +
         (above ? ">100 %: Winograd computes less than the declaration, or its data stay in caches "
                  "nearer than those of a copy\n"
                : "") +
         "a call: " + format_time(call_s) + " (median of " + std::to_string(calls) + ", " +
         std::to_string(threads) + (threads == 1 ? " thread" : " threads") + ")\n";
}

Json Profile::to_json() const {
  Json nodes = Json::array();
  for (const ProfileRow& row : rows) {
    Json j = Json::object({{"name", row.name},
                           {"share", row.share},
                           {"in_network_s", row.in_network_s},
                           {"alone_s", row.alone_s},
                           {"cold_s", row.cold_s},
                           {"flops", row.flops},
                           {"bytes", row.bytes}});
    if (row.least_s > 0) j["least_s"] = row.least_s;
    nodes.push_back(std::move(j));
  }
  return Json::object(
      {{"call_s", call_s}, {"calls", calls}, {"threads", threads}, {"nodes", std::move(nodes)}});
}

std::ostream& operator<<(std::ostream& out, const Profile& profile) {
  return out << profile.to_string();
}

}  // namespace heddle
