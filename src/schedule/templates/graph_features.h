// The features of a graph for the heuristics of alternatives.
#pragma once

#include "heddle/dag/compute_dag.h"
#include "heddle/schedule/choice.h"

namespace heddle {

/// Facts of `stage`, which rules rewrite, and of the machine.
NamedFeatures graph_features(const ComputeDag& dag, const Target& target, int stage);

}  // namespace heddle
