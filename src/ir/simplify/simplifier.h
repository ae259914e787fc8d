// The simplifier. Each call makes one object, which carries the known facts of variables down the
// tree. Every function returns canonical results, which it would return unchanged. The parts are in
// simplify_*.cpp.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/interval.h"
#include "ir/linear.h"

namespace heddle {

class Simplifier {
 public:
  explicit Simplifier(const Ranges& ranges) : ranges_(ranges) {}

  /// Simplifies a whole expression, with a new budget of visits.
  Expr whole(const Expr& e) {
    visits_ = 0;
    return expr(e);
  }
  Expr expr(const Expr& e);
  Stmt stmt(const Stmt& s);

 private:
  // ---- simplify.cpp: dispatch ----
  Expr dispatch(const Expr& e);
  Expr binary(const Expr& e, const Binary& b);
  Expr unary(const Expr& e, const Unary& u);
  Expr reduce(const Expr& e, const Reduce& r);

  // ---- simplify_sum.cpp: i64 scalars as sums ----
  /// The canonical form of any i64 scalar.
  Linear linear(const Expr& e);
  Linear linear_node(const Expr& e);
  void collect(const Expr& e, int64_t times, Linear& out);
  void collect_node(const Expr& e, int64_t times, Linear& out);
  Linear product(const Linear& a, const Linear& b);
  /// Merges like terms, recombines quotients and remainders, and cancels minima against the rest.
  void finish(Linear& a);
  bool recombine_remainder(Linear& a);
  bool recombine_by_size(Linear& a);
  bool join_remainder(Linear& a, const LinearTerm& t, const Linear& x, int64_t c);
  std::vector<Linear> dividends(const Linear& a, const LinearTerm& t, int64_t c);
  bool absorb_into_minimum(Linear& a);
  Interval range(const Linear& a);

  // ---- simplify_divmod.cpp: division by a positive constant ----
  Linear floor_divide(Linear n, int64_t c);
  Linear divide_remainder(const Linear& r, int64_t c);
  Linear floor_modulo(Linear n, int64_t c);
  /// n == g*m + s with s inside [0, g), for some g > 1 that divides `c` (any g when c is 0).
  bool split_by_factor(const Linear& n, int64_t c, Linear& m, Linear& s, int64_t& g);
  bool divide_arms(const Linear& n, int64_t c, Linear& out);
  Linear divmod(BinaryOp op, const Expr& a, const Expr& b);

  // ---- simplify_minmax.cpp ----
  Linear minmax(BinaryOp op, const Linear& a, const Linear& b);

  // ---- simplify_compare.cpp ----
  Expr compare_i64(BinaryOp op, const Expr& a, const Expr& b);
  Expr less_than_zero(Linear d);
  Expr equal_to_zero(Linear d);

  // ---- simplify_bool.cpp ----
  Expr negation(const Expr& canonical);
  Expr conjunction(const Expr& e, BinaryOp op);
  void forward(std::vector<Expr>& parts, BinaryOp op);
  Expr select(const Expr& e, const Select& s);

  // ---- simplify_vector.cpp: i64 vectors ----
  struct VectorForm {
    Linear base, stride;  ///< ramp(base, stride)
    Linear atoms;         ///< vectors of no known structure
  };
  Expr vector_sum(const Expr& e);
  void collect_vector(const Expr& e, int64_t times, VectorForm& out, bool whole = false);
  Expr vector_binary(const Expr& e, const Binary& b);
  std::optional<Expr> lane_expr(const Expr& e);

  // ---- simplify_facts.cpp: what is known inside a branch ----
  friend class Assumption;
  void assume(const Expr& canonical_condition, bool value);
  /// Records the fact d < 0.
  void assume_negative(const Linear& d);
  void narrow(const VarNode* v, Interval r);
  void assume_below_quotient(const Var& i, const Expr& limit);
  Interval refine_by_facts(const Linear& a, Interval r);
  const bool* known_condition(const Expr& e) const;

  // ---- simplify_stmt.cpp ----
  Stmt loop(const Stmt& s, const For& f);
  Stmt branch(const Stmt& s, const If& f);
  Stmt let(const Stmt& s, const Let& l);

  struct Undo {
    const VarNode* var;
    std::optional<Interval> before;
  };
  struct Condition {
    Expr expr;
    bool value;
  };

  Ranges ranges_;
  std::vector<Undo> undo_;
  std::vector<Linear> facts_;  ///< each is known to be negative
  std::vector<Condition> conditions_;
  /// Results for nodes with several parents, valid while what is known stays the same. The key is
  /// kept alive, so that its address is not reused.
  struct Done {
    Expr key, result;
  };
  std::unordered_map<const ExprNode*, Done> done_;
  int condition_depth_ = 0;
  /// Arms of selects are simplified under their conditions, so a node that several arms share is
  /// simplified in each. Beyond this number of visits of one expression conditions are ignored.
  static constexpr int kMostVisits = 20000;
  /// Beyond this number of visits shared nodes are left whole: conjunctions are not negated part by
  /// part.
  static constexpr int kMostBeforeSharing = 1000;
  int visits_ = 0;
};

/// Its assumptions hold until it goes out of scope.
class Assumption {
 public:
  explicit Assumption(Simplifier& s)
      : s_(s), undo_(s.undo_.size()), facts_(s.facts_.size()), conditions_(s.conditions_.size()) {}
  Assumption(const Assumption&) = delete;
  Assumption& operator=(const Assumption&) = delete;
  ~Assumption();

  void set(const Var& v, Interval r) { s_.narrow(v.get(), r); }
  void add(const Expr& canonical_condition, bool value) { s_.assume(canonical_condition, value); }
  void add_negative(const Linear& d) { s_.assume_negative(d); }

 private:
  Simplifier& s_;
  const size_t undo_, facts_, conditions_;
};

}  // namespace heddle
