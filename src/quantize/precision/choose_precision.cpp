#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "heddle/network/plan.h"
#include "heddle/quantize/precision.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "network/race/call_timer.h"
#include "quantize/precision/meter.h"
#include "quantize/precision/moves.h"
#include "quantize/precision/over_ranges.h"

namespace heddle {
namespace quantize {
namespace {

// Errors on other calls are a little larger than on those that choose.
constexpr double kShareOfTolerance = 0.8;
// The shares of the time after which no more products are measured, and no more sums of them.
constexpr double kShareOfTrials = 0.75;

class Search {
 public:
  Search(const Network& network, const std::vector<Tensor>& args, const PrecisionOptions& options)
      : options_(options), clock_(options.seconds), meter_(network, args, options) {
    choice_.options = network.pass_options();
    choice_.measured = meter_.measured();
    choice_.drawn = meter_.drawn();
    choice_.calls = meter_.calls();
  }

  PrecisionChoice run(const Target& target) {
    const std::vector<OperandType> types = operand_types(target);
    const std::vector<Candidate>& candidates = meter_.candidates();
    choice_.products = static_cast<int>(candidates.size());
    choice_.outcome = candidates.empty() ? PrecisionOutcome::NoProducts : PrecisionOutcome::NoTypes;
    if (candidates.empty() || types.empty()) return std::move(choice_);
    for (const Candidate& c : candidates) {
      for (const OperandType& type : types) {
        if (const std::optional<OperandType> as = typed(c, type)) try_one(c, *as);
      }
    }
    decide();
    return std::move(choice_);
  }

 private:
  using Made = PrecisionMeter::Made;

  void try_one(const Candidate& c, const OperandType& as) {
    PrecisionTrial trial{.product = c.name, .type = as};
    if (clock_.elapsed_s() < kShareOfTrials * options_.seconds) {
      try {
        const Made made = meter_.made({{c.name, as}});
        trial.error = meter_.error(made, Half::Chooses);
        trial.gain = gain(c, as, made);
        trial.verdict = trial.gain > 0 ? PrecisionVerdict::TooInexact : PrecisionVerdict::NoGain;
      } catch (const Error& e) {
        if (e.kind == ErrorKind::Internal) throw;
        trial.verdict = PrecisionVerdict::CannotBuild;
      }
    }
    choice_.trials.push_back(std::move(trial));
  }

  /// A product of this size in this type, which replaces nodes of these hashes.
  struct Gain {
    std::vector<uint64_t> replaced;
    double flops, operands, results, runs;
    DataType type;
    bool tf32;
    double seconds;
  };

  /// Products of one size whose types change nodes that are declared alike, gain alike.
  double gain(const Candidate& c, const OperandType& as, const Made& made) {
    Gain here{meter_.replaced(made), c.flops, c.operands, c.results, c.runs, as.type, as.tf32, 0};
    const auto known = std::find_if(gains_.begin(), gains_.end(), [&](const Gain& g) {
      return g.replaced == here.replaced && g.flops == here.flops && g.operands == here.operands &&
             g.results == here.results && g.runs == here.runs && g.type == here.type &&
             g.tf32 == here.tf32;
    });
    if (known != gains_.end()) return known->seconds;
    here.seconds = meter_.gain(made);
    gains_.push_back(here);
    return here.seconds;
  }

  Types types_of(const std::vector<size_t>& trials) const {
    Types types;
    for (const size_t t : trials) types[choice_.trials[t].product] = choice_.trials[t].type;
    return types;
  }

  std::vector<double> errors_of(const std::vector<size_t>& trials) const {
    std::vector<double> errors;
    for (const size_t t : trials) errors.push_back(choice_.trials[t].error);
    return errors;
  }

  bool fits(size_t count) {
    const Made made = meter_.made(types_of(taken_of(offers_, order_, count)));
    return meter_.error(made, Half::Chooses) <= kShareOfTolerance * options_.tolerance;
  }

  /// How errors add up, by the network with all changes that gain.
  Sum measured_sum() {
    const std::vector<size_t> all = taken_of(offers_, order_, order_.size());
    const std::vector<double> errors = errors_of(all);
    choice_.all_linear = summed(errors, Sum::Linear);
    choice_.all_squares = summed(errors, Sum::Squares);
    choice_.all_error = meter_.error(meter_.made(types_of(all)), Half::Chooses);
    const auto distance = [&](double sum) { return std::abs(std::log(choice_.all_error / sum)); };
    return distance(choice_.all_squares) < distance(choice_.all_linear) ? Sum::Squares
                                                                        : Sum::Linear;
  }

