#include "quantize/precision/over_ranges.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "driver/program_args.h"
#include "heddle/support/error.h"
#include "network/cut/check_network.h"
#include "network/cut/sizes/family_graph.h"
#include "network/cut/sizes/passes_over_sizes.h"
#include "network/cut/step_plan.h"
#include "network/cut/updates.h"
#include "quantize/precision/meter.h"
#include "runtime/kernel/check_arguments.h"

namespace heddle::quantize {
namespace {

// The larger sizes at which types are verified, over those at which they are chosen.
constexpr int64_t kLarger = 4;
// One call, beside the one that chooses elsewhere.
constexpr int kCalls = 2;

/// The options of a network without types.
PassOptions without_types(const Network& network) {
  PassOptions passes = network.pass_options();
  passes.types.clear();
  passes.tolerance = 0;
  return passes;
}

/// The network in f32, without the passes that are left out over its ranges, and with its joins at all
/// sizes: products are stages of one graph then.
Network with_one_graph(const Network& network, const Target& target,
                       std::vector<SizeValue>& usual) {
  std::vector<PassApplication> ignored;
  const network::FamilyGraph graph =
      network::family_graph(network::graph_to_cut(network.outputs(), network.updates(), target),
                            target, without_types(network), ignored);
  usual = graph.usual;
  PassOptions passes = graph.passes;
  passes.choices.merge(network::settings_of(graph.choices.list(), network::is_of_joins));
  return network.with_passes(passes);
}

/// A network over ranges, and what it is at sizes.
class Ranged {
 public:
  Ranged(const Network& network, std::vector<Tensor> args)
      : args_(std::move(args)),
        target_(network.tasks()[0].tmpl.target()),
        network_(with_one_graph(network, target_, usual_)) {}

  /// The sizes of a call; the usual ones where there is none.
  std::vector<SizeValue> sizes_of(const std::vector<std::vector<NDArray>>& calls) const {
    if (calls.empty()) return usual_;
    std::vector<Tensor> inputs;
    for (const Tensor& t : args_) {
      if (t.op()->is_placeholder() && t.op()->data() == nullptr) inputs.push_back(t);
    }
    if (calls[0].size() != inputs.size())
      throw_user_error("a call has " + std::to_string(calls[0].size()) +
                       " arrays, and the network " + std::to_string(inputs.size()) + " inputs");
    std::vector<Var> sizes;
    for (const SizeValue& v : usual_) sizes.push_back(v.size);
    std::vector<SizeValue> at = usual_;
    read_sizes("of the network", driver::kernel_sizes(sizes),
               driver::kernel_args(inputs, inputs.size(), {}, sizes), calls[0],
               [&](size_t i, int64_t value) { at[i].value = value; });
    return at;
  }

  Network at(const std::vector<SizeValue>& sizes) const { return network_.at(sizes); }

  /// The arguments at these sizes. An instance has its inputs and outputs in the same order.
  std::vector<Tensor> args_at(const Network& here) const {
    const std::vector<Tensor> from = args_read_by(network_), to = args_read_by(here);
    std::vector<Tensor> found;
    for (const Tensor& t : args_) {
      const auto is = [&](const Tensor& f) { return f.same_as(t); };
      const auto place = std::find_if(from.begin(), from.end(), is);
      if (place != from.end()) found.push_back(to[static_cast<size_t>(place - from.begin())]);
    }
    return found;
  }

  /// The arrays of calls for the arguments that there are at these sizes: one may give a size alone.
  std::vector<std::vector<NDArray>> calls_at(const std::vector<std::vector<NDArray>>& calls) const {
    const std::vector<Tensor> known = args_read_by(network_);
    std::vector<std::vector<NDArray>> made(calls.size());
    size_t input = 0;
    for (const Tensor& t : args_) {
      if (!t.op()->is_placeholder() || t.op()->data() != nullptr) continue;
      const bool read = network::position_of(known, t) >= 0;
      for (size_t c = 0; c < calls.size(); ++c) {
        if (read && input < calls[c].size()) made[c].push_back(calls[c][input]);
      }
      ++input;
    }
    return made;
  }

  network::StageTypes types_at(const Network& here, const PassOptions& typed) const {
    return network::stage_types(graph_of(here), target_, typed);
  }
  PassOptions typed_at(const Network& here, const network::StageTypes& types) const {
    return network::passes_at(graph_of(here), target_, here.pass_options(), types);
  }
  /// The types by the names that products have over the ranges.
  std::map<std::string, OperandType> named(const network::StageTypes& types) const {
    return typed_at(at(usual_), types).types;
  }

