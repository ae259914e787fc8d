#include "quantize/precision/meter.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "network/cut/loops.h"
#include "network/cut/memory/node_costs.h"
#include "network/cut/updates.h"
#include "network/passes/graph_pass.h"
#include "network/race/duel.h"
#include "quantize/precision/output_error.h"
#include "quantize/precision/turn_values.h"
#include "runtime/race/clearly_faster.h"

namespace heddle::quantize {
namespace {

// Calls in turns by which the gain of a product is judged.
constexpr int kRounds = 11, kMostOfLast = 48;
constexpr double kLongestRounds = 1;  // seconds
constexpr uint64_t kSeed = 29;

double sum_where(const std::vector<double>& seconds, const std::vector<char>& which) {
  double sum = 0;
  for (size_t n = 0; n < which.size(); ++n) sum += which[n] != 0 ? seconds[n] : 0;
  return sum;
}

}  // namespace

PrecisionMeter::PrecisionMeter(const Network& network, std::vector<Tensor> args,
                               const PrecisionOptions& options)
    : options_(options),
      args_(std::move(args)),
      target_(network.tasks().at(0).tmpl.target()),
      here_(target_.runs_here()),
      calls_(options.calls),
      f32_{network, nullptr} {
  for (size_t i = 0; i < args_.size(); ++i) {
    const Operation& op = *args_[i].op();
    if (!op.is_placeholder() || op.data() != nullptr) continue;
    if (op.is_constant())
      throw_user_error("the constant '" + op.name() + "' has no values, by which types are chosen",
                       {}, "declare it by constant(array)");
    inputs_.push_back(i);
  }
  if (!here_ && !network.updates().empty())
    throw_user_error("types of a network with states are chosen where it runs, and kernels for " +
                         to_string(target_) + " do not run here",
                     {}, "name the types by --passes, or choose them on that machine");
  if (drawn()) draw_calls();
  check_calls();
  const Device device = here_ ? network::device_of(target_) : Device::cpu();
  for (const Tensor& t : args_)
    arrays_.push_back(NDArray::zeros(t.extents(), t.dtype()).to_device(device));
  f32_ = made({});
  for (size_t c = 0; c < calls_.size(); ++c) wanted_.push_back(outputs(*f32_.runs, c));
  check_wanted();
  candidates_ = find_candidates();
}

void PrecisionMeter::draw_calls() {
  uint64_t seed = options_.seed;
  for (int c = 0; c < options_.drawn; ++c) {
    calls_.emplace_back();
    for (const size_t i : inputs_)
      calls_.back().push_back(NDArray::random(args_[i].extents(), args_[i].dtype(), seed++));
  }
}

void PrecisionMeter::check_calls() const {
  if (calls_.size() < 2)
    throw_user_error("there are samples for " + std::to_string(calls_.size()) +
                         " calls, and the types are chosen on some and verified on others",
                     {}, "give samples for at least two calls");
  for (const std::vector<NDArray>& call : calls_) {
    if (call.size() != inputs_.size())
      throw_user_error("a call has " + std::to_string(call.size()) + " arrays, and the network " +
                       std::to_string(inputs_.size()) + " inputs");
    for (size_t i = 0; i < call.size(); ++i) {
      const Tensor& t = args_[inputs_[i]];
      if (call[i].shape() != t.extents() || call[i].dtype() != t.dtype())
        throw_user_error("an array of the input '" + t.name() + "' has another shape or type", {},
                         "give arrays like those of calls");
    }
  }
}

/// The outputs among the arguments, then what calls update.
std::vector<std::string> PrecisionMeter::names_of_results() const {
  std::vector<std::string> names;
  for (const Tensor& t : args_) {
    if (!t.op()->is_placeholder()) names.push_back(t.name());
  }
  for (const size_t at : f32_.runs->updated()) names.push_back(args_[at].name());
  return names;
}

// An output of NaN is like any other one of NaN, and would allow each type.
void PrecisionMeter::check_wanted() const {
  const std::vector<std::string> names = names_of_results();
  for (size_t c = 0; c < calls_.size(); ++c) {
    for (size_t o = 0; o < names.size(); ++o) {
      const NDArray& want = wanted_[c][o];
      bool any = want.size() == 0;
      for (int64_t i = 0; i < want.size() && !any; ++i) any = std::isfinite(want.get(i));
      if (!any)
        throw_user_error("the output '" + names[o] + "' has no finite value in call " +
                             std::to_string(c) + (drawn() ? ", on random inputs" : " of the data"),
                         {},
                         drawn() ? "give samples for which the network computes numbers"
                                 : "leave out the samples for which the network overflows");
    }
  }
}

// The graph that the passes for another machine made, with kernels for this one.
Network PrecisionMeter::runnable(const Network& network) const {
  if (here_) return network;
  network::ChoiceList choices(network.pass_options());
  std::vector<PassApplication> log;
  const ComputeDag dag = network::run_passes(ComputeDag(network.outputs()), target_,
                                             network.pass_options(), choices, log);
  return Network(dag.outputs(), Target::host(), {}, {},
                 Updates({}, network::loops_over(network.updates().repeats, network.outputs(),
                                                 dag.outputs())));
}

/// The arguments with the outputs of this network in place of those as declared.
std::vector<Tensor> PrecisionMeter::args_for(const Network& network) const {
  const std::vector<Tensor>& declared = f32_.network.outputs();
  std::vector<Tensor> args = args_;
  for (Tensor& t : args) {
    const auto at = std::find_if(declared.begin(), declared.end(),
                                 [&](const Tensor& o) { return o.same_as(t); });
    if (at != declared.end()) t = network.outputs()[static_cast<size_t>(at - declared.begin())];
  }
  return args;
}

PrecisionMeter::Made PrecisionMeter::made(const Types& types) const {
  PassOptions passes = f32_.network.pass_options();
  passes.types = types;
  const Network changed = types.empty() ? f32_.network : f32_.network.with_passes(passes);
  const Network here = runnable(changed);
  return {changed, std::make_shared<network::TimedNetwork>(here, std::vector<Schedule>(),
                                                           args_for(here), arrays_)};
}

// The graph in which products are named has inputs that stand for states after their update.
std::vector<Candidate> PrecisionMeter::find_candidates() const {
  const Network& n = f32_.network;
  std::vector<network::StateWrite> writes;
  ComputeDag declared(n.outputs());
  if (!n.updates().empty()) {
    network::UpdatedGraph updated = network::updated_graph(declared, n.updates(), {}, target_);
    declared = std::move(updated.graph);
    writes = std::move(updated.writes);
  }
  network::ChoiceList choices(n.pass_options());
  std::vector<PassApplication> log;
  const ComputeDag dag = network::run_passes(declared, target_, n.pass_options(), choices, log,
                                             {.until = to_string(network::ChoiceKind::Precision)});
  std::vector<Candidate> found;
  const std::vector<double> runs = network::runs_of_stages(n.updates().repeats, dag, {});
  for (network::ProductPlace& p : network::product_places(dag)) {
    // Where a network is of narrower numbers, these are what the user asked for.
    if (p.operands[0]->dtype != f32 || p.operands[1]->dtype != f32) continue;
    Candidate c;
    c.name = network::name_of(network::ChoiceKind::Precision, p.place);
    c.flops = dag.info(p.stage).flops;
    if (!runs.empty()) c.runs = runs[static_cast<size_t>(p.stage)];
    c.results = static_cast<double>(dag.info(p.stage).points);
    for (const Load* operand : p.operands)
      c.operands += static_cast<double>(tensor_of(operand->buffer).size());
    if (p.weights >= 0)
      c.source = network::source_of(dag, tensor_of(p.operands[1 - p.weights]->buffer));
    c.place = std::move(p);
    found.push_back(std::move(c));
  }
  std::vector<GivenInput> inputs = given_inputs();
  for (const network::StateWrite& write : writes) {
    if (write.after) inputs.push_back({write.after, states_after(write.state)});
  }
  find_ranges(found, with_turns(n, std::move(inputs)));
  for (Candidate& c : found) {
    const auto wider = options_.ranges.find(c.place.stage);
    if (wider == options_.ranges.end()) continue;
    c.low = std::min(c.low, wider->second.first);
    c.high = std::max(c.high, wider->second.second);
  }
  std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    return a.runs * a.flops > b.runs * b.flops;
  });
  return found;
}

