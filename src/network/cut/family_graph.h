// The passes on a network over dimensions (dsl/dim.h). Passes see numbers: they run on the network
// at two sizes of each dimension, and what their results have in common is the graph.
#pragma once

#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/dag/instance.h"
#include "heddle/network/passes.h"
#include "heddle/target/target.h"

namespace heddle::network {

/// A network over dimensions after the passes.
struct FamilyGraph {
  ComputeDag dag;                ///< over the dimensions; its placeholders are those declared
  std::vector<SizeValue> usual;  ///< the sizes that passes and cuts are decided at
};

/// A pass that makes another graph at another size is left out, and concat_in_place is, because
/// offsets would depend on the size. `log` then says so.
FamilyGraph family_graph(const ComputeDag& declared, const Target& target,
                         const PassOptions& passes, std::vector<PassApplication>& log);

}  // namespace heddle::network
