#include <algorithm>

#include "family/blocks.h"
#include "family/points.h"
#include "family/result.h"
#include "heddle/network/plan.h"
#include "heddle/network/size_kernels.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "network/cut/check_network.h"
#include "network/cut/kernel_records.h"
#include "network/cut/task_schedules.h"
#include "network/race/call_timer.h"
#include "network/sizes/family_candidates.h"
#include "network/sizes/size_race.h"
#include "network/sizes/whole_size_choice.h"

namespace heddle {
namespace {

using network::TaskFamily;
using network::TaskVariants;
using Trees = std::vector<family::Kept>;  // by task; empty for tasks of constant extents

/// The share of the race for calls of the whole network with the chosen kernels.
constexpr double kShareOfWhole = 0.25;
/// At sizes where the kernels that stand win, others count as this much slower.
constexpr double kLost = 1.25;

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

std::vector<SizeValue> values_at(const std::vector<Dim>& dims, const FamilyPoint& p) {
  std::vector<SizeValue> values;
  for (size_t i = 0; i < dims.size(); ++i) values.emplace_back(dims[i], p.sizes[i]);
  return values;
}

/// The sizes of the race that calls take.
std::vector<FamilyPoint> points_of(const Network& network, const std::vector<Dim>& dims,
                                   const KernelRaceOptions& options) {
  std::vector<FamilyPoint> all = family::race_points(dims, family_options(options, dims.size()));
  std::erase_if(all,
                [&](const FamilyPoint& p) { return !network::takes(network, values_at(dims, p)); });
  if (all.empty())
    throw_user_error("at all sizes of the race a call updates rows that its state does not have",
                     {}, "give a histogram of sizes whose rows fit into the states");
  return all;
}

class Chooser {
 public:
  Chooser(const Network& network, const std::vector<Dim>& dims, const KernelRaceOptions& options,
          const std::vector<Schedule>& schedules)
      : network_(network),
        dims_(dims),
        options_(options),
        points_(points_of(network, dims, options)) {
    add_candidates(schedules);
  }

  std::vector<TaskKernels> run() {
    std::vector<TaskVariants> all(network_.tasks().size());
    size_t count = 0;
    for (size_t t = 0; t < all.size(); ++t) {
      for (const FamilyVariant& v : candidates_[t]) all[t].schedules.push_back(v.schedule);
      all[t].tree = {TreeNode{}};
      count += candidates_[t].size();
    }
    say("compiling " + std::to_string(count) + " kernels");
    const ScopedThreads threads(network::race_threads(network_.tasks()[0].tmpl.target()));
    const network::SizeRace race(network_, all);
    std::vector<std::vector<family::Raced>> raced(all.size());
    for (const FamilyPoint& p : points_) add_times(race, p, raced);
    for (size_t t = 0; t < all.size(); ++t)
      candidates_[t].erase(candidates_[t].begin() + static_cast<long>(race.counts()[t]),
                           candidates_[t].end());
    Trees trees = fastest(race, raced);
    std::vector<TaskKernels> chosen;
    for (size_t t = 0; t < all.size(); ++t) {
      if (!over_sizes(t)) continue;
      chosen.push_back(
          {static_cast<int>(t), network::family_name(network_, t), std::move(trees[t].result)});
    }
    return chosen;
  }

 private:
  using Times = std::vector<std::vector<family::Raced>>;  // by task and point
  /// Kernels that stand unless others are faster: positions of candidates, and a tree of places
  /// there.
  struct Standing {
    std::vector<int> which;
    SizeTree tree;
  };

  bool over_sizes(size_t task) const {
    return !network::families_of(network_)[task].outputs.empty();
  }

