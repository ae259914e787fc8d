// Networks that settle unsure choices in real calls (Network::build_settling).
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <map>
#include <optional>

#include "driver/second_choice.h"
#include "family/blocks.h"
#include "heddle/driver/build_multi.h"
#include "heddle/network/plan.h"
#include "heddle/support/error.h"
#include "network/cut/kernel_records.h"
#include "network/cut/task_schedules.h"
#include "network/run/network_kernel_impl.h"
#include "network/run/output_difference.h"
#include "network/run/pick_records.h"
#include "runtime/dispatch/pick_log.h"
#include "support/hashing/hex.h"

namespace heddle {
namespace {

/// The schedule that may be as fast as `standing`, the one that build() takes for a task; none where
/// that is sure.
std::optional<Schedule> second_of(const Network& network, size_t task, const Schedule& standing) {
  const Template& tmpl = network.tasks()[task].tmpl;
  std::optional<Schedule> second;
  if (!network::families_of(network)[task].planned) {
    second = driver::second_choice(tmpl);
  } else {
    const NetworkPlan& plan = *network.plan();
    const PlannedNode& node = *plan.find(network::declaration_hash(network, task));
    const bool raced_here = node.proof == PlanProof::Race && plan.target == tmpl.target() &&
                            node.machine == pick_origin().machine;
    if (!raced_here) second = tmpl.static_schedule();
  }
  if (second && family::identity(*second) == family::identity(standing)) return std::nullopt;
  return second;
}

std::string key_of(const std::vector<Schedule>& variants) {
  std::string text = "step\n" + to_string(variants[0].target()) + "\n";
  for (const Schedule& s : variants)
    text += std::to_string(s.dag().direct().structural_hash()) + " " + s.to_json().dump() + "\n";
  return key_of_text(text);
}

std::string shapes_of(const Schedule& schedule) {
  std::string text;
  for (const Tensor& t : network::task_args(schedule)) {
    text += (text.empty() ? "" : ", ") + to_string(t.dtype()) + "[";
    for (int d = 0; d < t.rank(); ++d) text += (d ? ", " : "") + std::to_string(t.extent(d));
    text += "]";
  }
  return text;
}

/// Two variants of a task: the pick as it stands before it is settled.
PickRow row_of(const Network& network, size_t task, const std::vector<Schedule>& variants) {
  const bool planned = network::families_of(network)[task].planned.has_value();
  PickRow row;
  row.kernel = network.tasks()[task].name;
  row.target = to_string(variants[0].target());
  row.shapes = shapes_of(variants[0]);
  row.key = key_of(variants);
  row.machine = pick_origin().machine;
  row.build = pick_origin().build;
  row.variants = {{planned ? "plan" : "chosen", {}, {}}, {planned ? "rule" : "second", {}, {}}};
  row.picked = row.variants[0].name;
  return row;
}

void say(const std::string& text) { std::fprintf(stderr, "heddle: %s\n", text.c_str()); }

/// The pick of an earlier process for the same two variants.
std::optional<PickRow> remembered(const PickStore* store, const PickRow& row) {
  if (!store) return std::nullopt;
  std::string problem;
  std::optional<PickRow> known = store->find(row.key, &problem);
  if (known) problem = why_invalid(*known, row.machine, row.build);
  if (!problem.empty()) say("'" + row.kernel + "': " + problem);
  const bool named = known && std::any_of(row.variants.begin(), row.variants.end(),
                                          [&](auto& v) { return v.name == known->picked; });
  if (!named || !problem.empty()) return std::nullopt;
  known->reason = PickReason::Remembered;
  return known;
}

/// `records`: what was timed, for the log.
void remember(const PickStore* store, const PickRow& row, Json records) {
  PickRow logged = row;
  logged.records = std::move(records);
  log_pick(logged, "", say);
  if (!store) return;
  try {
    store->remember(row);
  } catch (const Error& e) {
    say("a pick is not remembered: " + e.message);
  }
}

/// The steps whose second variant computes what the first one does, in calls of the whole network
/// on random inputs.
std::vector<size_t> steps_that_agree(const Network& network, const NetworkKernel& kernel,
                                     Program& program, const std::vector<size_t>& steps) {
  const bool on_gpu = network.tasks()[0].tmpl.target().is_cuda();
  const std::vector<NDArray> arrays =
      network::random_arrays(kernel, {}, on_gpu ? Device::cuda() : Device::cpu());
  const network::StateCopies states(kernel.updated(), arrays);
  std::vector<NDArray> results;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (kernel.args()[i].output) results.push_back(arrays[i]);
  }
  for (const size_t i : kernel.updated()) results.push_back(arrays[i]);
  const auto results_at = [&](uint64_t seed) {
    network::randomise_inputs(kernel, arrays, seed);
    states.restore();
    kernel.call(arrays);
    return network::host_copies(results);
  };
  constexpr uint64_t kSeed = 1, kOtherSeed = 1000;
  const std::vector<NDArray> want = results_at(kSeed);
  std::vector<size_t> agree;
  for (const size_t s : steps) {
    results_at(kOtherSeed);
    program.force(s, 1);
    const std::string wrong =
        network::output_difference(network.outputs(), results_at(kSeed), want);
    program.force(s, -1);
    if (wrong.empty()) {
      agree.push_back(s);
    } else {
      say("the second variant of '" + program.parts().steps[s].name + "' is dropped: " + wrong);
    }
  }
  // What was prepared of random constants.
  if (std::any_of(kernel.args().begin(), kernel.args().end(),
                  [](const KernelArg& a) { return a.constant; }))
    kernel.refresh();
  return agree;
}

}  // namespace

