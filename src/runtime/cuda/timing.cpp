#include <algorithm>
#include <cmath>

#include "heddle/runtime/cuda.h"
#include "heddle/runtime/cuda_timing.h"
#include "heddle/support/error.h"
#include "runtime/cuda/one_call.h"
#include "runtime/cuda/state.h"

namespace heddle::cuda {
namespace {

using Sets = std::vector<std::vector<NDArray>>;

constexpr int kFewestLaunches = 4;
constexpr int kMostLaunches = 4096;
// The number of graphs in the queue at a time. The host must not wait between a graph and its
// event.
constexpr int kBatch = 10;

std::int64_t bytes_of(std::span<const NDArray> arguments) {
  std::int64_t bytes = 0;
  for (const NDArray& a : arguments) bytes += a.bytes();
  return bytes;
}

// Thrown after the deadline and caught in this file.
struct DeadlinePassed {
  std::string reason;
};

/// What is timed: `call` puts the work on one set into the current stream, `prepare` what has to be
/// done once for all of them.
struct Work {
  std::string name;
  std::function<void(const Sets&)> prepare;
  std::function<void(std::size_t set, std::span<const NDArray>)> call;
};

class TimedRun {
 public:
  TimedRun(const Work& work, const Sets& sets, const TimingOptions& options, int device)
      : work_(work), sets_(sets), options_(options), device_(device), stream_(device) {}

  void run(Timing& timing) {
    // Work that fills the arguments may still be in the caller's stream.
    const Event filled(device_);
    filled.record();
    wait(filled);
    const StreamScope scope(stream_);
    work_.prepare(sets_);
    // The first call loads the code and allocates; the second is the estimate.
    call_once();
    timing.launches = launches(call_once());
    const Graph graph = capture(
        [&] {
          const OneCall one;
          for (int i = 0; i < timing.launches; ++i) call(static_cast<std::size_t>(i));
        },
        device_);
    graph.upload(stream_);
    sample(graph, timing);
  }

 private:
  void call(std::size_t i) { work_.call(i % sets_.size(), sets_[i % sets_.size()]); }

  // After the deadline the stream is abandoned before the stack unwinds, because a destructor must
  // not wait for work that never ends.
  void wait(const Event& event) const {
    if (event.wait_for(options_.deadline_s)) return;
    const std::string reason = "kernel '" + work_.name + "' did not end within " +
                               std::to_string(options_.deadline_s) + " s";
    abandon(device_, reason);
    throw DeadlinePassed{reason};
  }

  double call_once() {
    const Event begin(device_), end(device_);
    begin.record(stream_);
    call(0);
    end.record(stream_);
    wait(end);
    return end.seconds_since(begin);
  }

  int launches(double seconds) const {
    if (options_.launches > 0) return options_.launches;
    const double wanted = std::ceil(options_.graph_s / std::max(seconds, 1e-7));
    int n = static_cast<int>(std::clamp<double>(wanted, kFewestLaunches, kMostLaunches));
    // For cold caches each set is used in turn, so the number of launches is a multiple of the
    // sets.
    const int sets = static_cast<int>(sets_.size());
    if (n * seconds < options_.budget_s / 4) n = (n + sets - 1) / sets * sets;
    return std::min(n, kMostLaunches);
  }

  // A graph ahead of the timed ones keeps the GPU busy while the host fills the queue.
  void sample(const Graph& graph, Timing& timing) {
    std::vector<Event> marks;
    for (int i = 0; i <= kBatch; ++i) marks.emplace_back(device_);
    std::vector<double>& samples = timing.measurement.samples_s;
    double spent = 0;
    for (int left = options_.samples; left > 0 && spent < options_.budget_s;) {
      const int n = std::min(left, kBatch);
      graph.launch(stream_);
      marks[0].record(stream_);
      for (int i = 1; i <= n; ++i) {
        graph.launch(stream_);
        marks[static_cast<std::size_t>(i)].record(stream_);
        // Long graphs are not queued together. Each one is waited for.
        if (!samples.empty() && samples.back() * timing.launches > options_.budget_s / kBatch) {
          wait(marks[static_cast<std::size_t>(i)]);
        }
      }
      wait(marks[static_cast<std::size_t>(n)]);
      for (std::size_t i = 1; i <= static_cast<std::size_t>(n); ++i) {
        const double seconds = marks[i].seconds_since(marks[i - 1]);
        spent += seconds;
        samples.push_back(seconds / timing.launches);
      }
      left -= n;
    }
  }

