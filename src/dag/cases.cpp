// Stages by cases: their formula differs from point to point of a small tile.
//
//   select(i == 0, a + b, select(i == 1, a - b, ...))      along i, the whole axis
//   select(x % 4 == 0, ...)                                along x, with period 4
//
// Evaluated point by point, such a stage tests and reads far more than it needs. With its tile
// unrolled, all tests disappear and shared values are computed once.
#include <algorithm>

#include "dag/internal.h"

namespace heddle::dag {
namespace {

constexpr int64_t kLargestPeriod = 8, kLargestTile = 64;

int axis_of(const Operation& op, const Expr& e) {
  const auto* v = e.as<VarNode>();
  if (!v) return -1;
  for (std::size_t i = 0; i < op.axes().size(); ++i) {
    if (op.axes()[i].var().get() == v) return static_cast<int>(i);
  }
  return -1;
}

/// The position and the period of `e`, where it is an axis or the remainder of one.
struct Position {
  int axis = -1;
  int64_t period = 0;
};
Position position_of(const Operation& op, const Expr& e) {
  if (const int a = axis_of(op, e); a >= 0)
    return {a, extent_of(op.axes()[static_cast<std::size_t>(a)]->extent)};
  const auto* b = e.as<Binary>();
  if (!b || b->op != BinaryOp::FloorMod) return {};
  const int64_t* n = as_int(b->b);
  const int a = axis_of(op, b->a);
  return n && a >= 0 ? Position{a, *n} : Position{};
}

}  // namespace

std::vector<int64_t> case_periods(const Operation& op, const std::vector<Access>& reads,
                                  FunctionRef<const std::vector<int64_t>&(int)> periods_of) {
  if (op.is_placeholder() || op.is_reduction()) return {};
  std::vector<int64_t> out(op.axes().size(), 1);
  const auto note = [&](const Position& p) {
    if (p.axis < 0 || p.period > kLargestPeriod) return;
    int64_t& period = out[static_cast<std::size_t>(p.axis)];
    period = std::max(period, p.period);
  };
  for (const Expr& body : op.bodies()) {
    visit(body, [&](const Expr& e) {
      const auto* s = e.as<Select>();
      const auto* c = s ? s->condition.as<Binary>() : nullptr;
      if (!c || c->op != BinaryOp::Eq) return;
      if (as_int(c->b)) note(position_of(op, c->a));
      if (as_int(c->a)) note(position_of(op, c->b));
    });
  }
  if (std::all_of(out.begin(), out.end(), [](int64_t p) { return p == 1; })) return {};
  // A stage inherits the cases of a producer where it reads all of them.
  for (const Access& a : reads) {
    const std::vector<int64_t>& theirs = periods_of(a.producer);
    for (std::size_t d = 0; d < theirs.size(); ++d) {
      if (theirs[d] == 1) continue;
      const Position p = position_of(op, a.indices[d]);
      if (p.period == theirs[d]) note(p);
    }
  }
  int64_t points = 1;
  for (int64_t p : out) points *= p;
  return points <= kLargestTile ? out : std::vector<int64_t>{};
}

}  // namespace heddle::dag
