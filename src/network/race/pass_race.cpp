// Tries the choices about a network whose gain is only estimated, on the whole network.
#include <algorithm>
#include <cmath>
#include <memory>

#include "heddle/network/network.h"
#include "heddle/network/pass_records.h"
#include "heddle/runtime/cuda.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "network/race/duel.h"
#include "network/race/pass_candidates.h"
#include "network/race/timed_network.h"
#include "network/run/output_difference.h"

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
// The share of the estimates for the times of the nodes.
constexpr double kShareOfNodeTimes = 0.2;
// The share of tuning for the choices about a network, and its most seconds.
constexpr double kShareOfTuning = 0.15, kMostOfTuning = 60;
// The expected time of the first trial, as a share of the time to build the network.
constexpr double kPartOfNetwork = 0.3;
// Rounds of the last race at most.
constexpr int kMostOfLast = 48;
constexpr uint64_t kSeed = 17;

class Contest {
 public:
  Contest(const Network& network, const TuneClock& clock)
      : args_(network::call_args(network)),
        arrays_(
            network::random_arrays(args_, network::device_of(network.tasks()[0].tmpl.target()))),
        clock_(clock),
        given_(made(network)),
        best_(given_),
        build_seconds_(timer_.elapsed_s()) {}

  /// The candidates, those first whose nodes lose most time. Takes at most `seconds`.
  std::vector<network::Candidate> candidates(double seconds) {
    const std::vector<double> nodes = given_->node_seconds(kShareOfNodeTimes * seconds);
    return network::pass_candidates(given_->network(), nodes, seconds, clock_);
  }

  /// Tries the candidates one after the other until `reserve` seconds are left.
  void run(std::vector<network::Candidate>& candidates, double reserve) {
    // A trial compiles a part of another network.
    double longest = kPartOfNetwork * build_seconds_;
    for (network::Candidate& c : candidates) {
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
    times.verdict = RaceResult::NotProven;
    if (best_ != given_) {
      times = network::duel([&](size_t i) { return (i == 0 ? *given_ : *best_).call().total; },
                            kMostOfLast, kSeed, {.over = [&] { return clock_.expired(); }});
    }
    times.changed = taken_;
    return times;
  }

 private:
  using Times = network::CallTimes;

  std::shared_ptr<network::TimedNetwork> made(const Network& network) const {
    return std::make_shared<network::TimedNetwork>(network, network.static_schedules(), args_,
                                                   arrays_);
  }

  void try_one(network::Candidate& c) {
    ChoiceTrial& trial = c.trial;
    try {
      const Network changed = best().with_passes(c.change.applied_to(best().pass_options()));
      const std::vector<uint64_t> hashes = network::node_hashes(changed);
      if (hashes == best_->hashes()) {
        trial.verdict = TrialResult::ChangesNothing;
        return;
      }
      const std::shared_ptr<network::TimedNetwork> other = made(changed);
      const std::string difference =
          network::output_difference(best().outputs(), other->outputs(), best_->outputs());
      if (!difference.empty()) {
        trial.verdict = TrialResult::AnswersDiffer;
        problems_.push_back("with " + trial.change +
                            ", the network computes something else: " + difference);
        return;
      }
      race(trial, *other);
      if (trial.verdict != TrialResult::Taken) return;
      best_ = other;
      ++taken_;
    } catch (const Error& e) {
      // A choice that was taken before may have changed the graph.
      trial.verdict =
          e.kind == ErrorKind::User ? TrialResult::NoLongerPossible : TrialResult::CannotBeBuilt;
      if (e.kind != ErrorKind::User) problems_.push_back(trial.change + ": " + e.what());
    }
  }

  /// The time of these nodes, or of the whole call where nodes have no time of their own.
  static double sum_of(const Times& times, const std::vector<char>& which) {
    if (times.steps.empty()) return times.total;
    double sum = 0;
    for (size_t n = 0; n < which.size(); ++n) sum += which[n] != 0 ? times.steps[n] : 0;
    return sum;
  }

  void race(ChoiceTrial& trial, network::TimedNetwork& other) {
    const std::vector<char> in_best = network::nodes_that_differ(best_->hashes(), other.hashes()),
                            in_other = network::nodes_that_differ(other.hashes(), best_->hashes());
    const racing::Rules rules{
        .most_rounds = kMostRounds,
        .looks = {kFewestRounds, 2 * kFewestRounds, 3 * kFewestRounds, 4 * kFewestRounds},
        .seed = kSeed};
    // The nodes that differ, and whole calls. Entrant 0 is the best network so far.
    racing::Field parts(2, rules), whole = parts;
    const auto call = [&](size_t i) {
      const Times times = (i == 0 ? *best_ : other).call();
      whole.add(i, times.total);
      return sum_of(times, i == 0 ? in_best : in_other);
    };
    trial.verdict = TrialResult::NotProven;
    const auto decided = [&](int) {
      const bool slower = parts.time(1) > kSlower * parts.time(0);
      if (slower) trial.verdict = TrialResult::Slower;
      if (!slower && parts.winner(kTrialLuck) == 1 &&
          whole.time(1) <= kNoSlowerAsAWhole * whole.time(0))
        trial.verdict = TrialResult::Taken;
      return trial.verdict != TrialResult::NotProven;
    };
    const int rounds =
        racing::run(parts, call, {.over = [&] { return clock_.expired(); }, .decided = decided});
    if (rounds == 0) return;
    trial.before = parts.time(0);
    trial.after = parts.time(1);
    trial.whole_before = whole.time(0);
    trial.whole_after = whole.time(1);
  }

  const Timer timer_;
  const std::vector<Tensor> args_;
  const std::vector<NDArray> arrays_;
  const TuneClock& clock_;
  std::shared_ptr<network::TimedNetwork> given_, best_;
  const double build_seconds_;
  int taken_ = 0;
  std::vector<std::string> problems_;
};

/// Tries the candidates, which are listed first.
void race(const Network& network, double seconds, const TuneClock& clock,
          std::vector<network::Candidate>& candidates, PassChoice& choice) {
  Contest contest(network, clock);
  candidates = contest.candidates(kShareOfEstimates * seconds);
  if (candidates.empty()) return;
  try {
    contest.run(candidates, kShareOfFinal * seconds);
    choice.times = contest.decide();
  } catch (const Error&) {
    choice.times.problems = contest.problems();
    throw;
  }
  choice.times.problems = contest.problems();
  if (choice.times.verdict == RaceResult::Faster) choice.options = contest.best().pass_options();
}

}  // namespace

