// A declaration as JSON, so that another process or machine can schedule, compile and check the
// same computation. Schedules have a JSON form of their own and replay on it.
//
//   const Json text = declaration_to_json(dag, {A, B, C});
//   const Declaration same = declaration_from_json(text);
//   build(Schedule::from_json(steps, same.dag), same.args);
//
// Reading gives a new declaration, with other tensors, axes and buffers, that is exactly like the
// one that was written. It is equal in structural hash, in printed text, in the output of every
// pass, and therefore in its results. Tensors, axes and operations keep the order in which they
// were made, because passes sort the terms of sums in that order. The lines of the user's source
// that messages name are left out.
//
// The form, version 1. Operations, axes and reducers are numbered by their place in their list, and
// nodes by the order in which they appear in all operations. A number always refers to an earlier
// entry.
//
//   {"format": "heddle-declaration", "version": 1,
//    "checksum": of "declaration", "structural_hash": of the graph (hexadecimal digits),
//    "declaration": {
//      "axes": [[name, extent, "spatial" or "reduce"], ...],
//      "reducers": [{"builtin": "sum"} or
//                   {"name", "commutative", "types", "identity": [node...], "nodes", "result"},
//                   ...],
//      "operations": [{"placeholder": name, "type", "shape", "constant"} or
//                     {"compute": name, "tag", "axes", "nodes": [node...], "bodies"}, ...],
//      "outputs": [[operation, output], ...], "args": [[operation, output], ...],
//      "sizes": [[name, smallest, largest], ...]   (where extents are symbolic, dsl/dim.h)
//      "alternative": {"name", "direct": outputs, "placeholders": [[theirs, ours]...]}   (optional)
//   }}
//
// An extent is a number, or [constant, [size, factor]...] for a sum of sizes. A node may be
// ["size", size]. Another node is ["int", type, value], ["float", type, value or the digits of its
// bits], ["axis", axis],
// ["lhs" or "rhs", component] (in reducers), ["cast", type, node], ["unary", operator, node],
// ["binary", operator, node, node], ["select", node, node, node], ["load", operation, output,
// [node...]] or ["reduce", reducer, [node...], [axis...], component]. Nodes that several
// expressions share are written once.
#pragma once

#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/support/json.h"

namespace heddle {

/// A graph, and the order in which its kernels take their arguments.
struct Declaration {
  ComputeDag dag;
  std::vector<Tensor> args;
};

/// Writes `dag` with `args`: placeholders and tensors of the graph in call order. For an
/// alternative (dag/alternatives.h) these are those of the original declaration, which is written
/// as well. Throws a User error where there is no such form: for an expression nested deeper than
/// 4000 levels, or an argument that is computed in another graph.
Json declaration_to_json(const ComputeDag& dag, const std::vector<Tensor>& args = {});

/// The declaration that was written. Everything is checked as if it had been declared in this
/// process, so that text from anywhere can be read: throws a User error that says what is wrong and
/// where.
Declaration declaration_from_json(const Json& json);

}  // namespace heddle