  /// The least sizes, and larger ones than `at` as far as the ranges have them.
  std::vector<std::vector<SizeValue>> others(const std::vector<SizeValue>& at) const {
    std::vector<SizeValue> least = at, larger = at;
    for (size_t i = 0; i < at.size(); ++i) {
      least[i].value = at[i].size->size->lo;
      larger[i].value = std::min(at[i].size->size->hi, kLarger * at[i].value);
    }
    return {least, larger};
  }

 private:
  /// Without inputs that only give a size.
  static std::vector<Tensor> args_read_by(const Network& network) {
    std::vector<Tensor> args = network::all_args(network, ComputeDag(network.outputs()));
    std::erase_if(args, [](const Tensor& t) { return t.op()->data() != nullptr; });
    return args;
  }
  ComputeDag graph_of(const Network& here) const {
    return network::graph_to_cut(here.outputs(), here.updates(), target_);
  }

  std::vector<Tensor> args_;
  Target target_;
  std::vector<SizeValue> usual_;
  Network network_;  ///< in f32
};

/// The largest error at other sizes than `at`, where products have these types.
double error_elsewhere(const Ranged& ranged, const std::vector<SizeValue>& at,
                       const network::StageTypes& types, const PrecisionOptions& options) {
  if (options.elsewhere) return options.elsewhere(ranged.named(types));
  double error = 0;
  for (const std::vector<SizeValue>& sizes : ranged.others(at)) {
    const Network here = ranged.at(sizes);
    const PrecisionMeter meter(here, ranged.args_at(here),
                               {.drawn = kCalls, .seed = options.seed, .time = options.time});
    error =
        std::max(error, meter.error(meter.made(ranged.typed_at(here, types).types), Half::Decides));
  }
  return error;
}

/// The ranges of operands on PrecisionOptions::wider.
std::map<int, std::pair<double, double>> wider_ranges(const Ranged& ranged,
                                                      const PrecisionOptions& options) {
  std::map<int, std::pair<double, double>> ranges = options.ranges;
  if (options.wider.empty()) return ranges;
  const Network there = ranged.at(ranged.sizes_of(options.wider));
  const PrecisionOptions of_there{.calls = ranged.calls_at(options.wider), .time = options.time};
  const PrecisionMeter meter(there, ranged.args_at(there), of_there);
  for (const Candidate& c : meter.candidates()) {
    if (c.source) ranges[c.place.stage] = {c.low, c.high};
  }
  return ranges;
}

/// Leaves the product of the largest error in f32, of those that are not.
void leave_largest(PrecisionChoice& choice) {
  const auto is_taken = [](const PrecisionTrial& t) {
    return t.verdict == PrecisionVerdict::Taken;
  };
  PrecisionTrial* largest = nullptr;
  for (PrecisionTrial& t : choice.trials) {
    if (is_taken(t) && (largest == nullptr || t.error > largest->error)) largest = &t;
  }
  largest->verdict = PrecisionVerdict::TooInexact;
  choice.options.types.erase(largest->product);
  choice.seconds = std::min(choice.f32_seconds, choice.seconds + largest->gain);
  choice.measured = false;
}

/// Leaves products in f32 until the others keep the tolerance at other sizes, too.
void verify_elsewhere(const Ranged& ranged, const std::vector<SizeValue>& at, const Network& here,
                      const PrecisionOptions& options, PrecisionChoice& choice) {
  while (!choice.options.types.empty()) {
    const network::StageTypes types = ranged.types_at(here, choice.options);
    const double error = error_elsewhere(ranged, at, types, options);
    if (error <= options.tolerance) {
      choice.error = std::max(choice.error, error);
      return;
    }
    leave_largest(choice);
  }
  choice.outcome = PrecisionOutcome::TooInexact;
  choice.error = 0;
}

}  // namespace

PrecisionChoice choose_over_ranges(const Network& network, const std::vector<Tensor>& args,
                                   const PrecisionOptions& options) {
  const Ranged ranged(network, args);
  const std::vector<SizeValue> at = ranged.sizes_of(options.calls);
  const Network here = ranged.at(at);
  PrecisionOptions of_here = options;
  of_here.calls = ranged.calls_at(options.calls);
  of_here.ranges = wider_ranges(ranged, options);
  PrecisionChoice choice = choose_precision(here, ranged.args_at(here), of_here);
  if (choice.outcome == PrecisionOutcome::Some) verify_elsewhere(ranged, at, here, options, choice);
  const network::StageTypes types = ranged.types_at(here, choice.options);
  choice.options = without_types(network);
  choice.options.tolerance = options.tolerance;
  choice.options.types = ranged.named(types);
  return choice;
}

}  // namespace heddle::quantize