NetworkKernel Network::build_settling(const std::vector<Tensor>& args,
                                      const SettleOptions& options) const {
  if (!sizes().empty())
    throw_user_error("choices are settled for one size, and the network is over ranges", {},
                     "give its dimensions one size each, or race the kernels of the range: "
                     "choose_kernels");
  // Trials time each step once in a call.
  if (!loops().empty()) return build(args);
  std::vector<network::TaskVariants> variants = network::usual_variants(*this);
  for (size_t t = 0; t < variants.size(); ++t) {
    std::optional<Schedule> second = second_of(*this, t, variants[t].schedules[0]);
    if (second) variants[t].schedules.push_back(*std::move(second));
  }
  NetworkKernel kernel = build(args, variants);
  NetworkKernel::Impl& impl = kernel.impl();
  std::vector<size_t> unsure, open;
  for (size_t s = 0; s < impl.steps().size(); ++s) {
    if (impl.steps()[s].variants.size() == 2) unsure.push_back(s);
  }
  if (unsure.empty()) return kernel;
  auto picks = std::make_shared<StepPicks>();
  std::map<size_t, std::function<Json(const PickRow&)>> records;
  for (const size_t s : steps_that_agree(*this, kernel, impl.program, unsure)) {
    const auto task = static_cast<size_t>(nodes()[static_cast<size_t>(impl.nodes[s][0])].task);
    PickRow row = row_of(*this, task, variants[task].schedules);
    if (std::optional<PickRow> known = remembered(options.store.get(), row)) {
      impl.program.pick(s, known->picked == row.variants[1].name ? 1 : 0);
      row = *std::move(known);
    } else {
      open.push_back(s);
      const size_t of_rule = network::families_of(*this)[task].planned ? 1 : 0;
      records[s] = [one = tasks()[task], timed = variants[task].schedules,
                    of_rule](const PickRow& settled) {
        return network::pick_records(one, timed, settled, of_rule);
      };
    }
    picks->rows.emplace(s, std::move(row));
  }
  impl.picks = picks;
  TrialOptions trials{.time = options.time};
  trials.settled = [picks, records, store = options.store](
                       size_t step, size_t winner,
                       const std::vector<std::vector<double>>& seconds) {
    const std::lock_guard lock(picks->mutex);
    PickRow& row = picks->rows.at(step);
    for (size_t v = 0; v < seconds.size(); ++v) row.variants[v].seconds = seconds[v];
    row.picked = row.variants[winner].name;
    row.reason = PickReason::Measured;
    row.unix_time = static_cast<int64_t>(std::time(nullptr));
    remember(store.get(), row, records.at(step)(row));
  };
  impl.program.settle(open, std::move(trials));
  return kernel;
}

std::vector<PickRow> NetworkKernel::picks() const {
  std::vector<PickRow> rows;
  if (!impl().picks) return rows;
  const std::lock_guard lock(impl_->picks->mutex);
  for (const auto& [step, row] : impl_->picks->rows) rows.push_back(row);
  return rows;
}

}  // namespace heddle
