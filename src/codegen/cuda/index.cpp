#include "codegen/cuda/index.h"

#include <algorithm>
#include "ir/fold.h"

namespace heddle::cuda {
namespace {

constexpr int kMax = 16;

int power_of(int64_t v) {
  if (v == 0) return kMax;
  return static_cast<int>(std::min<int64_t>(kMax, v & -v));
}

int of_binary(const Binary& b, const Divisors& vars) {
  const auto left = [&] { return known_divisor(b.a, vars); };
  const auto right = [&] { return known_divisor(b.b, vars); };
  const int64_t* c = as_int(b.b);
  switch (b.op) {
    case BinaryOp::Add:
    case BinaryOp::Sub:
    case BinaryOp::Min:
    case BinaryOp::Max:
    case BinaryOp::FloorMod:
    case BinaryOp::Mod:
    case BinaryOp::BitOr:
    case BinaryOp::BitXor: return std::min(left(), right());
    case BinaryOp::Mul: return std::min(kMax, left() * right());
    case BinaryOp::BitAnd: return std::max(left(), right());
    case BinaryOp::Shl:
      return c && *c >= 0 ? std::min<int>(kMax, left() << std::min<int64_t>(*c, 4)) : 1;
    case BinaryOp::FloorDiv:
    case BinaryOp::Div:
      // The quotient is known where the divisor divides the known divisor of the dividend.
      if (c && *c > 0 && *c <= kMax && left() % *c == 0) return left() / static_cast<int>(*c);
      return 1;
    default: return 1;
  }
}

}  // namespace

int known_divisor(const Expr& e, const Divisors& vars) {
  switch (e.kind()) {
    case ExprKind::IntImm: return power_of(e.as<IntImm>()->value);
    case ExprKind::Var: {
      const auto it = vars.find(e.as<VarNode>());
      return it == vars.end() ? 1 : it->second;
    }
    case ExprKind::Binary: return of_binary(*e.as<Binary>(), vars);
    case ExprKind::Select:
      return std::min(known_divisor(e.as<Select>()->on_true, vars),
                      known_divisor(e.as<Select>()->on_false, vars));
    case ExprKind::Ramp: return known_divisor(e.as<Ramp>()->base, vars);
    case ExprKind::Broadcast: return known_divisor(e.as<Broadcast>()->value, vars);
    default: return 1;
  }
}

std::vector<Chunk> cut_lanes(int lanes, int bytes, int divisor) {
  std::vector<Chunk> chunks;
  // The size never grows from one chunk to the next, so each chunk begins at a multiple of its
  // size.
  for (int begin = 0, size = std::max(1, std::min(16 / bytes, divisor)); begin < lanes;) {
    while (size > lanes - begin) size /= 2;
    if (size * bytes < 4) size = 1;
    chunks.push_back({begin, size});
    begin += size;
  }
  return chunks;
}

namespace {

/// The lanes of an index as numbers behind one base.
struct LaneOffsets {
  Expr base;
  std::vector<int64_t> offsets;
};

std::optional<LaneOffsets> lane_offsets(const Expr& e) {
  const auto lanes = static_cast<size_t>(e.dtype().lanes);
  if (const Broadcast* b = e.as<Broadcast>())
    return LaneOffsets{b->value, std::vector<int64_t>(lanes)};
  if (const Ramp* r = e.as<Ramp>()) {
    const int64_t* stride = as_int(r->stride);
    if (!stride) return std::nullopt;
    LaneOffsets out{r->base, {}};
    for (size_t i = 0; i < lanes; ++i) out.offsets.push_back(static_cast<int64_t>(i) * *stride);
    return out;
  }
  const Binary* b = e.as<Binary>();
  if (!b || (b->op != BinaryOp::Add && b->op != BinaryOp::FloorDiv)) return std::nullopt;
  std::optional<LaneOffsets> x = lane_offsets(b->a), y = lane_offsets(b->b);
  if (!x || !y) return std::nullopt;
  const int64_t *first = as_int(x->base), *divisor = as_int(y->base);
  if (b->op == BinaryOp::FloorDiv && (!first || !divisor || *divisor <= 0)) return std::nullopt;
  for (size_t i = 0; i < lanes; ++i) {
    if (b->op == BinaryOp::Add) {
      x->offsets[i] += y->offsets[i];
    } else if (y->offsets[i] != 0) {
      return std::nullopt;
    } else {
      x->offsets[i] = floor_div(*first + x->offsets[i], *divisor);
    }
  }
  x->base = b->op == BinaryOp::Add ? x->base + y->base : Expr(int64_t{0});
  return x;
}

}  // namespace

std::optional<LaneRun> lane_run(const Expr& index) {
  const std::optional<LaneOffsets> lanes = lane_offsets(index);
  if (!lanes) return std::nullopt;
  const int64_t first = lanes->offsets[0];
  LaneRun run{first == 0 ? lanes->base : lanes->base + Expr(first), {0}};
  for (size_t i = 1; i < lanes->offsets.size(); ++i) {
    const int64_t step = lanes->offsets[i] - lanes->offsets[i - 1];
    if (step != 0 && step != 1) return std::nullopt;
    run.element_of.push_back(run.element_of.back() + static_cast<int>(step));
  }
  return run;
}

}  // namespace heddle::cuda
