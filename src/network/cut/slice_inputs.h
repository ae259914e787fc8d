// The pass "slices_in_place": nodes that read one slice of a tensor get the slice as their input, at
// its place in the memory of the tensor. Nodes that differ in their slice alone are then one task.
//
//   gates = f32[1600, 8, 512]
//   node 4: lstm(gates(4, i, j), state 3)      a kernel for each node          (before)
//   node 5: lstm(gates(5, i, j), state 4)
//
//   node 4: lstm(s(i, j), state 3)             s lies in gates, 4 slices in    (after)
//   node 5: lstm(s(i, j), state 4)             s lies in gates, 5 slices in: one kernel
#pragma once

#include "network/cut/cut_network.h"

namespace heddle::network {

/// Changes the inputs of nodes whose reads of a tensor all have the same numbers as their first
/// indices, where another node has other numbers. The tensor is the result of a node, lies neither
/// in another nor in an argument, and has a constant shape. Slices begin where buffers may begin
/// (kArenaAlignment). Not for networks over dimensions or with updates. Adds their places to `network.places`.
void slice_inputs(CutNetwork& network);

}  // namespace heddle::network
