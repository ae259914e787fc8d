#include "network/sizes/size_race.h"

#include <algorithm>

#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "network/cut/check_network.h"
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

}  // namespace

/// A call at these sizes with random inputs.
struct SizeRace::RandomCall {
  RandomCall(const Network& network, const NetworkKernel& kernel,
             const std::vector<SizeValue>& sizes)
      : arrays(random_arrays(kernel, values_of(network, sizes),
                             device_of(network.tasks()[0].tmpl.target()))),
        states(kernel.updated(), arrays),
        of_steps(kernel.impl().program, arrays) {}

  const std::vector<NDArray> arrays;
  const StateCopies states;
  const Program::StepCalls of_steps;
};

SizeRace::SizeRace(const Network& network, const std::vector<TaskVariants>& candidates)
    : network_(network), kernel_(network.build(call_args(network), candidates)) {
  size_t most = 0;
  for (const TaskVariants& v : candidates) {
    counts_.push_back(v.schedules.size());
    most = std::max(most, counts_.back());
  }
  const std::vector<ProgramStep>& steps = kernel_.impl().steps();
  const auto bytes_of = [&](size_t candidate) {
    double bytes = 0;
    for (const ProgramStep& s : steps) {
      if (candidate < s.variants.size())
        bytes += static_cast<double>(s.variants[candidate].kernel.persistent_bytes());
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
  const std::vector<ProgramStep>& steps = kernel_.impl().steps();
  const RandomCall random(network_, kernel_, sizes);
  const CallTimer::Args& args = random.of_steps.args();
  if (target.is_cuda()) {
    const std::unique_ptr<CallTimer> timer = make_call_timer(target, args, random.states);
    return race_totals_at_size(network_.nodes(), steps, counts_, *timer, seconds);
  }
  std::vector<racing::Field> fields;
  for (const size_t count : counts_) fields.emplace_back(count, kSizeRules);
  // The seconds of the nodes of each task: the least of a few calls where they are short.
  const auto call = [&](std::span<const size_t> used) {
    std::vector<double> least(counts_.size(), kUnknown);
    double spent = 0;
    random.states.restore();
    for (int calls = 0; calls == 0 || (calls < kRepeats && spent < kShortCall); ++calls) {
      std::vector<double> sums(counts_.size(), 0);
      const Timer timer;
      double before = 0;
      for (size_t n = 0; n < steps.size(); ++n) {
        const auto task = static_cast<size_t>(network_.nodes()[n].task);
        call_checked(steps[n].variants[used[task]].kernel, args[n].arrays, args[n].sizes);
        const double now = timer.elapsed_s();
        sums[task] += now - before;
        before = now;
      }
      spent += before;
      for (size_t t = 0; t < sums.size(); ++t) least[t] = std::min(least[t], sums[t]);
    }
    return least;
  };
  const Timer clock;
  racing::run(fields, call, {.enough = [&](int) { return clock.elapsed_s() > seconds; }});
  std::vector<std::vector<double>> times;
  for (const racing::Field& of_task : fields) times.push_back(of_task.times());
  return times;
}

std::vector<std::vector<double>> SizeRace::whole_at(const std::vector<SizeValue>& sizes,
                                                    const std::vector<std::vector<size_t>>& rivals,
                                                    double seconds) const {
  constexpr int kFewCalls = 3;
  const Target& target = network_.tasks()[0].tmpl.target();
  const std::vector<ProgramStep>& steps = kernel_.impl().steps();
  const RandomCall random(network_, kernel_, sizes);
  const CallTimer::Args& args = random.of_steps.args();
  const std::unique_ptr<CallTimer> timer = make_call_timer(target, args, random.states);
  std::vector<std::vector<StepCall>> calls(rivals.size());
  for (size_t r = 0; r < rivals.size(); ++r) {
    for (size_t n = 0; n < steps.size(); ++n) {
      const auto task = static_cast<size_t>(network_.nodes()[n].task);
      calls[r].push_back({n, &steps[n].variants[rivals[r][task]].kernel});
    }
  }
  racing::Rules rules = kSizeRules;
  rules.fewest_rounds = kFewCalls;
  rules.hopeless = kUnknown;
  rules.fewest_racing = 1;
  racing::Field field(calls.size(), rules);
  const Timer clock;
  racing::run(field, [&](size_t r) { return timer->time(calls[r]).total; },
              {.enough = [&](int) { return clock.elapsed_s() > seconds; }});
  std::vector<std::vector<double>> times;
  for (size_t r = 0; r < calls.size(); ++r) times.push_back(field.seconds(r));
  return times;
}

}  // namespace heddle::network
