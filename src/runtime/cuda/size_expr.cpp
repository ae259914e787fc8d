#include "runtime/cuda/size_expr.h"

#include <algorithm>
#include <array>

#include "heddle/support/error.h"

namespace heddle::cuda {
namespace {

constexpr std::size_t kDeepest = 16;

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

std::int64_t apply(SizeExpr::Op op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case SizeExpr::Op::Add: return a + b;
    case SizeExpr::Op::Sub: return a - b;
    case SizeExpr::Op::Mul: return a * b;
    case SizeExpr::Op::FloorDiv: return floor_div(a, b);
    case SizeExpr::Op::FloorMod: return a - floor_div(a, b) * b;
    case SizeExpr::Op::Min: return std::min(a, b);
    case SizeExpr::Op::Max: return std::max(a, b);
    case SizeExpr::Op::Constant:
    case SizeExpr::Op::Size: break;
  }
  return 0;
}

}  // namespace

std::int64_t evaluate(const SizeExpr& e, std::span<const std::int64_t> sizes) {
  std::array<std::int64_t, kDeepest> stack;
  std::size_t depth = 0;
  for (const SizeExpr::Item& item : e.items) {
    const bool leaf = item.op == SizeExpr::Op::Constant || item.op == SizeExpr::Op::Size;
    if (leaf) {
      HEDDLE_ICHECK(depth < kDeepest, "an expression of sizes is too deep");
      const bool known =
          item.op == SizeExpr::Op::Constant || static_cast<std::size_t>(item.value) < sizes.size();
      HEDDLE_ICHECK(known, "a launch depends on a size that the call does not give");
      stack[depth++] = item.op == SizeExpr::Op::Constant
                           ? item.value
                           : sizes[static_cast<std::size_t>(item.value)];
      continue;
    }
    HEDDLE_ICHECK(depth >= 2, "an expression of sizes lacks operands");
    --depth;
    stack[depth - 1] = apply(item.op, stack[depth - 1], stack[depth]);
  }
  HEDDLE_ICHECK(depth == 1, "an expression of sizes has no single value");
  return stack[0];
}

}  // namespace heddle::cuda
