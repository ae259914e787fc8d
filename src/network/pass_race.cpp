// Tries the choices about a network whose gain is only estimated, on the whole network.
#include <algorithm>
#include <cmath>
#include <memory>

#include "heddle/network/network.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "heddle/support/rng.h"
#include "network/cut_network.h"
#include "network/output_difference.h"
#include "network/timed_network.h"
#include "runtime/clearly_faster.h"

namespace heddle {
namespace {

// Rounds of a trial, and how often one may be won by luck: the race at the end decides.
constexpr int kFewestRounds = 6, kMostRounds = 24;
constexpr double kTrialLuck = 0.25;
// A trial that is slower by this much after the fewest rounds ends.
constexpr double kSlower = 1.03;
// The nodes that differ may be faster and others slower for it, because the caches hold other data.
constexpr double kNoSlowerAsAWhole = 1.005;
// Shares of the time: for the estimates at most, and for the race at the end.
constexpr double kShareOfEstimates = 0.15, kShareOfFinal = 0.25;
// The share of a network's time below which estimates are equal.
constexpr double kEqualEstimates = 0.02;
// The expected time of the first trial, as a share of the time to build the network.
constexpr double kPartOfNetwork = 0.3;
// The rounds of the last race after which it is evaluated.
constexpr int kLooks[] = {12, 24, 48};

/// One change of the options.
struct Change {
  const PassDescription* pass = nullptr;  ///< null: the choice of this name
  std::string name;
  bool on = false;  ///< the setting to try

  PassOptions applied_to(PassOptions options) const {
    if (pass == nullptr) {
      options.choices[name] = on;
      return options;
    }
    options.*pass->enabled = on;
    // Choices in parts of a pass are about its former setting.
    std::erase_if(options.choices,
                  [&](const auto& choice) { return kind_of(choice.first) == name; });
    return options;
  }

  static std::string kind_of(const std::string& choice) {
    return choice.substr(0, choice.find('@'));
  }
};

struct Candidate {
  Change change;
  ChoiceTrial trial;
  int64_t nodes = 0;  ///< that it changes, and that are compiled to try it
};

class Candidates {
 public:
  Candidates(const Network& network, const TuneClock& clock)
      : network_(network),
        target_(network.tasks()[0].tmpl.target()),
        declared_(network.outputs()),
        clock_(clock) {}

  /// All candidates, those with the largest estimated gain first.
  std::vector<Candidate> list(double seconds) {
    const Timer timer;
    add_passes();
    add_choices();
    const network::CutNetwork now = cut(network_.pass_options());
    const double estimate = network::estimated_seconds(now, target_);
    const std::vector<uint64_t> nodes = network::node_hashes(now);
    for (Candidate& c : list_) {
      if (timer.elapsed_s() > seconds || clock_.expired()) break;
      const network::CutNetwork changed = cut(c.change.applied_to(network_.pass_options()));
      c.trial.estimated_gain = estimate - network::estimated_seconds(changed, target_);
      const std::vector<char> differ =
          network::nodes_that_differ(network::node_hashes(changed), nodes);
      c.nodes = std::count(differ.begin(), differ.end(), 1);
    }
    // Estimates are rough: those within a step are equal, and fewer nodes are tried sooner.
    const auto steps = [&](const Candidate& c) {
      return std::round(c.trial.estimated_gain / (kEqualEstimates * estimate));
    };
    std::stable_sort(list_.begin(), list_.end(), [&](const Candidate& a, const Candidate& b) {
      return steps(a) != steps(b) ? steps(a) > steps(b) : a.nodes < b.nodes;
    });
    return std::move(list_);
  }

 private:
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
      const std::string kind = Change::kind_of(c.name);
      const auto of_kind = std::count_if(all.begin(), all.end(), [&](const NetworkChoice& other) {
        return Change::kind_of(other.name) == kind;
      });
      // The only choice of a pass is that of the pass as a whole.
      if (is_pass(kind) && of_kind == 1) continue;
      add({nullptr, c.name, !c.on}, c.text, c.places);
      add_all_like(c);
    }
  }

