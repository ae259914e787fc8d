// The final race of tuning a network.
#include <algorithm>
#include <optional>

#include "heddle/network/network.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "network/cut/network_impl.h"
#include "network/race/call_timer.h"
#include "network/race/deployed_variants.h"
#include "network/race/variant_runner.h"

namespace heddle {
namespace {

class NetworkRace : public JointRace {
 public:
  explicit NetworkRace(const Network& network) : network_(network) {}

  Verdict race(std::span<const std::vector<Schedule>> schedules, std::span<const int> statics,
               std::span<const size_t> priority, double seconds, const TuneClock& clock) override {
    const TuneClock own(seconds, &clock);
    const Target& target = network_.tasks()[0].tmpl.target();
    const ScopedThreads threads(network::race_threads(target));
    // Compiling may take half of the time, because the race needs the rest.
    const TuneClock compiling(0.5 * seconds, &own);
    const bool joins = shares_launches();
    network::VariantRunner runner(joins ? with_launches_of_their_own() : network_, schedules,
                                  priority, compiling);
    std::vector<int> counts;
    for (const std::vector<int>& list : runner.available())
      counts.push_back(static_cast<int>(list.size()));
    std::optional<network::DeployedVariants> deployed;
    if (joins) deployed.emplace(network_, schedules, runner.available());
    const auto run = [&](std::span<const int> variants) { return runner.call(variants); };
    const auto run_whole = [&](std::span<const int> variants) {
      return deployed ? network::VariantTimes{{}, deployed->call(variants).total} : run(variants);
    };
    std::string difference;
    const auto same_answers = [&](std::span<const int> variants) {
      difference = deployed ? deployed->difference(variants) : runner.difference(variants);
      return difference.empty();
    };
    Verdict found = network::race_variants(counts, run, run_whole, same_answers,
                                           {.seconds = own.left_s(),
                                            .whole_calls = target.is_cuda(),
                                            .priority = {priority.begin(), priority.end()},
                                            .statics = places_of(statics, runner.available())},
                                           own);
    if (!difference.empty())
      found.whole.problems.push_back("the tuned network computes something else: " + difference);
    Verdict verdict = by_schedule(std::move(found), schedules, runner.available());
    for (size_t t = 0; t < verdict.results.size(); ++t) {
      // The times are those of all nodes of a task; the result is the time of one node.
      for (MeasureResult& r : verdict.results[t]) {
        for (double& s : r.seconds) s /= network_.tasks()[t].weight;
      }
    }
    return verdict;
  }

 private:
  /// Whether kernels of nodes may depend on the schedules of others. Tasks then race with launches
  /// of their own, and the whole network as it is deployed.
  bool shares_launches() const {
    return network_.tasks()[0].tmpl.target().is_cuda() && network_.pass_options().horizontal;
  }
  Network with_launches_of_their_own() const {
    PassOptions passes = network_.pass_options();
    passes.horizontal = false;
    return network_.with_passes(passes);
  }

  /// The variants with these positions, or kNotThere; empty where all stand.
  static std::vector<int> places_of(std::span<const int> positions,
                                    const std::vector<std::vector<int>>& available) {
    if (std::all_of(positions.begin(), positions.end(), [](int p) { return p == 0; })) return {};
    std::vector<int> places;
    for (size_t t = 0; t < available.size(); ++t) {
      const auto at = std::find(available[t].begin(), available[t].end(), positions[t]);
      places.push_back(at == available[t].end() ? network::kNotThere
                                                : static_cast<int>(at - available[t].begin()));
    }
    return places;
  }

  /// Translates results for the variants that raced into results for the given schedules.
  static Verdict by_schedule(Verdict found, std::span<const std::vector<Schedule>> schedules,
                             const std::vector<std::vector<int>>& available) {
    Verdict verdict;
    verdict.whole = std::move(found.whole);
    for (size_t t = 0; t < schedules.size(); ++t) {
      MeasureResult none;
      none.error = MeasureError::Cancelled;
      std::vector<MeasureResult> results(schedules[t].size(), none);
      for (size_t v = 0; v < available[t].size(); ++v)
        results[static_cast<size_t>(available[t][v])] = std::move(found.results[t][v]);
      verdict.results.push_back(std::move(results));
      verdict.winners.push_back(available[t][static_cast<size_t>(found.winners[t])]);
    }
    return verdict;
  }

  const Network network_;
};

}  // namespace

std::unique_ptr<JointRace> make_network_race(const Network& network) {
  if (network.tasks().empty() || !network.sizes().empty()) return nullptr;  // it takes one size
  const Target& target = network.tasks()[0].tmpl.target();
  if (target.is_cuda() && !target.runs_here()) return nullptr;
  return std::make_unique<NetworkRace>(network);
}

}  // namespace heddle