  void add_candidates(const std::vector<Schedule>& schedules) {
    const std::span<const Schedule> given = schedules;
    const std::span<const TuneTask> tasks = network_.tasks();
    const std::vector<Schedule> untuned = network::chosen_schedules(network_.tasks());
    const std::span<const Schedule> statics = untuned;
    candidates_.resize(tasks.size());
    standing_.resize(tasks.size());
    for (size_t t = 0; t < tasks.size(); ++t) {
      const TaskFamily& f = network::families_of(network_)[t];
      if (!f.outputs.empty()) {
        candidates_[t] = network::family_candidates(f, given.subspan(t, f.count),
                                                    tasks.subspan(t, f.count), dims_);
        add_planned(t);
        add_standing(t, statics.subspan(t, f.count), tasks.subspan(t, f.count));
      } else if (f.count > 0) {
        candidates_[t].push_back({"all sizes", {}, schedules[t]});
      }
    }
  }

  /// Puts the kernels of the network's plan in front, where they are others.
  void add_planned(size_t t) {
    const TaskFamily& f = network::families_of(network_)[t];
    if (!f.planned) return;
    std::vector<FamilyVariant>& all = candidates_[t];
    std::ptrdiff_t in_front = 0;
    for (const Schedule& s : f.planned->schedules) {
      const std::string steps = family::identity(s);
      if (std::none_of(all.begin(), all.end(), [&](const FamilyVariant& v) {
            return family::identity(v.schedule) == steps;
          }))
        all.insert(all.begin() + in_front++, {"planned", {}, s});
    }
  }

  /// Finds what stands unless others are faster: the kernels of a plan for this target, or those of a
  /// build without a race.
  void add_standing(size_t t, std::span<const Schedule> statics, std::span<const TuneTask> tasks) {
    const TaskFamily& f = network::families_of(network_)[t];
    standing_[t] = placed(t, network::variants_for_all_sizes(f, statics, tasks),
                          network::family_candidates(f, statics, tasks, dims_));
    const bool planned_here = network_.plan() && network_.plan()->target == tasks[0].tmpl.target();
    if (f.planned && planned_here) standing_[t] = placed(t, *f.planned, {});
  }

  /// Finds kernels among the candidates of a task, and puts those that are not there and that are
  /// `named` in front. Nothing where one is neither.
  Standing placed(size_t t, const TaskVariants& variants, const std::vector<FamilyVariant>& named) {
    Standing out;
    const auto at = [](const std::vector<FamilyVariant>& list, const std::string& steps) {
      return std::find_if(list.begin(), list.end(), [&](const FamilyVariant& v) {
        return family::identity(v.schedule) == steps;
      });
    };
    std::vector<FamilyVariant>& all = candidates_[t];
    std::ptrdiff_t in_front = 0;
    for (const Schedule& s : variants.schedules) {
      const std::string steps = family::identity(s);
      if (at(all, steps) != all.end()) continue;
      const auto found = at(named, steps);
      if (found == named.end()) return {};  // it cannot race
      FamilyVariant added = *found;
      added.name += ", untuned";
      all.insert(all.begin() + in_front++, std::move(added));
    }
    for (const Schedule& s : variants.schedules)
      out.which.push_back(static_cast<int>(at(all, family::identity(s)) - all.begin()));
    out.tree = variants.tree;
    for (TreeNode& node : out.tree) {
      for (size_t d = 0; node.feature >= 0 && d < dims_.size(); ++d) {
        if (!dims_[d].variable().same_as(network_.sizes()[static_cast<size_t>(node.feature)]))
          continue;
        node.feature = static_cast<int>(d);
        break;
      }
    }
    return out;
  }

