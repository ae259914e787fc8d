// Loads and shared nodes that may be evaluated even where their value is not needed.
#pragma once

#include <unordered_map>

#include "heddle/ir/simplify.h"

namespace heddle {

/// Whether every index of `load` is proved to lie inside of its buffer, independent of the
/// conditions around it. Reading it where its value is not needed is then safe.
bool stays_inside(const Load& load, const Ranges& ranges);

/// The number of nodes of the tree that the graph `e` stands for. `of_shared` receives the numbers
/// of the shared nodes.
using TreeSizes = std::unordered_map<const ExprNode*, double>;
double tree_size(const Expr& e, TreeSizes& of_shared);

/// The shared nodes that both `a` and `b` always compute, operands first. Nodes in an arm of a
/// select or in the right operand of a logical operator are not always computed. Nodes for which
/// `known` holds are computed already and are not entered.
std::vector<Expr> computed_by_both(const Expr& a, const Expr& b,
                                   FunctionRef<bool(const Expr&)> known);

/// Whether that tree is so large that none of its parts may be computed separately for each reader.
bool is_large_tree(const Expr& e);

}  // namespace heddle
