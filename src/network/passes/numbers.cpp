#include "network/passes/numbers.h"

#include "heddle/support/function_ref.h"

namespace heddle::network {
namespace {

Expr map_numbers(const Expr& e, FunctionRef<Expr(const Expr&)> fn) {
  if (e.as<FloatImm>() || (e.as<IntImm>() && e.dtype() == i32)) return fn(e);
  if (e.as<Load>()) return e;
  return map_children(e, [&](const Expr& child) { return map_numbers(child, fn); });
}

}  // namespace

std::vector<Expr> numbers_of(const Expr& e) {
  std::vector<Expr> numbers;
  map_numbers(e, [&](const Expr& number) {
    numbers.push_back(number);
    return number;
  });
  return numbers;
}

Expr with_numbers(const Expr& e, std::span<const Expr> numbers) {
  size_t next = 0;
  return map_numbers(e, [&](const Expr&) { return numbers[next++]; });
}

}  // namespace heddle::network