  /// The largest number of changes whose sum, if errors add up so, is within the tolerance.
  size_t expected(Sum how) const {
    size_t count = 0;
    while (count < order_.size() && summed(errors_of(taken_of(offers_, order_, count + 1)), how) <=
                                        kShareOfTolerance * options_.tolerance)
      ++count;
    return count;
  }

  /// The largest number of changes that the calls that choose allow: the expected one is tried
  /// first, and the interval that is left is halved.
  size_t most_that_fit(size_t expected) {
    size_t fitting = 0, too_many = order_.size() + 1, next = std::max<size_t>(1, expected);
    while (fitting + 1 < too_many && !clock_.expired()) {
      (fits(next) ? fitting : too_many) = next;
      next = (fitting + too_many) / 2;
    }
    return fitting;
  }

  /// Undoes changes until the calls that decide allow the others.
  size_t verified(size_t count) {
    constexpr size_t kSteps = 8;
    while (count > 0) {
      const Made made = meter_.made(types_of(taken_of(offers_, order_, count)));
      choice_.error = meter_.error(made, Half::Decides);
      if (choice_.error <= options_.tolerance) return count;
      count -= std::max<size_t>(1, count / kSteps);
    }
    choice_.error = 0;
    return 0;
  }

  void decide() {
    for (const PrecisionTrial& t : choice_.trials) {
      const bool tried = t.verdict == PrecisionVerdict::TooInexact;
      offers_.push_back({t.product, t.error, tried ? t.gain : 0});
    }
    order_ = order_of(offers_, Sum::Linear);
    if (order_.empty()) {
      const bool any = std::any_of(choice_.trials.begin(), choice_.trials.end(), [](const auto& t) {
        return t.verdict == PrecisionVerdict::NoGain;
      });
      choice_.outcome = any ? PrecisionOutcome::NoGain : PrecisionOutcome::NoTime;
      return;
    }
    const Sum how = measured_sum();
    order_ = order_of(offers_, how);
    const size_t fitting = most_that_fit(expected(how)), count = verified(fitting);
    choice_.outcome =
        fitting == 0 && clock_.expired() ? PrecisionOutcome::NoTime : PrecisionOutcome::TooInexact;
    if (count > 0) race(taken_of(offers_, order_, count));
  }

  void race(const std::vector<size_t>& taken) {
    const Types types = types_of(taken);
    const NetworkTimes times = meter_.race(meter_.made(types));
    choice_.f32_seconds = times.static_seconds;
    choice_.seconds = times.best_seconds;
    choice_.outcome = PrecisionOutcome::NotFaster;
    if (times.verdict != RaceResult::Faster) {
      choice_.error = 0;
      return;
    }
    choice_.outcome = PrecisionOutcome::Some;
    choice_.options.types = types;
    for (const size_t t : taken) choice_.trials[t].verdict = PrecisionVerdict::Taken;
    for (PrecisionTrial& t : choice_.trials) {
      if (t.verdict == PrecisionVerdict::TooInexact && types.contains(t.product))
        t.verdict = PrecisionVerdict::Replaced;
    }
  }

  const PrecisionOptions& options_;
  const TuneClock clock_;
  PrecisionMeter meter_;
  PrecisionChoice choice_;
  std::vector<Gain> gains_;
  std::vector<Offer> offers_;  ///< one for each trial
  std::vector<size_t> order_;
};

}  // namespace
}  // namespace quantize

PrecisionChoice choose_precision(const Network& network, const std::vector<Tensor>& args,
                                 const PrecisionOptions& options) {
  if (!(options.tolerance >= 0) || !std::isfinite(options.tolerance))
    throw_user_error("the tolerance is no number that is not negative", {},
                     "give the error that outputs may have, such as 0.01");
  if (!network.sizes().empty()) return quantize::choose_over_ranges(network, args, options);
  PassOptions passes = network.pass_options();
  passes.types.clear();
  passes.tolerance = 0;
  if (network.tasks().empty()) {
    passes.tolerance = options.tolerance;
    return {.options = passes};
  }
  const Target target = network.tasks()[0].tmpl.target();
  const ScopedThreads threads(network::race_threads(target));
  PrecisionChoice choice = quantize::Search(network.with_passes(passes), args, options).run(target);
  choice.options.tolerance = options.tolerance;
  return choice;
}

Network with_types(const Network& network, const PrecisionChoice& choice) {
  if (network.plan() == nullptr) return network.with_passes(choice.options);
  NetworkPlan plan = *network.plan();
  plan.passes = to_string(choice.options);
  return network.with_plan(plan);
}

}  // namespace heddle