const char* to_string(TrialResult result) {
  switch (result) {
    case TrialResult::NoTime: return "no time";
    case TrialResult::Taken: return "taken";
    case TrialResult::NotProven: return "not proven";
    case TrialResult::Slower: return "slower";
    case TrialResult::ChangesNothing: return "changes nothing";
    case TrialResult::AnswersDiffer: return "answers differ";
    case TrialResult::NoLongerPossible: return "no longer possible";
    case TrialResult::CannotBeBuilt: return "cannot be built";
  }
  return "";
}

PassChoice choose_passes(const Network& network, double seconds, const TuneClock& clock) {
  PassChoice choice{network.pass_options(), {}};
  choice.times.verdict = RaceResult::NothingToRace;
  // It needs one size.
  if (network.tasks().empty() || !network.sizes().empty()) return choice;
  const Target& target = network.tasks()[0].tmpl.target();
  if (target.is_cuda() && !target.runs_here()) return choice;
  const TuneClock own(seconds, &clock);
  const ScopedThreads threads(network::race_threads(target));
  std::vector<network::Candidate> candidates;
  try {
    race(network, seconds, own, candidates, choice);
  } catch (const Error& e) {
    // The memory of a GPU may not be enough for two networks beside what measures candidates.
    if (e.kind != ErrorKind::Runtime) throw;
    choice.times.verdict = RaceResult::NotRaced;
    choice.times.problems.push_back("the choices about the network did not race: " + e.message);
  }
  for (network::Candidate& c : candidates) choice.trials.push_back(std::move(c.trial));
  if (target.is_cuda() && !cuda::context_lost()) cuda::release_memory();
  return choice;
}

PassChoice tune_passes(const Network& network, const std::string& subject, const std::string& log,
                       const TuneClock& clock) {
  const double seconds = std::min(kMostOfTuning, kShareOfTuning * clock.left_s());
  PassChoice choice = choose_passes(network, seconds, clock);
  if (!(choice.options == network.pass_options()) && !log.empty()) {
    record_passes(network.with_passes(choice.options), subject, choice.times.best_seconds, log);
  }
  return choice;
}

}  // namespace heddle
