// A declaration as JSON: what another process, or another machine, needs to schedule, compile and
// check the same computation. Schedules, which have a JSON form of their own, replay on it.
//
//   const Json text = declaration_to_json(dag, {A, B, C});
//   const Declaration same = declaration_from_json(text);
//   build(Schedule::from_json(steps, same.dag), same.args);
//
// What is read is a declaration of its own (other tensors, axes and buffers) that is exactly like
// the one written: equal in structural hash, in printed text, in what every pass makes of it, and
// so in its results. Tensors, axes and operations keep the order in which they were made, since
// passes put the terms of sums in that order. Left out are the lines of the user's source that
// messages name.
//
// The form, version 1. Operations, axes and reducers are numbered by their place in their list, and
// nodes by the order in which they appear in all operations; a number always points backwards.
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
//      "alternative": {"name", "direct": outputs, "placeholders": [[theirs, ours]...]}   (optional)
//   }}
//
// A node is ["int", type, value], ["float", type, value or the digits of its bits], ["axis", axis],
// ["lhs" or "rhs", component] (in reducers), ["cast", type, node], ["unary", operator, node],
// ["binary", operator, node, node], ["select", node, node, node],
// ["load", operation, output, [node...]] or ["reduce", reducer, [node...], [axis...], component].
// What several expressions share is written once.
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

/// `dag` with `args`: placeholders, and tensors of the graph, in call order; of an alternative
/// (dag/alternatives.h) those of the declaration that it was made of, which is written as well.
/// Throws a User error for what has no such form: an expression nested deeper than 4000 levels, an
/// argument that is computed elsewhere.
Json declaration_to_json(const ComputeDag& dag, const std::vector<Tensor>& args = {});

/// The declaration that was written. Everything is checked as if it had been declared in this
/// process, so that text from anywhere can be read: throws a User error that says what is wrong and
/// where.
Declaration declaration_from_json(const Json& json);

}  // namespace heddle
