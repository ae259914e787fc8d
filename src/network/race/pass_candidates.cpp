#include "network/race/pass_candidates.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "network/cut/memory/node_costs.h"
#include "network/race/timed_network.h"
#include "runtime/race/clearly_faster.h"

namespace heddle::network {
namespace {

// The share of a network's time below which estimates are equal.
constexpr double kEqualEstimates = 0.02;

class Candidates {
 public:
  Candidates(const Network& network, std::span<const double> node_seconds, const TuneClock& clock)
      : network_(network),
        node_seconds_(node_seconds),
        target_(network.tasks()[0].tmpl.target()),
        declared_(network.outputs()),
        clock_(clock) {}

  /// All candidates, those with the largest estimated gain first.
  std::vector<Candidate> list(double seconds) {
    const Timer timer;
    add_passes();
    add_choices();
    const CutNetwork now = cut(network_.pass_options());
    const std::vector<uint64_t> hashes = node_hashes(now);
    const double distance = usual_distance(estimates_of(now));
    for (Candidate& c : list_) {
      if (timer.elapsed_s() > seconds || clock_.expired()) break;
      estimate(c, cut(c.change.applied_to(network_.pass_options())), hashes, distance);
    }
    const double call = std::accumulate(node_seconds_.begin(), node_seconds_.end(), 0.0);
    // Estimates are rough: those within a step are equal, and fewer nodes are tried sooner.
    const auto steps = [&](const Candidate& c) {
      return std::round(c.trial.estimated_gain / (kEqualEstimates * call));
    };
    std::stable_sort(list_.begin(), list_.end(), [&](const Candidate& a, const Candidate& b) {
      return steps(a) != steps(b) ? steps(a) > steps(b) : a.nodes < b.nodes;
    });
    return std::move(list_);
  }

 private:
  /// How many times longer than their estimates the nodes of the network take: the median.
  double usual_distance(const std::vector<double>& estimates) const {
    std::vector<double> quotients;
    for (size_t n = 0; n < estimates.size(); ++n)
      quotients.push_back(node_seconds_[n] / estimates[n]);
    return median_of(quotients);
  }

  /// The nodes that a change replaces count as long as they take, so that those that lose most time
  /// promise most; those in their place as the network usually is for their estimates.
  void estimate(Candidate& c, const CutNetwork& changed, const std::vector<uint64_t>& hashes,
                double distance) const {
    const std::vector<uint64_t> others = node_hashes(changed);
    const std::vector<char> replaced = nodes_that_differ(hashes, others),
                            made = nodes_that_differ(others, hashes);
    const std::vector<double> estimates = estimates_of(changed);
    c.nodes = std::count(made.begin(), made.end(), 1);
    for (size_t n = 0; n < replaced.size(); ++n) {
      if (replaced[n] == 0) continue;
      c.trial.nodes.push_back(static_cast<int>(n));
      c.trial.estimated_gain += node_seconds_[n];
    }
    for (size_t n = 0; n < made.size(); ++n)
      c.trial.estimated_gain -= made[n] != 0 ? distance * estimates[n] : 0;
  }

  void add_passes() {
    const PassOptions& given = network_.pass_options();
    for (const PassDescription& p : network_passes()) {
      if (p.sure) continue;
      const bool is_on = given.*p.enabled;
      const Change change{&p, p.name, !is_on};
      const std::vector<PassApplication> changes =
          is_on ? network_.passes() : cut(change.applied_to(given)).changes;
      const auto places = std::count_if(changes.begin(), changes.end(),
                                        [&](const auto& a) { return a.pass == p.name; });
      if (places > 0) add(change, p.summary, static_cast<int>(places));
    }
  }

  void add_choices() {
    const std::vector<NetworkChoice>& all = network_.choices();
    for (const NetworkChoice& c : all) {
      if (!c.exact) continue;
      const std::optional<ChoiceKind> kind = kind_of(c.name);
      const auto of_kind = std::count_if(all.begin(), all.end(), [&](const NetworkChoice& other) {
        return kind_of(other.name) == kind;
      });
      // The only choice of a pass is that of the pass as a whole.
      if (is_of_pass(*kind) && of_kind == 1) continue;
      add({nullptr, c.name, !c.on}, c.text, c.places);
      add_all_like(c);
    }
  }

  /// Adds the choices of one operator that have the setting of `first` as one candidate, where
  /// `first` is the first of several.
  void add_all_like(const NetworkChoice& first) {
    const std::string name = all_like(first.name);
    if (is_of_pass(*kind_of(name))) return;  // the pass as a whole
    int places = 0, choices = 0;
    for (const NetworkChoice& c : network_.choices()) {
      if (all_like(c.name) != name || c.on != first.on) continue;
      if (choices == 0 && c.name != first.name) return;
      ++choices;
      places += c.places;
    }
    if (choices > 1) add({nullptr, name, !first.on}, first.text, places);
  }

  void add(const Change& change, const std::string& text, int places) {
    ChoiceTrial trial;
    trial.change = (change.on ? "" : "-") + change.name;
    trial.text = text;
    trial.places = places;
    list_.push_back({change, std::move(trial)});
  }

  CutNetwork cut(const PassOptions& options) const {
    return cut_network(declared_, target_, options, network_.updates());
  }

  /// The seconds of each node.
  std::vector<double> estimates_of(const CutNetwork& network) const {
    return seconds_of_nodes(network, target_);
  }

  const Network& network_;
  const std::span<const double> node_seconds_;
  const Target target_;
  const ComputeDag declared_;
  const TuneClock& clock_;
  std::vector<Candidate> list_;
};

}  // namespace

PassOptions Change::applied_to(PassOptions options) const {
  if (pass == nullptr) {
    options.choices[name] = on;
    return options;
  }
  options.*pass->enabled = on;
  // Choices in parts of a pass are about its former setting.
  std::erase_if(options.choices,
                [&](const auto& choice) { return kind_of(choice.first) == kind_of(name); });
  return options;
}

std::vector<Candidate> pass_candidates(const Network& network, std::span<const double> node_seconds,
                                       double seconds, const TuneClock& clock) {
  return Candidates(network, node_seconds, clock).list(seconds);
}

}  // namespace heddle::network