  /// Adds the choices of one operator that have the setting of `first` as one candidate, where
  /// `first` is the first of several.
  void add_all_like(const NetworkChoice& first) {
    const std::string name = network::all_like(first.name);
    if (is_pass(Change::kind_of(name))) return;  // the pass as a whole
    int places = 0, choices = 0;
    for (const NetworkChoice& c : network_.choices()) {
      if (network::all_like(c.name) != name || c.on != first.on) continue;
      if (choices == 0 && c.name != first.name) return;
      ++choices;
      places += c.places;
    }
    if (choices > 1) add({nullptr, name, !first.on}, first.text, places);
  }

  static bool is_pass(const std::string& kind) {
    return std::any_of(network_passes().begin(), network_passes().end(),
                       [&](const PassDescription& p) { return p.name == kind; });
  }

  void add(const Change& change, const std::string& text, int places) {
    ChoiceTrial trial;
    trial.change = (change.on ? "" : "-") + change.name;
    trial.text = text;
    trial.places = places;
    list_.push_back({change, std::move(trial)});
  }

  network::CutNetwork cut(const PassOptions& options) const {
    return network::cut_network(declared_, target_, options);
  }

  const Network& network_;
  const Target target_;
  const ComputeDag declared_;
  const TuneClock& clock_;
  std::vector<Candidate> list_;
};

class Contest {
 public:
  Contest(const Network& network, const TuneClock& clock)
      : args_(network::call_args(network)),
        arrays_(network::random_arrays(args_)),
        clock_(clock),
        given_(made(network)),
        best_(given_) {}

  /// Tries the candidates one after the other until `reserve` seconds are left.
  void run(std::vector<Candidate>& candidates, double reserve) {
    // The given network has been built. A trial compiles a part of another one.
    double longest = kPartOfNetwork * timer_.elapsed_s();
    for (Candidate& c : candidates) {
      if (clock_.expired() || clock_.left_s() < reserve + longest) break;
      const double begin = timer_.elapsed_s();
      try_one(c);
      longest = std::max(longest, timer_.elapsed_s() - begin);
    }
  }

  const Network& best() const { return best_->network(); }
  const std::vector<std::string>& problems() const { return problems_; }

  /// Races all that was taken together against the given network.
  NetworkTimes decide() {
    NetworkTimes times;
    times.verdict = "not proven";
    times.changed = taken_;
    if (best_ == given_) return times;
    std::vector<double> before, after;
    while (!clock_.expired() && static_cast<int>(before.size()) < kLooks[2]) {
      const auto [b, a] = round(*given_, *best_);
      before.push_back(b.total);
      after.push_back(a.total);
      const bool look = std::find(std::begin(kLooks), std::end(kLooks),
                                  static_cast<int>(before.size())) != std::end(kLooks);
      if (look && clearly_faster(after, before)) break;
    }
    times.rounds = static_cast<int>(before.size());
    if (times.rounds == 0) return times;
    times.static_seconds = median_of(before);
    times.best_seconds = median_of(after);
    if (clearly_faster(after, before)) times.verdict = "faster";
    return times;
  }

 private:
  using Times = network::TimedNetwork::Times;

  std::shared_ptr<network::TimedNetwork> made(const Network& network) const {
    return std::make_shared<network::TimedNetwork>(network, args_, arrays_);
  }

  /// Calls both once, in an order that is drawn.
  std::pair<Times, Times> round(network::TimedNetwork& a, network::TimedNetwork& b) {
    if (rng_.chance(0.5)) {
      Times of_a = a.call();
      return {std::move(of_a), b.call()};
    }
    Times of_b = b.call();
    return {a.call(), std::move(of_b)};
  }

