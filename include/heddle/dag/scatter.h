// Reductions that give each source to one point: scatters, and gradients of gathers.
//
//   sum(select(place(q) == i, x(q, c), 0), q)      point (place(q), c) gets x(q, c)
//   max(select(place(q) == i, q, -1), q)           point place(q) gets the last q that names it
//
// As written, each point searches all sources. Loops over the sources alone store to places that are
// data (lower/passes/scattered_stores.cpp).
#pragma once

#include <optional>
#include <vector>

#include "heddle/dsl/tensor.h"

namespace heddle {

/// The axes of a stage that say where a source goes.
struct ScatterInfo {
  std::vector<int> axes;     ///< positions among the spatial axes of the stage, ascending
  std::vector<Expr> places;  ///< for each, what it is compared with: in terms of the other axes
  std::vector<int> columns;  ///< axes at all points of which a source has the same place, ascending
  std::vector<int> others;   ///< all other spatial axes, ascending
};

/// nullopt for all other operations.
std::optional<ScatterInfo> find_scatter(const Operation& op);

/// Whether a reduction of one result gives the same whatever the order of its sources: of integers, where it is
/// a sum, the largest or the smallest.
bool combines_in_any_order(const Expr& body);

namespace internal {

/// A source that is `value` where `condition` holds, and the constant `otherwise` elsewhere. Its select
/// may be inside of casts.
struct ChosenSource {
  Expr condition, value, otherwise;
};
std::optional<ChosenSource> chosen_source(const Expr& e);

/// The condition `condition` as equations with `vars`, each in at most one of them, and what is left:
/// null where that is nothing. Empty where no variable is given a place. Places and the rest of the
/// conditions do not use variables that have a place.
struct PlacesOf {
  std::vector<Var> vars;
  std::vector<Expr> places;
  Expr rest;
};
PlacesOf places_of(const Expr& condition, const std::vector<Var>& vars);

}  // namespace internal
}  // namespace heddle
