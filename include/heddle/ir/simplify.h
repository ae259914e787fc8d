// Simplification and integer range analysis of index expressions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "heddle/ir/stmt.h"

namespace heddle {

/// A closed range of integers; `kNegInf`/`kPosInf` mean unbounded on that side.
struct Interval {
  static constexpr int64_t kNegInf = INT64_MIN, kPosInf = INT64_MAX;
  int64_t min = kNegInf, max = kPosInf;
  bool bounded() const { return min != kNegInf && max != kPosInf; }
  bool is_point() const { return min == max && bounded(); }
  bool contains(int64_t v) const { return min <= v && v <= max; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// The known ranges of the variables in scope. Copying is cheap enough for passes to scope by
/// value. `with` adds one fact.
class Ranges {
 public:
  void set(const Var& v, Interval r) {
    for (Known& k : known_) {
      if (k.var == v.get()) {
        k.range = r;
        return;
      }
    }
    known_.push_back({v.get(), r});
  }
  void erase(const Var& v) {
    std::erase_if(known_, [&](const Known& k) { return k.var == v.get(); });
  }
  Interval get(const VarNode* v) const {
    for (size_t i = known_.size(); i-- > 0;) {
      if (known_[i].var == v) return known_[i].range;
    }
    // A symbolic size has a range of its own.
    return v->size ? Interval{v->size->lo, v->size->hi} : Interval{};
  }
  bool known(const VarNode* v) const {
    return std::any_of(known_.begin(), known_.end(), [&](const Known& k) { return k.var == v; });
  }

 private:
  // One entry for each open loop around an expression. There are few, so a linear search is faster
  // than a table.
  struct Known {
    const VarNode* var;
    Interval range;
  };
  std::vector<Known> known_;
};

/// The tightest range that this analysis can prove for an integer or bool expression; for a vector,
/// over all lanes. It is sound: every value of the expression lies inside.
Interval range_of(const Expr& e, const Ranges& ranges);

/// An equivalent, simpler expression. Integer sums are brought to a canonical linear form (so that
/// equal index expressions become identical and differences cancel); divisions by constants,
/// min/max, comparisons and selects are resolved from `ranges`. Floating point is only folded where
/// the result is bit-exact. Idempotent.
Expr simplify(const Expr& e, const Ranges& ranges = {});

/// Simplifies every expression of `s`, with loop variables ranged over their loops and conditions
/// assumed inside their branches; folds away branches and loops that never run.
Stmt simplify(const Stmt& s, const Ranges& ranges = {});

/// Whether the bool expression `e` is proved true for all values in `ranges`.
bool prove(const Expr& e, const Ranges& ranges);

/// e == sum(coefficient_i * var_i) + constant with constant integer coefficients, or nullopt.
struct Affine {
  struct Term {
    Var var;
    int64_t coefficient = 0;
  };
  std::vector<Term> terms;  ///< in order of first appearance; coefficients nonzero
  int64_t constant = 0;
  int64_t coefficient(const Var& v) const;
};
/// The affine form of `e`, or nullopt where it has none.
std::optional<Affine> as_affine(const Expr& e);

}  // namespace heddle
