// The passes on a network over dimensions (dsl/dim.h). Passes see numbers: they run on the network
// at two sizes of each dimension (passes_over_sizes.h), and what their results have in common is the
// graph.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/dag/instance.h"
#include "heddle/network/passes.h"
#include "heddle/target/target.h"
#include "network/passes/choice_list.h"

namespace heddle::network {

/// A network over dimensions after the passes.
struct FamilyGraph {
  ComputeDag dag;                ///< over the dimensions; its placeholders are those declared
  std::vector<SizeValue> usual;  ///< the sizes that passes and cuts are decided at
  ChoiceList choices;            ///< as they were asked for at these sizes
  PassOptions passes;            ///< without those that are left out
};

/// A pass that makes another graph at another size is left out, and concat_in_place is, because
/// offsets would depend on the size. `log` then says so. Choices and the types of products are those that
/// PassOptions names at the usual sizes; a User error where they cannot be had at other sizes, and for
/// nodes that run again.
FamilyGraph family_graph(const ComputeDag& declared, const Target& target,
                         const PassOptions& passes, std::vector<PassApplication>& log);

/// `passes` for an instance of a declaration over dimensions, with the names that products of these types
/// have at its sizes. `at`: the graph that is cut there. Those that are no such products there have none.
PassOptions passes_at(const ComputeDag& at, const Target& target, PassOptions passes,
                      const StageTypes& types);
/// The types that `passes` names for the products of `at`.
StageTypes stage_types(const ComputeDag& at, const Target& target, const PassOptions& passes);

/// Settings of choices by the names that their stages have at the sizes `at`. `over` is the graph after
/// the passes, and the choices are named at its usual sizes.
std::map<std::string, bool> choices_at(const std::map<std::string, bool>& choices,
                                       const ComputeDag& over, const std::vector<SizeValue>& usual,
                                       const std::vector<SizeValue>& at);

}  // namespace heddle::network
