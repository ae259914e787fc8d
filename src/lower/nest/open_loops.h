// What is known of the variables of the loops that are open, and what follows from it for
// expressions of them: the range of each, and the last iteration of loops of symbolic length.
//
//   for i in 0..n/8 {    i is in [0, .. ], its last iteration is n/8 - 1
//     .. i*8 + 8 <= n    is proved by the second: where i is largest, sizes cancel
//
// In: loops as they open, outermost first. Out: simplified expressions and proofs. It knows of no
// axes and stages. A fact holds to the end of the Scope in which it was added.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "heddle/ir/simplify.h"

namespace heddle::lowering {

class OpenLoops {
 public:
  /// With `plain_accesses`, simple_access leaves expressions as they are (NestOptions).
  explicit OpenLoops(bool plain_accesses) : plain_accesses_(plain_accesses) {}

  /// A loop of `v` from 0 to `extent` opens, which is at most `most`.
  void open(const Var& v, const Expr& extent, const Expr& most);
  /// The range of a loop's variable alone. It is for loops that are imagined, to learn what they
  /// would read.
  void imagine(const Var& v, const Expr& extent);
  /// What follows is for the iterations of an open loop in `range`, or up to `last`.
  void narrow(const Var& v, Interval range);
  void end_at(const Var& v, const Expr& last) { lasts_.push_back({v, last, false}); }

  const Ranges& ranges() const { return ranges_; }
  Expr simple(const Expr& e) const { return simplify(e, ranges_); }
  /// The same for accesses, which no loop depends on.
  Expr simple_access(const Expr& e) const { return plain_accesses_ ? e : simple(e); }
  bool proves(const Expr& condition) const { return prove(condition, ranges_); }
  /// Whether a <= b is proved, also by the last iterations of loops of symbolic length.
  bool at_most(const Expr& a, const Expr& b) const;

  // At its end, all that was added since its beginning is forgotten.
  class Scope {
   public:
    explicit Scope(OpenLoops& of)
        : of_(of), changed_(of.changed_.size()), lasts_(of.lasts_.size()) {}
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    OpenLoops& of_;
    const size_t changed_, lasts_;
  };

 private:
  const bool plain_accesses_;
  Ranges ranges_;
  std::vector<std::pair<Var, std::optional<Interval>>> changed_;  ///< ranges as they were before
  /// The last iterations of open loops of symbolic length. Where a loop has one more, which is its own, that
  /// comes behind.
  struct Last {
    Var var;
    Expr value;
    bool own = false;
  };
  std::vector<Last> lasts_;
  bool at_most_at_ends(const Expr& a, const Expr& b, bool own) const;
};

}  // namespace heddle::lowering
