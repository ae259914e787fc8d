// Random expressions before and after simplification: the values are equal and inside the range,
// and simplifying again changes nothing. HEDDLE_FUZZ_SEED and HEDDLE_FUZZ_COUNT override the
// defaults.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "heddle/ir/print.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/rng.h"
#include "ir/evaluate.h"

namespace heddle {
namespace {

using test::evaluate;
using test::Values;

int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

struct Generator {
  explicit Generator(uint64_t seed) : rng(seed) {
    for (const char* name : {"a", "b", "c", "d"}) vars.emplace_back(name);
    for (const char* name : {"p", "q"}) bools.emplace_back(name, boolean);
    for (const Var& v : vars) {
      const int64_t low = rng.chance(0.6) ? 0 : rng.uniform_int(-20, 20);
      const int64_t size = rng.choose(std::vector<int64_t>{1, 2, 3, 4, 5, 7, 8, 16, 33});
      bounds.push_back({low, low + size - 1});
      ranges.set(v, bounds.back());
    }
  }

  int64_t constant() {
    if (rng.chance(0.7)) {
      return rng.choose(
          std::vector<int64_t>{0, 1, 2, 3, 4, 6, 7, 8, 12, 15, 16, 17, 32, 64, -1, -4, -16});
    }
    return rng.uniform_int(-100, 100);
  }

  int64_t divisor() {
    const int64_t c = constant();
    return c ? c : 5;
  }

  Expr number(int depth) {
    if (depth == 0 || rng.chance(0.1)) {
      return rng.chance(0.65) ? rng.choose(vars).expr() : Expr(constant());
    }
    const auto sub = [&] { return number(depth - 1); };
    switch (rng.uniform_int(0, 16)) {
      case 0:
      case 1:
      case 2: return sub() + sub();
      case 3: return sub() - sub();
      case 4:
      case 5: return sub() * constant();
      case 6: return sub() * sub();
      case 7:
      case 8: return floordiv(sub(), divisor());
      case 9:
      case 10: return floormod(sub(), divisor());
      case 11: return min(sub(), sub());
      case 12: return max(sub(), sub());
      case 13: return make_select(boolean_expr(depth - 1), sub(), sub());
      case 14: {
        const Expr x = sub();  // what splitting and fusing make
        const int64_t f = rng.uniform_int(2, 9);
        return floordiv(x, f) * f + floormod(x, f);
      }
      case 15:
        switch (rng.uniform_int(0, 6)) {
          case 0: return sub() / divisor();
          case 1: return sub() % divisor();
          case 2: return make_unary(UnaryOp::Abs, sub());
          case 3: return -sub();
          case 4: return make_binary(BinaryOp::Shl, sub(), rng.uniform_int(0, 4));
          case 5: return make_binary(BinaryOp::Shr, sub(), rng.uniform_int(0, 4));
          default: return make_binary(BinaryOp::BitAnd, sub(), constant());
        }
      default: return make_binary(BinaryOp::FloorDiv, sub(), sub());
    }
  }

  Expr boolean_expr(int depth) {
    if (depth == 0 || rng.chance(0.1)) {
      return rng.chance(0.9) ? rng.choose(bools).expr() : Expr(rng.chance(0.5));
    }
    const auto sub = [&] { return boolean_expr(depth - 1); };
    const auto num = [&] { return number(depth - 1); };
    switch (rng.uniform_int(0, 9)) {
      case 0:
      case 1: return num() < num();
      case 2: return num() <= num();
      case 3: return num() == num();
      case 4: return num() != num();
      case 5:
      case 6: return sub() && sub();
      case 7: return sub() || sub();
      case 8: return !sub();
      default: return make_select(sub(), sub(), sub());
    }
  }

  Expr vector(int depth) {
    if (depth == 0 || rng.chance(0.2)) {
      if (rng.chance(0.4)) return make_broadcast(number(1), 4);
      return make_ramp(number(1), rng.chance(0.7) ? Expr(constant()) : number(1), 4);
    }
    const auto sub = [&] { return vector(depth - 1); };
    switch (rng.uniform_int(0, 8)) {
      case 0:
      case 1: return sub() + sub();
      case 2: return sub() - sub();
      case 3: return sub() * sub();
      case 4: return floordiv(sub(), divisor());
      case 5: return floormod(sub(), divisor());
      case 6: return min(sub(), sub());
      case 7: return sub() * constant();
      default: return make_select(sub() < sub(), sub(), sub());
    }
  }

