// What may be read in vain.
#pragma once

#include <unordered_map>

#include "heddle/ir/simplify.h"

namespace heddle {

/// Whether every index of `load` is proved to lie inside of its buffer, whatever conditions are
/// around it: to read it where it is not needed costs time and nothing else.
bool stays_inside(const Load& load, const Ranges& ranges);

/// Nodes of the tree that the graph `e` stands for; those of shared nodes are left in `of_shared`.
using TreeSizes = std::unordered_map<const ExprNode*, double>;
double tree_size(const Expr& e, TreeSizes& of_shared);

/// The shared nodes that both `a` and `b` compute in any case (not in an arm of a select, nor
/// behind
/// && or ||), operands first. `known`: what is computed already, and not looked into.
std::vector<Expr> computed_by_both(const Expr& a, const Expr& b,
                                   FunctionRef<bool(const Expr&)> known);

/// Whether that tree is so large that no part of it may be computed once for each of its readers.
bool is_large_tree(const Expr& e);

}  // namespace heddle
