// A network after its passes, cut into nodes: all that can be said about it before kernels are
// chosen.
#pragma once

#include <utility>
#include <vector>

#include "heddle/dag/instance.h"
#include "heddle/network/network.h"
#include "network/fusion/extract.h"
#include "network/fusion/search_plan.h"
#include "network/passes/choice_list.h"

namespace heddle::network {

struct CutNetwork {
  ChoiceList choices;  ///< those that were asked for
  std::vector<PassApplication> changes;
  std::vector<SizeValue> usual;  ///< of a network over dimensions: where it was decided
  ComputeDag dag;                ///< after the passes
  FusionPlan plan;               ///< for `dag`, or for it at the usual sizes
  PlanAnswers searched;          ///< of the plan, where they differ from the rules'
  std::vector<TensorPlace> places;
  std::vector<ExtractedNode> nodes;
  std::vector<StatePlace> states = {};  ///< of updates
  std::vector<size_t> copied = {};  ///< the outputs of updates that are copied at the end of a call
  std::vector<NetworkLoop> loops = {};  ///< nodes of each
  std::vector<double> runs =
      {};  ///< of nodes that end at each stage of `dag`; empty: each runs once
  /// Tensors beside those of the graph: results of second runs of nodes, with those of the first,
  /// and slices, with the tensors that they are slices of.
  std::vector<std::pair<Tensor, Tensor>> again = {};
};

/// A network over dimensions has the choices of its usual sizes. What loops read and write is among the
/// outputs, behind those of `declared`.
CutNetwork cut_network(const ComputeDag& declared, const Target& target, const PassOptions& passes,
                       const Updates& updates = {});

/// The hash of the declaration of each node.
std::vector<uint64_t> node_hashes(const CutNetwork& network);

}  // namespace heddle::network
