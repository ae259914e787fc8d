// Races the passes whose gain is only estimated, on the whole network.
#include <algorithm>
#include <map>

#include "heddle/network/network.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "network/output_difference.h"
#include "network/variant_race.h"

namespace heddle {
namespace {

using Combination =
    std::vector<int>;  ///< for each knob: 0 keeps the network's setting, 1 inverts it

/// The passes that are not certain to gain and that change the network.
std::vector<const PassDescription*> knobs_of(const Network& network) {
  std::vector<const PassDescription*> knobs;
  for (const PassDescription& p : network_passes()) {
    if (p.sure) continue;
    PassOptions on = network.pass_options();
    on.*p.enabled = true;
    const Network changed = network.with_passes(on);
    const bool applies = std::any_of(changed.passes().begin(), changed.passes().end(),
                                     [&](const PassApplication& a) { return a.pass == p.name; });
    if (applies) knobs.push_back(&p);
  }
  return knobs;
}

class Contest {
 public:
  Contest(const Network& network, std::vector<const PassDescription*> knobs)
      : network_(network),
        knobs_(std::move(knobs)),
        args_(network::call_args(network)),
        arrays_(network::random_arrays(args_)) {}

  PassOptions options_of(std::span<const int> combination) const {
    PassOptions options = network_.pass_options();
    for (size_t k = 0; k < knobs_.size(); ++k) {
      if (combination[k] != 0) options.*knobs_[k]->enabled = !(options.*knobs_[k]->enabled);
    }
    return options;
  }

  network::VariantTimes call(std::span<const int> combination) {
    const NetworkKernel& kernel = kernel_of(combination);
    const Timer timer;
    kernel.call(arrays_);
    const double seconds = timer.elapsed_s();
    return {std::vector<double>(knobs_.size(), seconds), seconds};
  }

  std::string difference(std::span<const int> combination) {
    call(Combination(knobs_.size(), 0));
    std::vector<NDArray> want, got;
    for (const NDArray& a : outputs()) want.push_back(a.copy());
    call(combination);
    for (const NDArray& a : outputs()) got.push_back(a);
    return network::output_difference(got, want);
  }

 private:
  std::span<const NDArray> outputs() const {
    return std::span(arrays_).last(network_.outputs().size());
  }

  /// The kernel is built and called once when it is first used, so that its weights are prepared.
  const NetworkKernel& kernel_of(std::span<const int> combination) {
    const Combination key(combination.begin(), combination.end());
    const auto [it, is_new] = kernels_.try_emplace(key);
    if (is_new) {
      const Network network = network_.with_passes(options_of(combination));
      it->second = network.build(args_, network.static_schedules());
      it->second.call(arrays_);
    }
    return it->second;
  }

  const Network network_;
  const std::vector<const PassDescription*> knobs_;
  const std::vector<Tensor> args_;
  const std::vector<NDArray> arrays_;
  std::map<Combination, NetworkKernel> kernels_;
};

}  // namespace

PassChoice choose_passes(const Network& network, double seconds, const TuneClock& clock) {
  PassChoice choice{network.pass_options(), {}};
  choice.times.verdict = "nothing to race";
  if (!network.sizes().empty()) return choice;  // the race needs one size
  if (network.tasks().empty() || network.tasks()[0].tmpl.target().is_cuda()) return choice;
  std::vector<const PassDescription*> knobs = knobs_of(network);
  if (knobs.empty()) return choice;
  const ScopedThreads threads(std::max(1, network.tasks()[0].tmpl.target().cores));
  const TuneClock own(seconds, &clock);
  const std::vector<int> counts(knobs.size(), 2);
  Contest contest(network, std::move(knobs));
  std::string difference;
  const JointRace::Verdict found = network::race_variants(
      counts, [&](std::span<const int> c) { return contest.call(c); },
      [&](std::span<const int> c) {
        difference = contest.difference(c);
        return difference.empty();
      },
      {.seconds = seconds}, own);
  choice.times = found.whole;
  if (!difference.empty())
    choice.times.problems.push_back("other passes compute something else: " + difference);
  choice.options = contest.options_of(found.winners);
  return choice;
}

}  // namespace heddle
