// Outputs that are written into the memory of inputs (Network::updates): what the graph that is cut
// has in their place, and the order of the nodes.
//
//   next = update(cache, rows, row)      the graph has the output rows, which is written into the
//   y = f(next)                          memory of cache, and y = f(cache'), where cache' is an
//                                        input in the same memory that is read after the rows are
//                                        written
//
// Rows at places that are data are an output, too, whose kernel stores them there
// (scattered_update.h). Other outputs are written into their input as they are. In both cases nodes that read the input
// itself run before.
#pragma once

#include <set>
#include <vector>

#include "heddle/dag/instance.h"
#include "heddle/network/network.h"
#include "network/fusion/extract.h"

namespace heddle::network {

/// An update as the graph that is cut has it.
struct StateWrite {
  size_t output = 0;  ///< its position among the outputs, declared and of the graph
  Tensor state;
  Tensor after = {};       ///< the input that stands for the state after the update of some rows
  Expr row = {};           ///< where these begin; not defined for other updates
  bool scattered = false;  ///< the places of the rows are data
  bool copied = false;     ///< no order of the nodes allows to write it directly
};

bool same_shape(const Tensor& a, const Tensor& b);

/// Whether kernels can access rows of `bytes` from any row on: vectors of a GPU are aligned.
bool rows_are_aligned(int64_t bytes, const Target& target);

/// The updates without loops that neither `outputs` nor new values of inputs depend on.
Updates needed_updates(const std::vector<Tensor>& outputs, Updates updates);

/// Checks the updates. The outputs, then those of the updates and what loops read and write, as far as
/// they are none of them yet.
std::vector<Tensor> with_updates(std::vector<Tensor> outputs, const Updates& updates);

/// The updates of a network over dimensions at the sizes of `here`, an instance of its outputs.
Updates updates_at(const Instance& here, const Updates& updates);

struct UpdatedGraph {
  ComputeDag graph;  ///< with as many outputs as were declared
  std::vector<StateWrite> writes;
  std::vector<PassApplication> changes = {};  ///< updates of rows that write the whole state
};

/// The graph of a network whose outputs with_updates made. The updates whose
/// outputs are in `copied` stay as they are.
UpdatedGraph updated_graph(const ComputeDag& declared, const std::vector<StateUpdate>& updates,
                           const std::vector<size_t>& copied, const Target& target);

/// The graph of a network that passes and cuts see, where the updates in `copied` are copied.
ComputeDag graph_to_cut(const std::vector<Tensor>& outputs, const std::vector<StateUpdate>& updates,
                        const Target& target, const std::vector<size_t>& copied = {});

/// Ends nodes that would go on to such an output. Rows at places that are data have a node of their own,
/// which stores each once. An element of the result of a product may be written several times, so that
/// it cannot replace what is read beside it.
void end_nodes_before(const std::vector<StateWrite>& writes, const ComputeDag& graph,
                      FusionPlan& plan);

/// For each node those that run before it: all that write what it reads, and around the writes of
/// states those that they wait for. `inside` are tensors that are parts of others.
std::vector<std::set<size_t>> runs_before(const std::vector<StateWrite>& writes,
                                          const ComputeDag& graph,
                                          const std::vector<TensorPlace>& inside,
                                          const std::vector<ExtractedNode>& nodes);

/// Brings the nodes in an order in which all that reads a state runs before what writes it. Returns
/// the writes, as outputs, for which there is none, and those whose node does not read the places of
/// its rows.
std::vector<size_t> order_by_writes(const std::vector<StateWrite>& writes, const ComputeDag& graph,
                                    const std::vector<TensorPlace>& inside,
                                    std::vector<ExtractedNode>& nodes);

/// Adds nodes that copy the results of copied writes. Returns what lies in the memory of inputs;
/// `declared` are the outputs under the names that nodes of the network have for them.
std::vector<StatePlace> place_writes(const std::vector<StateWrite>& writes, const ComputeDag& graph,
                                     const std::vector<Tensor>& declared,
                                     std::vector<ExtractedNode>& nodes);

}  // namespace heddle::network