  Values sample() {
    Values values;
    for (size_t i = 0; i < vars.size(); ++i) {
      values[vars[i].get()] = rng.uniform_int(bounds[i].min, bounds[i].max);
    }
    for (const Var& b : bools) values[b.get()] = rng.chance(0.5);
    return values;
  }

  Rng rng;
  std::vector<Var> vars, bools;
  std::vector<Interval> bounds;
  Ranges ranges;
};

std::string describe(const Generator& g, uint64_t seed) {
  std::string text =
      "\n  HEDDLE_FUZZ_SEED=" + std::to_string(seed) + " HEDDLE_FUZZ_COUNT=1\n  with";
  for (size_t i = 0; i < g.vars.size(); ++i) {
    text += " " + g.vars[i]->name + " in [" + std::to_string(g.bounds[i].min) + ", " +
            std::to_string(g.bounds[i].max) + "]";
  }
  return text;
}

std::string describe(const Values& values) {
  std::string text;
  for (const auto& [v, value] : values) text += " " + v->name + "=" + std::to_string(value);
  return text;
}

/// An operand that is undefined everywhere has no canonical form.
bool divides_by_zero(const Expr& e) {
  bool found = false;
  visit(e, [&](const Expr& x) {
    const Binary* b = x.as<Binary>();
    found |= b && is_const(b->b, 0) &&
             (b->op == BinaryOp::FloorDiv || b->op == BinaryOp::FloorMod ||
              b->op == BinaryOp::Div || b->op == BinaryOp::Mod);
  });
  return found;
}

/// False when the expression of this seed fails.
bool check(uint64_t seed, double* nodes, double* seconds) {
  Generator g(seed);
  const int depth = static_cast<int>(g.rng.uniform_int(1, 5));
  const double kind = g.rng.uniform_real();
  const Expr e = kind < 0.6   ? g.number(depth)
                 : kind < 0.9 ? g.boolean_expr(depth)
                              : g.vector(std::min(depth, 3));
  visit(e, [&](const Expr&) { *nodes += 1; });
  const auto start = std::chrono::steady_clock::now();
  const Expr s = simplify(e, g.ranges);
  *seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string context =
      describe(g, seed) + "\n  before: " + to_string(e) + "\n  after:  " + to_string(s);
  const Expr again = simplify(s, g.ranges);
  if (!equal(s, again) && !divides_by_zero(s)) {
    ADD_FAILURE() << "not idempotent" << context << "\n  again:  " << again;
    return false;
  }
  const Interval before = range_of(e, g.ranges), after = range_of(s, g.ranges);
  for (int trial = 0; trial < 40; ++trial) {
    const Values values = g.sample();
    for (int lane = 0; lane < e.dtype().lanes; ++lane) {
      const std::optional<int64_t> want = evaluate(e, values, lane);
      if (!want) continue;
      const std::optional<int64_t> got = evaluate(s, values, lane);
      if (got != want) {
        ADD_FAILURE() << "another value: " << *want << " became "
                      << (got ? std::to_string(*got) : "undefined") << " at" << describe(values)
                      << " lane " << lane << context;
        return false;
      }
      if (!before.contains(*want) || !after.contains(*want)) {
        ADD_FAILURE() << *want << " is outside of [" << before.min << ", " << before.max << "] or ["
                      << after.min << ", " << after.max << "] at" << describe(values) << context;
        return false;
      }
    }
  }
  return true;
}

TEST(SimplifyFuzz, KeepsTheValueAndIsIdempotent) {
  const auto first = static_cast<uint64_t>(setting("HEDDLE_FUZZ_SEED", 1));
  const int64_t count = setting("HEDDLE_FUZZ_COUNT", 30000);
  double nodes = 0, seconds = 0;
  int failures = 0;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(count); ++seed) {
    if (!check(seed, &nodes, &seconds) && ++failures == 5) break;
  }
  RecordProperty("simplify_nodes_per_second", std::to_string(nodes / seconds));
  if (count >= 1000) {
    std::printf("simplified %.0f nodes, %.2f million a second\n", nodes, nodes / seconds / 1e6);
  }
}

}  // namespace
}  // namespace heddle
