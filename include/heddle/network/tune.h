// Tuning a network until there is a plan of it: what `heddle tune MODEL` and Python's Network.tune do.
//
//   TunedNetwork tuned = tune_network(net, {.budget = 60s, .log = "net.jsonl"}, {.plan_file = "net.heddle"});
//   save_merged_plan(plan_of(tuned), "net.heddle");
//   NetworkKernel run = tuned.network.build(args, tuned.report);
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heddle/network/plan.h"

namespace heddle {

/// Options of tune_network, beside those of its tasks.
struct NetworkTuneOptions {
  /// A plan to go on from, where the file exists: its choices about the graph, which are not tried
  /// again where it says that all were, and its schedules, which stand unless the final race proves
  /// that others are faster (TuneOptions::standing) and get into the log. Empty: none.
  std::string plan_file = {};
  bool plan_of_others = false;  ///< the plan may be of another declaration
  /// The dimensions of a network over ranges of sizes. Its kernels race at several sizes after
  /// tuning, in 0.15 of the budget, and are recorded in the log. Empty: no race of sizes.
  std::vector<Dim> dims = {};
  /// Of that race; `race_seconds` is set.
  KernelRaceOptions sizes = {};
  /// Whether calls of the whole network are timed in this process. Without it nothing is tried about
  /// the graph, and each task is raced by itself.
  bool race_here = true;
  std::string subject =
      {};  ///< in records of choices about the graph; empty: the first output's name
  /// Tunes the tasks; empty: tune_tasks.
  std::function<TuneReport(std::vector<TuneTask>, const TuneOptions&)> tune_tasks = {};
  /// Called before the tasks are tuned, with the network that they are of and what was tried about
  /// its graph.
  std::function<void(const Network&, const PassChoice&)> chosen = {};
  /// Called before the kernels race at several sizes.
  std::function<void()> racing_sizes = {};
};

/// What tune_network found.
struct TunedNetwork {
  Network network;          ///< with the choices about its graph that were taken
  PassChoice choices = {};  ///< what was tried about the graph; without trials where nothing was
  /// All choices about the graph were tried, now or for the plan that tuning went on from.
  bool choices_proven = false;
  TuneReport report = {};                 ///< of the tasks of `network`
  std::vector<TaskKernels> kernels = {};  ///< of the race of sizes
};

/// Tunes a network: the choices about its graph (tune_passes), then the tasks of the network with
/// what was taken, which all race in it (make_network_race), then kernels at several sizes. Progress
/// and cancelling are those of `options`; a cancelled run returns what it has. Throws a User error
/// for a plan of another target or, without `plan_of_others`, of another declaration, and for a
/// budget of nothing.
TunedNetwork tune_network(const Network& network, const TuneOptions& options = {},
                          const NetworkTuneOptions& how = {});

/// Races the schedules and the runners-up of the plan of a network (Network::planned) against the
/// rules' choices, in calls of the whole, as the end of tuning does. Nothing is searched, so that a
/// plan of another machine or number of threads is settled here in a part of the time. `dims` are the
/// dimensions of a network over ranges of sizes, whose kernels race at several sizes
/// (choose_kernels). The race takes about `seconds`; `clock` may end that of a network of constant
/// extents. Throws a User error for a network without a plan, for other dimensions, and for a target
/// that does not run here.
TunedNetwork retune(const Network& planned, double seconds, const TuneClock& clock,
                    const std::vector<Dim>& dims = {});

/// The plan of what was found, with the good schedules of the log of tuning as runners-up.
NetworkPlan plan_of(const TunedNetwork& tuned);

}  // namespace heddle