  const Work& work_;
  const Sets& sets_;
  const TimingOptions& options_;
  int device_;
  Stream stream_;
};

void summarise(Timing& timing) {
  Measurement& m = timing.measurement;
  m.calls_per_sample = timing.launches;
  std::sort(m.samples_s.begin(), m.samples_s.end());
  const std::size_t n = m.samples_s.size();
  m.min_s = m.samples_s[0];
  m.median_s =
      n % 2 == 1 ? m.samples_s[n / 2] : 0.5 * (m.samples_s[n / 2 - 1] + m.samples_s[n / 2]);
}

}  // namespace

std::vector<std::vector<NDArray>> rotated_arguments(std::span<const NDArray> arguments,
                                                    std::int64_t bytes, int most) {
  Sets sets = {{arguments.begin(), arguments.end()}};
  const std::int64_t each = std::max<std::int64_t>(bytes_of(arguments), 1);
  while (static_cast<int>(sets.size()) < most &&
         static_cast<std::int64_t>(sets.size()) * each < bytes) {
    std::vector<NDArray> copies;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      std::size_t twin = 0;
      while (arguments[twin].data() != arguments[i].data()) ++twin;
      copies.push_back(twin < i ? copies[twin] : arguments[i].copy());
    }
    sets.push_back(std::move(copies));
  }
  return sets;
}

namespace {

Timing time_work(const Work& work, std::span<const std::vector<NDArray>> given,
                 const TimingOptions& options) {
  if (given.empty() || given[0].empty() || !given[0][0].device().is_cuda()) {
    throw_user_error("timing kernel '" + work.name + "' needs arguments on a GPU");
  }
  const int device = given[0][0].device().index;
  Timing timing;
  try {
    DeviceState& d = device_state(device);
    Sets sets(given.begin(), given.end());
    timing.set_bytes = bytes_of(sets[0]);
    std::int64_t bytes = 0;
    for (const std::vector<NDArray>& set : sets) bytes += bytes_of(set);
    const std::int64_t cold_bytes = 2 * std::int64_t{d.info.l2_bytes};
    if (options.cold_l2 && bytes <= cold_bytes) {
      const double room = options.most_memory * static_cast<double>(d.info.memory_bytes) /
                          static_cast<double>(std::max<std::int64_t>(timing.set_bytes, 1));
      const int most = static_cast<int>(std::clamp<double>(room, 1, options.most_sets));
      Sets more = rotated_arguments(sets[0], cold_bytes - bytes + timing.set_bytes + 1, most);
      sets.insert(sets.end(), more.begin() + 1, more.end());
      bytes += static_cast<std::int64_t>(more.size() - 1) * timing.set_bytes;
    }
    timing.sets = static_cast<int>(sets.size());
    timing.cold = bytes > cold_bytes;
    TimedRun(work, sets, options, device).run(timing);
    summarise(timing);
  } catch (const DeadlinePassed& passed) {
    timing.status = Timing::Status::Deadline;
    timing.message = passed.reason;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::Runtime) throw;
    timing.status = Timing::Status::Failed;
    timing.message = error.message;
  }
  return timing;
}

}  // namespace

Timing time_kernel(const Kernel& kernel, std::span<const std::vector<NDArray>> given,
                   const TimingOptions& options) {
  if (kernel.cuda_program() == nullptr) {
    throw_user_error("kernel '" + kernel.name() + "' does not run on a GPU", {},
                     "heddle::measure times kernels of the CPU");
  }
  // Each set has a clone of the kernel that keeps its packed constants, because one kernel
  // remembers only a few sets.
  std::vector<Kernel> kernels;
  const auto prepare = [&](const Sets& sets) {
    for (std::size_t i = 0; i < sets.size(); ++i) {
      kernels.push_back(kernel.has_persistent() && i > 0 ? kernel.clone() : kernel);
      if (kernel.has_persistent()) kernels[i].prepare(sets[i]);
    }
  };
  const auto call = [&](std::size_t set, std::span<const NDArray> arguments) {
    kernels[set].call(arguments);
  };
  return time_work({kernel.name(), prepare, call}, given, options);
}

Timing time_calls(const std::string& name,
                  const std::function<void(std::span<const NDArray>)>& call,
                  std::span<const std::vector<NDArray>> sets, const TimingOptions& options) {
  return time_work({name, [](const Sets&) {},
                    [&](std::size_t, std::span<const NDArray> arguments) { call(arguments); }},
                   sets, options);
}

}  // namespace heddle::cuda
