#include "network/fusion/lookups.h"

#include <algorithm>

#include "ir/linear.h"

namespace heddle::network {
namespace {

/// Rows that share what a tile of a product has loaded. Tiles have more, but where padding guards
/// a lookup each row makes its own. To store keys pays from 9 rows on (docs/measurements/benchmarks.md).
constexpr double kRowsOfTile = 4;

using Axes = std::vector<Axis>;

/// Adds those axes of `op` that `e` uses.
void add_used(const Operation& op, const Expr& e, Axes& used) {
  for (const Axes* axes : {&op.axes(), &op.reduce_axes()}) {
    std::ranges::copy_if(*axes, std::back_inserter(used),
                         [&](const Axis& a) { return uses_var(e, a.var()); });
  }
}

/// The axes of stage `s` that its lookups change along.
Axes axes_of_lookups(const ComputeDag& dag, int s) {
  Axes used;
  for (const Access& a : dag.info(s).reads) {
    for (const Expr& index : a.indices) {
      if (has_load(index)) add_used(dag.stage(s), index, used);
    }
  }
  return used;
}

/// The axes of `reader` along which it reads `s` at different places of `axes`.
Axes axes_of_reader(const ComputeDag& dag, int reader, int s, const Axes& axes) {
  Axes used;
  const Axes& own = dag.stage(s).axes();
  for (const Access& a : dag.info(reader).reads) {
    for (size_t d = 0; a.producer == s && d < own.size(); ++d) {
      if (std::ranges::any_of(axes, [&](const Axis& x) { return x.same_as(own[d]); }))
        add_used(dag.stage(reader), a.indices[d], used);
    }
  }
  return used;
}

/// Whether `axis` numbers the matrices of a product: all its operands change along it.
bool numbers_matrices(const ComputeDag& dag, int product, const Axis& axis) {
  return axis->kind == AxisKind::Spatial &&
         std::ranges::all_of(dag.info(product).reads,
                             [&](const Access& a) { return a.depends_on(axis); });
}

/// Tiles of `product` that load an element of `s`.
double tiles_that_load(const ComputeDag& dag, int product, int s) {
  double tiles = 1;
  for (const Access& a : dag.info(product).reads) {
    double rows = 1;
    for (const int d : a.reuse_axes)
      rows *= static_cast<double>(dag.stage(product).axes()[d].largest_extent());
    if (a.producer == s) tiles = std::max(tiles, rows / kRowsOfTile);
  }
  return tiles;
}

/// Of the products that `s` reaches, where lookups change along `axes` of `s`.
double times_in_products(const FusionPlan& plan, int s, const Axes& axes, int moves) {
  const ComputeDag& dag = plan.dag();
  double times = 0;
  for (const int r : dag.info(s).consumers) {
    const Axes used = axes_of_reader(dag, r, s, axes);
    if (plan.is_product(r)) {
      if (!std::ranges::all_of(used, [&](const Axis& a) { return numbers_matrices(dag, r, a); }))
        times = std::max(times, tiles_that_load(dag, r, s));
    } else if (moves > 0 && dag.info(r).flops_per_point == 0 && !dag.stage(r).is_reduction() &&
               plan.may_run_inside(r) && !plan.stored(r) && !looks_up(dag, r)) {
      times = std::max(times, times_in_products(plan, r, used, moves - 1));
    }
  }
  return times;
}

}  // namespace

bool looks_up(const ComputeDag& dag, int s) { return !axes_of_lookups(dag, s).empty(); }

double times_looked_up(const FusionPlan& plan, int s) {
  constexpr int kMoves = 8;
  const Axes axes = axes_of_lookups(plan.dag(), s);
  return axes.empty() ? 0 : times_in_products(plan, s, axes, kMoves);
}

}  // namespace heddle::network
