#include <algorithm>

#include "driver/family_points.h"
#include "driver/family_result.h"
#include "heddle/network/size_kernels.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "network/call_timer.h"
#include "network/check_network.h"
#include "network/family_candidates.h"
#include "network/kernel_records.h"
#include "network/size_race.h"
#include "network/task_schedules.h"

namespace heddle {
namespace {

using network::TaskFamily;
using network::TaskVariants;

void check(const Network& network, const std::vector<Dim>& dims) {
  if (network.sizes().empty())
    throw_user_error("a network of constant extents has one kernel for each node", {},
                     "give a dimension a range: import_onnx with OnnxOptions::ranges, or dim()");
  const Target& target = network.tasks()[0].tmpl.target();
  if (target.is_cuda() && !target.runs_here())
    throw_user_error("kernels for " + to_string(target) + " do not race on this machine", {},
                     "race them on one that has such a GPU");
  const bool same = dims.size() == network.sizes().size() &&
                    std::all_of(network.sizes().begin(), network.sizes().end(), [&](const Var& v) {
                      return std::any_of(dims.begin(), dims.end(),
                                         [&](const Dim& d) { return d.variable().same_as(v); });
                    });
  if (!same)
    throw_user_error("the dimensions are not those of the network", {},
                     "list each dimension of its inputs once, in the order of the sizes of the "
                     "histogram");
}

FamilyOptions family_options(const KernelRaceOptions& o, size_t dims) {
  constexpr int kPointsOfOne = 4, kPointsOfMore = 2;
  FamilyOptions out;
  out.points = o.points > 0 ? o.points : dims == 1 ? kPointsOfOne : kPointsOfMore;
  out.histogram = o.histogram;
  return out;
}

class Chooser {
 public:
  Chooser(const Network& network, const std::vector<Dim>& dims, const KernelRaceOptions& options,
          const std::vector<Schedule>& schedules)
      : network_(network),
        dims_(dims),
        options_(options),
        points_(family::race_points(dims, family_options(options, dims.size()))) {
    add_candidates(schedules);
  }

  std::vector<TaskKernels> run() {
    std::vector<TaskVariants> all(network_.tasks().size());
    size_t count = 0;
    for (size_t t = 0; t < all.size(); ++t) {
      for (const FamilyVariant& v : candidates_[t]) all[t].schedules.push_back(v.schedule);
      all[t].tree = {SizeTreeNode{}};
      count += candidates_[t].size();
    }
    say("compiling " + std::to_string(count) + " kernels");
    const ScopedThreads threads(network::race_threads(network_.tasks()[0].tmpl.target()));
    const network::SizeRace race(network_, all);
    std::vector<std::vector<family::Raced>> raced(all.size());
    for (const FamilyPoint& p : points_) add_times(race, p, raced);
    std::vector<TaskKernels> chosen;
    for (size_t t = 0; t < all.size(); ++t) {
      if (network::families_of(network_)[t].outputs.empty()) continue;
      candidates_[t].erase(candidates_[t].begin() + static_cast<long>(race.counts()[t]),
                           candidates_[t].end());
      family::Kept kept = family::keep_best(dims_, candidates_[t], points_, raced[t],
                                            std::max(1, options_.max_kernels));
      chosen.push_back(
          {static_cast<int>(t), network::family_name(network_, t), std::move(kept.result)});
    }
    return chosen;
  }

 private:
  void add_candidates(const std::vector<Schedule>& schedules) {
    const std::span<const Schedule> given = schedules;
    const std::span<const TuneTask> tasks = network_.tasks();
    candidates_.resize(tasks.size());
    for (size_t t = 0; t < tasks.size(); ++t) {
      const TaskFamily& f = network::families_of(network_)[t];
      if (!f.outputs.empty()) {
        candidates_[t] = network::family_candidates(f, given.subspan(t, f.count),
                                                    tasks.subspan(t, f.count), dims_);
      } else if (f.count > 0) {
        candidates_[t].push_back({"all sizes", {}, schedules[t]});
      }
    }
  }

  void add_times(const network::SizeRace& race, const FamilyPoint& p,
                 std::vector<std::vector<family::Raced>>& raced) const {
    std::vector<SizeValue> values;
    std::string text;
    for (size_t i = 0; i < dims_.size(); ++i) {
      values.emplace_back(dims_[i], p.sizes[i]);
      text += (i ? ", " : "") + dims_[i].name() + " = " + std::to_string(p.sizes[i]);
    }
    const std::vector<std::vector<double>> seconds =
        race.at(values, options_.race_seconds / static_cast<double>(points_.size()));
    for (size_t t = 0; t < seconds.size(); ++t) {
      family::Raced r{{}, p.weight, seconds[t]};
      for (const SizeValue& v : values) r.sizes.push_back(v.value);
      raced[t].push_back(std::move(r));
    }
    say("raced at " + text);
  }

  void say(const std::string& line) const {
    if (options_.progress) options_.progress(line);
  }

  const Network& network_;
  const std::vector<Dim>& dims_;
  const KernelRaceOptions& options_;
  const std::vector<FamilyPoint> points_;
  std::vector<std::vector<FamilyVariant>> candidates_;  ///< by task
};

}  // namespace

std::vector<TaskKernels> choose_kernels(const Network& network, const std::vector<Dim>& dims,
                                        const KernelRaceOptions& options,
                                        const std::vector<Schedule>& schedules) {
  check(network, dims);
  if (!schedules.empty()) network::check_schedules(network.tasks(), schedules);
  return Chooser(network, dims, options,
                 schedules.empty() ? network::static_schedules(network.tasks()) : schedules)
      .run();
}

}  // namespace heddle