/// The inputs of the calls that choose.
std::vector<GivenInput> PrecisionMeter::given_inputs() const {
  std::vector<GivenInput> inputs;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    GivenInput& input = inputs.emplace_back(GivenInput{args_[inputs_[i]], {}});
    for (size_t c = 0; c < calls_.size(); c += 2) input.values.push_back(calls_[c][i]);
  }
  return inputs;
}

/// What these calls leave in a state.
std::vector<NDArray> PrecisionMeter::states_after(const Tensor& state) const {
  const auto outputs = static_cast<size_t>(
      std::ranges::count_if(args_, [](const Tensor& t) { return !t.op()->is_placeholder(); }));
  const std::vector<size_t>& updated = f32_.runs->updated();
  const auto at = std::ranges::find_if(updated, [&](size_t i) { return args_[i].same_as(state); });
  HEDDLE_ICHECK(at != updated.end(), "a state is an argument");
  std::vector<NDArray> values;
  for (size_t c = 0; c < calls_.size(); c += 2)
    values.push_back(wanted_[c][outputs + static_cast<size_t>(at - updated.begin())]);
  return values;
}

std::vector<NDArray> PrecisionMeter::outputs(network::TimedNetwork& runs, size_t call) const {
  for (size_t i = 0; i < inputs_.size(); ++i)
    NDArray(arrays_[inputs_[i]]).copy_from(calls_[call][i]);
  return runs.outputs();
}

