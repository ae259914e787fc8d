// The original indices of fused loops, f / 14 and f % 14 of their variable f, as variables.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "heddle/ir/simplify.h"
#include "heddle/ir/stmt.h"

namespace heddle::lowering {

/// Quotients and remainders by constants of a loop's variable, and of such parts in turn.
class FusedParts {
 public:
  struct Part {
    Var var;
    Expr of;  ///< a quotient or remainder of the loop's variable, or of a part before this one
    int64_t extent = 0;  ///< it is in [0, extent)
  };

  /// The parts of variable `f` in [0, extent).
  FusedParts(const Var& f, int64_t extent) { known_.push_back({f, f.expr(), extent}); }

  /// `body` with all parts replaced by variables.
  Stmt take_out(const Stmt& body);
  /// The inverse: replaces the variables by the parts.
  Stmt put_back(Stmt body) const;
  /// The parts that take_out has found.
  std::vector<Part> parts() const { return {known_.begin() + 1, known_.end()}; }
  /// The loop's variable as its only part.
  const Part& whole() const { return known_.front(); }
  /// `ranges` with what those of the loop's variable and of its parts say of each other: of f in
  /// [8, 9] with f % 2 = 0, f / 2 = 4 and so f = 8.
  Ranges narrowed(Ranges ranges) const;

 private:
  Expr take_out(const Expr& e);
  /// The sum of two parts that is `whole`, such as f / 14 * 14 + f % 14, or no expression.
  Expr sum_of_parts(const Part& whole) const;
  /// The variable for `e` where it is a part; else `e`.
  Expr part_of(const Expr& e);
  std::vector<Part> known_;  // the loop's own variable, then the parts
  std::unordered_map<const ExprNode*, std::pair<Expr, Expr>> done_;  // shared parts once; the key
                                                                     // is kept alive
};

}  // namespace heddle::lowering
