#include "network/sizes/size_race.h"

#include <algorithm>

#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "network/race/call_timer.h"
#include "network/race/race_rounds.h"
#include "network/run/network_kernel_impl.h"
#include "network/run/output_difference.h"
#include "network/sizes/total_size_race.h"

namespace heddle::network {
namespace {

constexpr double kShareOfMemory = 1.0 / 3;  // of the free memory, for packed weights
// Seconds. A shorter call is repeated, so that what it reads is in the caches as in a network that
// is called again and again.
constexpr double kShortCall = 0.02;
constexpr int kRepeats = 4;

using Times = std::vector<std::vector<double>>;  // by task and candidate

/// The calls at one size.
class CallsAtSize {
 public:
  CallsAtSize(const std::vector<NetworkNode>& nodes, const std::vector<Step>& steps,
              const std::vector<std::vector<NDArray>>& arrays, const std::vector<size_t>& counts)
      : nodes_(nodes), steps_(steps), arrays_(arrays), counts_(counts) {
    for (const size_t count : counts) best_.emplace_back(count, kUnknown);
    most_ = *std::max_element(counts.begin(), counts.end());
  }

  void round() {
    for (size_t c = 0; c < most_; ++c) {
      const std::vector<size_t> used = used_for(c);
      int calls = 0;
      double first = 0;
      do first += call(used, c);
      while (++calls < kRepeats && first < kShortCall);
    }
  }
  Times take() { return std::move(best_); }

 private:
  size_t task(size_t node) const { return static_cast<size_t>(nodes_[node].task); }

  size_t fastest(size_t task) const {
    return static_cast<size_t>(std::min_element(best_[task].begin(), best_[task].end()) -
                               best_[task].begin());
  }
  /// Whether candidate `c` of the task is still timed.
  bool races(size_t task, size_t c) const {
    if (c >= counts_[task]) return false;
    return best_[task][c] == kUnknown || best_[task][c] <= kHopeless * best_[task][fastest(task)];
  }
  /// For each task the candidate that runs when it is the turn of candidate `c`.
  std::vector<size_t> used_for(size_t c) const {
    std::vector<size_t> used;
    for (size_t t = 0; t < counts_.size(); ++t)
      used.push_back(counts_[t] == 0 ? 0 : races(t, c) ? c : fastest(t));
    return used;
  }

  /// The seconds of the whole call.
  double call(const std::vector<size_t>& used, size_t c) {
    std::vector<double> sums(counts_.size(), 0);
    const Timer timer;
    double before = 0;
    for (size_t n = 0; n < steps_.size(); ++n) {
      steps_[n].kernels[used[task(n)]].call(arrays_[n]);
      const double now = timer.elapsed_s();
      sums[task(n)] += now - before;
      before = now;
    }
    for (size_t t = 0; t < counts_.size(); ++t) {
      if (c < counts_[t] && used[t] == c) best_[t][c] = std::min(best_[t][c], sums[t]);
    }
    return before;
  }

  const std::vector<NetworkNode>& nodes_;
  const std::vector<Step>& steps_;
  const std::vector<std::vector<NDArray>>& arrays_;
  const std::vector<size_t>& counts_;
  size_t most_ = 0;
  Times best_;
};

}  // namespace

/// A call at these sizes with random inputs.
struct SizeRace::RandomCall {
  RandomCall(const Network& network, NetworkKernel::Impl& impl, const std::vector<SizeValue>& sizes)
      : arrays(random_arrays(at_sizes(network.outputs(), sizes).of(call_args(network)),
                             device_of(network.tasks()[0].tmpl.target()))),
        frame(impl, arrays, impl.sizes_of(arrays)) {}

  const std::vector<NDArray> arrays;
  const NetworkKernel::Impl::Call frame;
};

SizeRace::SizeRace(const Network& network, const std::vector<TaskVariants>& candidates)
    : network_(network), kernel_(network.build(call_args(network), candidates)) {
  size_t most = 0;
  for (const TaskVariants& v : candidates) {
    counts_.push_back(v.schedules.size());
    most = std::max(most, counts_.back());
  }
  const std::vector<Step>& steps = kernel_.impl().steps;
  const auto bytes_of = [&](size_t candidate) {
    double bytes = 0;
    for (const Step& s : steps) {
      if (candidate < s.kernels.size())
        bytes += static_cast<double>(s.kernels[candidate].persistent_bytes());
    }
    return bytes;
  };
  const Target& target = network_.tasks()[0].tmpl.target();
  const double room = kShareOfMemory * static_cast<double>(free_bytes(target));
  double bytes = bytes_of(0);
  size_t fit = 1;
  while (fit < most && bytes + bytes_of(fit) <= room) bytes += bytes_of(fit++);
  for (size_t& count : counts_) count = std::min(count, fit);
}

std::vector<std::vector<double>> SizeRace::at(const std::vector<SizeValue>& sizes,
                                              double seconds) const {
  const Target& target = network_.tasks()[0].tmpl.target();
  NetworkKernel::Impl& impl = kernel_.impl();
  const RandomCall random(network_, impl, sizes);
  const NetworkKernel::Impl::Call& frame = random.frame;
  if (target.is_cuda()) {
    const std::unique_ptr<CallTimer> timer = make_call_timer(target, frame.arrays());
    return race_totals_at_size(network_.nodes(), impl.steps, counts_, *timer, seconds);
  }
  CallsAtSize calls(network_.nodes(), impl.steps, frame.arrays(), counts_);
  const Timer clock;
  for (int round = 0; round < kMostRounds; ++round) {
    if (round >= kFewRounds && clock.elapsed_s() > seconds) break;
    calls.round();
  }
  return calls.take();
}

std::vector<std::vector<double>> SizeRace::whole_at(const std::vector<SizeValue>& sizes,
                                                    const std::vector<std::vector<size_t>>& rivals,
                                                    double seconds) const {
  constexpr int kFewCalls = 3;
  const Target& target = network_.tasks()[0].tmpl.target();
  NetworkKernel::Impl& impl = kernel_.impl();
  const RandomCall random(network_, impl, sizes);
  const NetworkKernel::Impl::Call& frame = random.frame;
  const std::unique_ptr<CallTimer> timer = make_call_timer(target, frame.arrays());
  std::vector<std::vector<StepCall>> calls(rivals.size());
  for (size_t r = 0; r < rivals.size(); ++r) {
    for (size_t n = 0; n < impl.steps.size(); ++n) {
      const auto task = static_cast<size_t>(network_.nodes()[n].task);
      calls[r].push_back({n, &impl.steps[n].kernels[rivals[r][task]]});
    }
  }
  std::vector<std::vector<double>> times(rivals.size());
  const Timer clock;
  for (int round = 0; round < kMostRounds; ++round) {
    if (round >= kFewCalls && clock.elapsed_s() > seconds) break;
    for (size_t i = 0; i < calls.size(); ++i) {
      const size_t r = round % 2 == 0 ? i : calls.size() - 1 - i;
      times[r].push_back(timer->time(calls[r]).total);
    }
  }
  return times;
}

}  // namespace heddle::network
