#include "codegen/cuda/index.h"

#include <algorithm>

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

}  // namespace heddle::cuda