  void try_one(Candidate& c) {
    ChoiceTrial& trial = c.trial;
    try {
      const Network changed = best().with_passes(c.change.applied_to(best().pass_options()));
      const std::vector<uint64_t> hashes = network::node_hashes(changed);
      if (hashes == best_->hashes()) {
        trial.verdict = "changes nothing";
        return;
      }
      const std::shared_ptr<network::TimedNetwork> other = made(changed);
      const std::string difference = network::output_difference(other->outputs(), best_->outputs());
      if (!difference.empty()) {
        trial.verdict = "answers differ";
        problems_.push_back("with " + trial.change +
                            ", the network computes something else: " + difference);
        return;
      }
      race(trial, *other);
      if (trial.verdict != "taken") return;
      best_ = other;
      ++taken_;
    } catch (const Error& e) {
      // A choice that was taken before may have changed the graph.
      trial.verdict = e.kind == ErrorKind::User ? "no longer possible" : "cannot be built";
      if (e.kind != ErrorKind::User) problems_.push_back(trial.change + ": " + e.what());
    }
  }

  static double sum_of(const std::vector<double>& nodes, const std::vector<char>& which) {
    double sum = 0;
    for (size_t n = 0; n < nodes.size(); ++n) sum += which[n] != 0 ? nodes[n] : 0;
    return sum;
  }

  void race(ChoiceTrial& trial, network::TimedNetwork& other) {
    const std::vector<char> in_best = network::nodes_that_differ(best_->hashes(), other.hashes()),
                            in_other = network::nodes_that_differ(other.hashes(), best_->hashes());
    std::vector<double> before, after, whole_before, whole_after;
    trial.verdict = "not proven";
    for (int n = 1; n <= kMostRounds && !clock_.expired(); ++n) {
      const auto [b, a] = round(*best_, other);
      before.push_back(sum_of(b.nodes, in_best));
      after.push_back(sum_of(a.nodes, in_other));
      whole_before.push_back(b.total);
      whole_after.push_back(a.total);
      if (n < kFewestRounds || n % kFewestRounds != 0) continue;
      if (median_of(after) > kSlower * median_of(before)) {
        trial.verdict = "slower";
        break;
      }
      if (clearly_faster(after, before, 1, kTrialLuck) &&
          median_of(whole_after) <= kNoSlowerAsAWhole * median_of(whole_before)) {
        trial.verdict = "taken";
        break;
      }
    }
    if (before.empty()) return;
    trial.before = median_of(before);
    trial.after = median_of(after);
    trial.whole_before = median_of(whole_before);
    trial.whole_after = median_of(whole_after);
  }

  const Timer timer_;
  const std::vector<Tensor> args_;
  const std::vector<NDArray> arrays_;
  const TuneClock& clock_;
  std::shared_ptr<network::TimedNetwork> given_, best_;
  Rng rng_{17};
  int taken_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace

PassChoice choose_passes(const Network& network, double seconds, const TuneClock& clock) {
  PassChoice choice{network.pass_options(), {}};
  choice.times.verdict = "nothing to race";
  if (!network.sizes().empty()) return choice;  // the race needs one size
  if (network.tasks().empty() || !network.sizes().empty() ||
      network.tasks()[0].tmpl.target().is_cuda())
    return choice;
  const TuneClock own(seconds, &clock);
  std::vector<Candidate> candidates = Candidates(network, own).list(kShareOfEstimates * seconds);
  if (candidates.empty()) return choice;
  const ScopedThreads threads(std::max(1, network.tasks()[0].tmpl.target().cores));
  Contest contest(network, own);
  contest.run(candidates, kShareOfFinal * seconds);
  choice.times = contest.decide();
  choice.times.problems = contest.problems();
  if (choice.times.verdict == "faster") choice.options = contest.best().pass_options();
  for (Candidate& c : candidates) choice.trials.push_back(std::move(c.trial));
  return choice;
}

}  // namespace heddle
