// What Network holds, for the folders of `network`: network/run/network.cpp defines its functions.
#pragma once

#include <memory>
#include <vector>

#include "heddle/dag/instance.h"
#include "heddle/network/network.h"
#include "network/cut/cut_network.h"
#include "network/cut/sizes/family_tasks.h"

namespace heddle {

struct Network::Impl {
  Impl(std::vector<Tensor> outputs, const Target& t, const AutoSchedulerOptions& o,
       const PassOptions& p, Updates u)
      : declared(std::move(outputs)),
        updates(std::move(u)),
        target(apply_options(t, o)),
        options(o),
        passes(p),
        sizes(sizes_of(declared.outputs())),
        cut(network::cut_network(declared, target, passes, updates)) {}

  /// A network with the choices about its graph that the records hold for this limit of memory; null
  /// where there are none, or they do not fit any more.
  static std::shared_ptr<Impl> of_records(const std::vector<Tensor>& outputs, const Target& target,
                                          const AutoSchedulerOptions& options, int64_t memory,
                                          const Updates& updates);

  /// A network with the choices about its graph of a plan, before its tasks are made. Where they do
  /// not fit, it has the usual ones, and `use` says so.
  static std::shared_ptr<Impl> of_plan(const std::vector<Tensor>& outputs, const Target& target,
                                       const AutoSchedulerOptions& options, const Updates& updates,
                                       const std::string& passes, PlanUse& use);

  ComputeDag declared;  ///< of the outputs, those of updates last
  Updates updates;
  Target target;  ///< as the options limit it
  AutoSchedulerOptions options;
  PassOptions passes;
  std::vector<Var> sizes;   ///< that calls give; empty: all extents are constant
  network::CutNetwork cut;  ///< its nodes are moved to `tasks` and `nodes`
  std::vector<TuneTask> tasks;
  std::vector<NetworkNode> nodes;
  std::vector<network::TaskFamily> families;  ///< one for each entry of `tasks`
  std::shared_ptr<const NetworkPlan> plan;    ///< null: records and rules choose
  std::shared_ptr<const PlanUse> plan_use;    ///< what was taken from the plan

  /// Makes `tasks`, `nodes` and `families` of the nodes of `cut`.
  void make_tasks();
  /// The task of a node, which is several where it depends on the sizes.
  struct NodeTasks {
    std::vector<TuneTask> tasks;
    network::TaskFamily family;
  };
  NodeTasks tasks_of(const network::ExtractedNode& node) const;
  void add_tasks(NodeTasks made);
  std::vector<double> calls_of_nodes() const;
  void name_outputs();
  std::string loops_text() const;
  std::string kernels_text() const;
};

}  // namespace heddle
