#include "network/passes/equal_sums.h"

#include <algorithm>
#include <vector>

#include "network/passes/product_chain.h"

namespace heddle::network {
namespace {

// Results of a sum at most: then they take a launch and next to nothing else.
constexpr int64_t kMostColumns = 1 << 14;

bool any_moves(const std::vector<Axis>& axes, const Expr& index) {
  return std::ranges::any_of(axes, [&](const Axis& a) { return uses_var(index, a.var()); });
}

}  // namespace

bool sums_columns(const ComputeDag& dag, int s) {
  const Operation& op = dag.stage(s);
  const StageInfo& info = dag.info(s);
  if (info.stage_class != StageClass::SimpleReduction || op.num_outputs() != 1 ||
      info.points > kMostColumns)
    return false;
  return std::ranges::any_of(info.reads, [&](const Access& read) {
    bool moved = false;
    return std::ranges::any_of(read.indices, [&](const Expr& i) {
      const bool column = moved && any_moves(op.axes(), i);
      moved = moved || any_moves(op.reduce_axes(), i);
      return column;
    });
  });
}

int behind_equal_sums(const ComputeDag& dag, int sum) {
  if (!sums_columns(dag, sum)) return -1;
  const StageInfo& info = dag.info(sum);
  for (int at = sum; is_private(dag, at);) {
    const int reader = dag.info(at).consumers[0];
    if (dag.info(reader).points != info.points || dag.stage(reader).is_reduction()) return -1;
    for (const int p : dag.info(reader).producers) {
      if (p != at && dag.info(p).points == info.points &&
          dag.info(p).reduce_points == info.reduce_points && sums_columns(dag, p) &&
          !depends_on(dag, sum, p) && !depends_on(dag, p, sum))
        return reader;
    }
    at = reader;
  }
  return -1;
}

}  // namespace heddle::network