double PrecisionMeter::error(const Made& made, Half half) const {
  std::vector<OutputError> errors;
  for (size_t c = half == Half::Chooses ? 0 : 1; c < calls_.size(); c += 2) {
    const std::vector<NDArray> got = outputs(*made.runs, c);
    errors.resize(got.size());
    for (size_t o = 0; o < got.size(); ++o) errors[o].add(got[o], wanted_[c][o]);
  }
  double largest = 0;
  for (const OutputError& e : errors) largest = std::max(largest, e.value());
  return largest;
}

double PrecisionMeter::estimated_seconds() const {
  const Network& n = f32_.network;
  const std::vector<double> nodes = network::seconds_of_nodes(
      network::cut_network(ComputeDag(n.outputs()), target_, n.pass_options(), n.updates()),
      target_);
  return std::accumulate(nodes.begin(), nodes.end(), 0.0);
}

std::vector<uint64_t> PrecisionMeter::replaced(const Made& made) const {
  const std::vector<uint64_t>& was = f32_.runs->hashes();
  const std::vector<char> which = network::nodes_that_differ(was, made.runs->hashes());
  std::vector<uint64_t> hashes;
  for (size_t n = 0; n < was.size(); ++n) {
    if (which[n] != 0) hashes.push_back(was[n]);
  }
  std::sort(hashes.begin(), hashes.end());
  return hashes;
}

double PrecisionMeter::gain(const Made& made) const {
  if (options_.time) return options_.time(f32_.network) - options_.time(made.network);
  if (!here_) {
    double sum = 0;
    const Types& types = made.network.pass_options().types;
    for (const Candidate& c : candidates_) {
      const auto of = types.find(c.name);
      if (of != types.end()) sum += estimated_gain(c, of->second, target_);
    }
    return sum;
  }
  const std::vector<uint64_t>&was = f32_.runs->hashes(), &is = made.runs->hashes();
  const std::vector<char> replaced = network::nodes_that_differ(was, is),
                          instead = network::nodes_that_differ(is, was);
  std::vector<double> before, after;
  const Timer timer;
  for (int r = 0; r < kRounds && (r < 3 || timer.elapsed_s() < kLongestRounds); ++r) {
    const network::CallTimes a = f32_.runs->call(), b = made.runs->call();
    before.push_back(a.steps.empty() ? a.total : sum_where(a.steps, replaced));
    after.push_back(b.steps.empty() ? b.total : sum_where(b.steps, instead));
  }
  return median_of(before) - median_of(after);
}

NetworkTimes PrecisionMeter::race(const Made& made) const {
  if (measured())
    return network::duel([&](size_t i) { return (i == 0 ? f32_ : made).runs->call().total; },
                         kMostOfLast, kSeed, {});
  NetworkTimes times;
  times.static_seconds = options_.time ? options_.time(f32_.network) : estimated_seconds();
  times.best_seconds = times.static_seconds - gain(made);
  times.verdict =
      times.best_seconds < times.static_seconds ? RaceResult::Faster : RaceResult::NotProven;
  return times;
}

}  // namespace heddle::quantize