  /// The trees with the least expected time in whole calls: those of the race of each task, those
  /// with what stands at the sizes where it wins, or those that stand.
  Trees fastest(const network::SizeRace& race, const Times& raced) const {
    Trees chosen = kept(raced);
    const auto most = static_cast<size_t>(std::max(1, options_.max_kernels));
    Trees standing(raced.size());
    bool fits = true;
    for (size_t t = 0; t < raced.size(); ++t) {
      if (!over_sizes(t)) continue;
      const Standing& s = standing_[t];
      const size_t count = candidates_[t].size();
      if (s.which.empty() ||
          static_cast<size_t>(*std::max_element(s.which.begin(), s.which.end())) >= count)
        return chosen;
      fits = fits && s.which.size() <= most;
      standing[t] = family::keep(dims_, candidates_[t], points_, raced[t], s.which, s.tree);
    }
    std::vector<const Trees*> rivals = {&standing, &chosen};
    network::WholeCalls calls = whole_calls(race, rivals);
    const std::vector<bool> lost = network::not_faster_at(calls, 1);
    Trees mixed;
    if (std::find(lost.begin(), lost.end(), true) != lost.end()) {
      mixed = kept(raced, &standing, lost);
      rivals.push_back(&mixed);
      calls = whole_calls(race, rivals);
    }
    std::vector<double> weights;
    for (const FamilyPoint& p : points_) weights.push_back(p.weight);
    const size_t best = network::best_rival(calls, weights);
    if (best == 0 && !fits) return mixed.empty() ? chosen : mixed;
    const char* words[] = {"what it had", "the chosen kernels",
                           "the chosen kernels, and what it had at some sizes"};
    say(std::string("fastest in calls of the whole network: ") + words[best]);
    return *rivals[best];
  }

  /// The kernels of each task, where those of `standing` run at the sizes `lost`.
  Trees kept(const Times& raced, const Trees* standing = nullptr,
             const std::vector<bool>& lost = {}) const {
    Trees trees(raced.size());
    for (size_t t = 0; t < raced.size(); ++t) {
      if (!over_sizes(t)) continue;
      std::vector<family::Raced> times = raced[t];
      for (size_t p = 0; p < lost.size(); ++p) {
        if (!lost[p]) continue;
        const auto own = static_cast<size_t>(pick(*standing, t, p));
        for (size_t c = 0; c < times[p].seconds.size(); ++c) {
          double& s = times[p].seconds[c];
          if (c != own) s = std::max(s, kLost * times[p].seconds[own]);
        }
      }
      const int most = std::max(1, options_.max_kernels);
      family::Kept k = family::keep_best(dims_, candidates_[t], points_, times, most);
      trees[t] = family::keep(dims_, candidates_[t], points_, raced[t], k.candidates,
                              std::move(k.result.tree));
    }
    return trees;
  }

  /// The candidate of a task that runs at a point.
  static int pick(const Trees& trees, size_t task, size_t point) {
    const family::Kept& k = trees[task];
    if (k.candidates.empty()) return 0;
    return k.candidates[static_cast<size_t>(k.result.rows[point].variant)];
  }

  network::WholeCalls whole_calls(const network::SizeRace& race,
                                  const std::vector<const Trees*>& rivals) const {
    const double seconds =
        kShareOfWhole * options_.race_seconds / static_cast<double>(points_.size());
    network::WholeCalls calls;
    for (size_t p = 0; p < points_.size(); ++p) {
      std::vector<std::vector<size_t>> picks(rivals.size());
      for (size_t r = 0; r < rivals.size(); ++r) {
        for (size_t t = 0; t < candidates_.size(); ++t)
          picks[r].push_back(static_cast<size_t>(pick(*rivals[r], t, p)));
      }
      calls.push_back(race.whole_at(values_at(dims_, points_[p]), picks, seconds));
    }
    return calls;
  }

  void add_times(const network::SizeRace& race, const FamilyPoint& p,
                 std::vector<std::vector<family::Raced>>& raced) const {
    const std::vector<SizeValue> values = values_at(dims_, p);
    std::string text;
    for (size_t i = 0; i < dims_.size(); ++i) {
      text += (i ? ", " : "") + dims_[i].name() + " = " + std::to_string(p.sizes[i]);
    }
    const std::vector<std::vector<double>> seconds = race.at(
        values, (1 - kShareOfWhole) * options_.race_seconds / static_cast<double>(points_.size()));
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
  std::vector<Standing> standing_;                      ///< by task
};

}  // namespace

std::vector<TaskKernels> choose_kernels(const Network& network, const std::vector<Dim>& dims,
                                        const KernelRaceOptions& options,
                                        const std::vector<Schedule>& schedules) {
  check(network, dims);
  if (!schedules.empty()) network::check_schedules(network.tasks(), schedules);
  return Chooser(network, dims, options,
                 schedules.empty() ? network::chosen_schedules(network.tasks()) : schedules)
      .run();
}

}  // namespace heddle
