// Expressions: a closed class hierarchy with a kind tag and an intrusive count, immutable.
//
//   Expr e = x * 2 + 1;
//   if (const Binary* add = e.as<Binary>(); add && add->op == BinaryOp::Add) ...
//
// A pass is a plain recursive function that handles its cases and ends in `map_children`. Where it
// returns the same handle, nothing changed. Variables and axes are identities (their address).
// Names are for printing only, so no pass renames anything. Integer arithmetic on indices is i64.
//
// Expressions are graphs: `x * x` holds one node twice. Every walk goes through a node with several
// parents once (`SeenNodes`, `RewriteMemo`).
// Thread-safe to share; `Expr` is cheap to copy.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "heddle/ir/buffer.h"
#include "heddle/support/dtype.h"
#include "heddle/support/function_ref.h"
#include "heddle/support/ref.h"

namespace heddle {

/// The kinds of expression nodes.
enum class ExprKind : uint8_t {
  IntImm,
  FloatImm,
  Var,
  Cast,
  Unary,
  Binary,
  Select,
  Load,
  Reduce,
  Ramp,
  Broadcast,
  Shuffle,
};

/// Operators with one operand. The mathematical functions take floats.
enum class UnaryOp : uint8_t {
  Neg,
  Not,
  BitNot,
  Abs,
  Exp,
  Exp2,
  Expm1,
  Log,
  Log2,
  Log10,
  Log1p,
  Sqrt,
  Rsqrt,
  Sin,
  Cos,
  Tan,
  Asin,
  Acos,
  Atan,
  Sinh,
  Cosh,
  Tanh,
  Erf,
  Floor,
  Ceil,
  Round,
  Trunc,
  IsNan,
  IsInf,
  /// To 10 bits of mantissa, to nearest and ties away from zero: the numbers that matrix units make
  /// of f32 (cvt.rna.tf32).
  RoundTf32,
};

/// `Min` and `Max` of floats are NaN where an operand is NaN. Of two zeros either one may be
/// returned. `Div` truncates on integers; `FloorDiv`/`FloorMod` are integer only, `Mod` truncates
/// (C's % and fmod). `Shr` is arithmetic on signed types. Comparisons give bool. Greater-than is Lt
/// with swapped operands.
enum class BinaryOp : uint8_t {
  Add,
  Sub,
  Mul,
  Div,
  FloorDiv,
  FloorMod,
  Mod,
  Min,
  Max,
  Pow,
  Atan2,
  Eq,
  Ne,
  Lt,
  Le,
  And,
  Or,
  BitAnd,
  BitOr,
  BitXor,
  Shl,
  Shr,
};

/// The name of an operator, as it is printed.
const char* to_string(UnaryOp op);
const char* to_string(BinaryOp op);

/// The base of all nodes. Nodes are immutable and counted by reference; an expression may share
/// them.
class ExprNode {
 public:
  const ExprKind kind;
  const DataType dtype;
  const uint64_t hash;  ///< structural, within this process (variables and buffers hash by id)

  void acquire() const { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() const {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(this);
  }
  /// Whether several handles hold this node. A pass then remembers its result, because a tree may
  /// be exponentially larger than the graph that it is stored as.
  bool shared() const { return refs_.load(std::memory_order_relaxed) > 1; }

 protected:
  ExprNode(ExprKind k, DataType t, uint64_t h) : kind(k), dtype(t), hash(h) {}
  ~ExprNode() = default;

 private:
  static void destroy(const ExprNode* node);
  mutable std::atomic<uint32_t> refs_{0};
};

/// A handle to an immutable expression; may be null ("no expression").
class Expr {
 public:
  Expr() = default;
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Expr(T value) : Expr(from_integer(value)) {}  // NOLINT(google-explicit-constructor)
  Expr(float value);                            // NOLINT(google-explicit-constructor)
  Expr(double value);                           // NOLINT(google-explicit-constructor)
  Expr(bool value);                             // NOLINT(google-explicit-constructor)
  explicit Expr(const ExprNode* node) : node_(node) {
    if (node_) node_->acquire();
  }
  Expr(const Expr& o) : Expr(o.node_) {}
  Expr(Expr&& o) noexcept : node_(o.node_) { o.node_ = nullptr; }
  Expr& operator=(Expr o) noexcept {
    std::swap(node_, o.node_);
    return *this;
  }
  ~Expr() {
    if (node_) node_->release();
  }

  explicit operator bool() const { return node_ != nullptr; }
  /// Whether the handle is not null. Use this where the operators would build an expression: `!e`,
  /// `e && other`.
  bool defined() const { return node_ != nullptr; }
  const ExprNode* get() const { return node_; }
  const ExprNode* operator->() const { return node_; }
  ExprKind kind() const { return node_->kind; }
  DataType dtype() const { return node_->dtype; }

  /// The node as a `T`, or null when it is of another kind.
  template <class T>
  const T* as() const {
    return node_ && node_->kind == T::kKind ? static_cast<const T*>(node_) : nullptr;
  }
  bool same_as(const Expr& o) const { return node_ == o.node_; }

 private:
  template <std::integral T>
  static Expr from_integer(T value) {
    if constexpr (std::unsigned_integral<T> && sizeof(T) == sizeof(uint64_t)) {
      return from_uint(value);
    } else {
      return from_int(static_cast<int64_t>(value));
    }
  }
  static Expr from_int(int64_t value);    // an i64 constant
  static Expr from_uint(uint64_t value);  // the same; of u64 where no i64 has this value
  const ExprNode* node_ = nullptr;
};

/// The result of `!`, `&&`, `||` and comparisons: an Expr that C++ cannot test, so that the
/// mistakes `if (!e)`, `if (a == b)` and `if (a && b)` do not compile. See defined(), equal() and
/// same_as().
class Condition : public Expr {
 public:
  explicit Condition(Expr e) : Expr(std::move(e)) {}
  explicit operator bool() const = delete;
};

struct IntImm : ExprNode {  // also bool (0 or 1)
  static constexpr ExprKind kKind = ExprKind::IntImm;
  IntImm(DataType t, int64_t v);
  const int64_t value;
};

/// A floating-point constant, rounded to its type.
struct FloatImm : ExprNode {
  static constexpr ExprKind kKind = ExprKind::FloatImm;
  FloatImm(DataType t, double v);
  const double value;
};

/// The values that a symbolic size may have, lo to hi.
struct SizeRange {
  int64_t lo = 0, hi = 0;
  friend bool operator==(const SizeRange&, const SizeRange&) = default;
};

/// A scalar variable. Variables are compared by identity and not by name.
struct VarNode : ExprNode {
  static constexpr ExprKind kKind = ExprKind::Var;
  VarNode(std::string name, DataType t, int64_t extent = -1);
  VarNode(std::string name, SizeRange size);
  const std::string name;
  const uint64_t id;     ///< unique in the process, in order of creation; for hashing and ordering
  const int64_t extent;  ///< for an axis of a declaration, whose values are [0, extent); else -1
  /// For a symbolic size, whose value a call gives (dsl/dim.h); empty for all others.
  const std::optional<SizeRange> size;

 private:
  VarNode(std::string name, DataType t, int64_t extent, uint64_t id,
          std::optional<SizeRange> size = {});
};

/// A conversion of a value to another type with the same lanes.
struct Cast : ExprNode {
  static constexpr ExprKind kKind = ExprKind::Cast;
  Cast(DataType t, Expr v);
  const Expr value;
};

/// An operator applied to one operand.
struct Unary : ExprNode {
  static constexpr ExprKind kKind = ExprKind::Unary;
  Unary(UnaryOp o, DataType t, Expr x);
  const UnaryOp op;
  const Expr a;
};

/// An operator applied to two operands of one type.
struct Binary : ExprNode {
  static constexpr ExprKind kKind = ExprKind::Binary;
  Binary(BinaryOp o, DataType t, Expr x, Expr y);
  const BinaryOp op;
  const Expr a, b;
};

/// Lazy: loads in the arm that is not taken are not executed (a vector select masks its loads).
struct Select : ExprNode {
  static constexpr ExprKind kKind = ExprKind::Select;
  Select(Expr c, Expr t, Expr f);
  const Expr condition, on_true, on_false;
};

/// Reads `buffer` at one index for each dimension or, after flattening, at one flat index.
struct Load : ExprNode {
  static constexpr ExprKind kKind = ExprKind::Load;
  Load(Buffer b, std::vector<Expr> i, DataType t);
  const Buffer buffer;
  const std::vector<Expr> indices;
};

/// A vector of `lanes` integers: base, base + stride, ...
struct Ramp : ExprNode {
  static constexpr ExprKind kKind = ExprKind::Ramp;
  Ramp(Expr b, Expr s, int lanes);
  const Expr base, stride;
};

/// A vector with the same value in every lane.
struct Broadcast : ExprNode {
  static constexpr ExprKind kKind = ExprKind::Broadcast;
  Broadcast(Expr v, int lanes);
  const Expr value;
};

/// The value of `value` in another lane of the warp. All lanes that are read must run it together.
/// It occurs only in the bodies of GPU kernels.
struct Shuffle : ExprNode {
  static constexpr ExprKind kKind = ExprKind::Shuffle;
  Shuffle(Expr v, int m);
  const Expr value;
  const int lane_xor;  ///< lane l reads lane l ^ lane_xor
};

/// A variable: an identity whose name is for printing only.
class Var {
 public:
  Var() = default;
  explicit Var(std::string name, DataType t = i64, int64_t extent = -1);
  /// A symbolic size, an i64.
  Var(std::string name, SizeRange size);
  /// The variable that `e` is. `e` must be one.
  static Var from(const Expr& e) {
    Var v;
    v.expr_ = e;
    return v;
  }
  const VarNode* get() const { return static_cast<const VarNode*>(expr_.get()); }
  const VarNode* operator->() const { return get(); }
  operator const Expr&() const { return expr_; }  // NOLINT(google-explicit-constructor)
  const Expr& expr() const { return expr_; }
  explicit operator bool() const { return static_cast<bool>(expr_); }
  /// Whether both are the same variable. (`a == b` builds a bool expression, as for any two
  /// expressions.)
  bool same_as(const Var& o) const { return get() == o.get(); }

 private:
  Expr expr_;
};

/// A spatial axis is a dimension of the result; a reduce axis is reduced over.
enum class AxisKind : uint8_t { Spatial, Reduce };

/// The node of an Axis.
struct AxisNode : RefCounted {
  AxisNode(Var v, Expr e, AxisKind k) : var(std::move(v)), extent(std::move(e)), kind(k) {}
  const Var var;
  const Expr extent;  ///< the axis runs over [0, extent)
  const AxisKind kind;
};

/// An iteration axis of a declaration. Usable as an index expression.
class Axis {
 public:
  Axis() = default;
  Axis(std::string name, Expr extent, AxisKind kind);
  const AxisNode* get() const { return node_.get(); }
  const AxisNode* operator->() const { return node_.get(); }
  const Var& var() const { return assigned().var; }
  const std::string& name() const { return assigned().var->name; }
  /// The constant extent; throws a User error that names the dimension when it is symbolic.
  int64_t extent() const;
  /// The constant extent, or the largest that a symbolic one can be.
  int64_t largest_extent() const;
  operator const Expr&() const { return var().expr(); }  // NOLINT(google-explicit-constructor)
  explicit operator bool() const { return static_cast<bool>(node_); }
  /// Whether both are the same axis. (`i == j` builds the bool expression "equal positions".)
  bool same_as(const Axis& o) const { return node_.get() == o.node_.get(); }

 private:
  /// The node; a user error where there is none.
  const AxisNode& assigned() const {
    if (!node_) fail_unassigned();
    return *node_;
  }
  [[noreturn]] static void fail_unassigned();
  Ref<const AxisNode> node_;
};

/// The built-in reducers, and Custom for those of `reducer`.
enum class ReduceKind : uint8_t { Sum, Prod, Min, Max, Any, All, Custom };

/// How two partial results are combined. For a tuple reduction all vectors have one entry for each
/// component. The operation must be associative. `commutative` tells whether lanes and threads may
/// be combined in any order, as for all built-in reducers.
struct Combiner : RefCounted {
  ReduceKind kind = ReduceKind::Sum;
  std::string name;
  std::vector<Var> lhs, rhs;
  std::vector<Expr> result;    ///< in terms of lhs and rhs
  std::vector<Expr> identity;  ///< constants
  bool commutative = true;
  size_t size() const { return lhs.size(); }
};

/// Component `index` of a reduction over `axes`. It occurs only at the top of a declaration's body.
struct Reduce : ExprNode {
  static constexpr ExprKind kKind = ExprKind::Reduce;
  Reduce(Ref<const Combiner> c, std::vector<Expr> s, std::vector<Axis> a, int i);
  const Ref<const Combiner> combiner;
  const std::vector<Expr> sources;
  const std::vector<Axis> axes;
  const int index;
};

// ---- construction: each function checks types (throws a User error) and folds constants ----
/// An integer constant of type `t`.
Expr make_int(DataType t, int64_t value);
/// A floating-point constant of type `t`.
Expr make_float(DataType t, double value);
/// A constant of any element type.
Expr make_const(DataType t, double value);
/// An operator applied to `a`.
Expr make_unary(UnaryOp op, Expr a);
/// Operand types must match, with two exceptions. A constant takes the type of the other operand
/// where its value fits. An integer beside a float constant becomes a float where that is exact for
/// all its values, which follow from its type or from the extents of axes (`axis * 0.5f`).
Expr make_binary(BinaryOp op, Expr a, Expr b);
/// `on_true` where `condition` (bool) holds, else `on_false`.
Expr make_select(Expr condition, Expr on_true, Expr on_false);
/// An element of `buffer`. `indices` has one integer for each dimension.
Expr make_load(const Buffer& buffer, std::vector<Expr> indices);
/// Component `index` of the reduction of `sources` over `axes`.
Expr make_reduce(Ref<const Combiner> combiner, std::vector<Expr> sources, std::vector<Axis> axes,
                 int index = 0);
/// The vector base, base + stride, ..., of `lanes` lanes.
Expr make_ramp(Expr base, Expr stride, int lanes);
/// A vector of `lanes` lanes of one value.
Expr make_broadcast(Expr value, int lanes);
/// The value of lane (lane ^ lane_xor) of the warp.
Expr make_shuffle(Expr value, int lane_xor);
/// Converts the value and keeps the lanes. Float to int truncates. Anything to bool is `!= 0`.
Expr cast(DataType t, Expr value);

/// Operators on expressions; operands as for make_binary. Integer / and % truncate as in C;
/// floordiv and floormod round towards minus infinity. `min` and `max` of floats are NaN where an
/// operand is NaN.
Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);
Expr operator%(Expr a, Expr b);
Expr operator-(Expr a);
Condition operator!(Expr a);
Condition operator==(Expr a, Expr b);
Condition operator!=(Expr a, Expr b);
Condition operator<(Expr a, Expr b);
Condition operator<=(Expr a, Expr b);
Condition operator>(Expr a, Expr b);
Condition operator>=(Expr a, Expr b);
Condition operator&&(Expr a, Expr b);
Condition operator||(Expr a, Expr b);
Expr floordiv(Expr a, Expr b);
Expr floormod(Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);

// ---- inspection ----
/// The value of an integer constant (also through Broadcast), else null.
const int64_t* as_int(const Expr& e);
/// Whether `e` is a constant, and whether it is the constant `value` (also through Broadcast).
bool is_const(const Expr& e);
bool is_const(const Expr& e, double value);
/// Deep equality. Variables, axes and buffers are compared by identity.
bool equal(const Expr& a, const Expr& b);

/// Rebuilds `e` with `fn` applied to each direct child. Returns `e` itself where no child changed.
/// Does not enter a Reduce's combiner.
Expr map_children(const Expr& e, FunctionRef<Expr(const Expr&)> fn);
/// Calls `fn` on each direct child.
void for_each_child(const Expr& e, FunctionRef<void(const Expr&)> fn);
/// Calls `fn` on `e` and all nodes below it, parents first. A node with several parents is visited
/// once; leaves are visited as often as they occur.
void visit(const Expr& e, FunctionRef<void(const Expr&)> fn);
/// Whether `fn` holds for `e` or any node below it. Stops at the first such node and asks each node
/// once.
bool any_below(const Expr& e, FunctionRef<bool(const Expr&)> fn);
/// Whether `v` occurs in `e`.
bool uses_var(const Expr& e, const Var& v);

/// The nodes with several parents that a walk has visited. Expressions are graphs whose trees may
/// be exponentially larger, so a walk asks `first` before it goes down. The expressions must
/// outlive this object.
class SeenNodes {
 public:
  /// Whether `e` is visited for the first time. Always true for leaves and for nodes with one
  /// parent.
  bool first(const Expr& e) { return !e->shared() || is_leaf(e) || add(e.get()); }
  static bool is_leaf(const Expr& e) {
    return e.kind() == ExprKind::Var || e.kind() == ExprKind::IntImm ||
           e.kind() == ExprKind::FloatImm;
  }

 private:
  static constexpr size_t kFew = 16;
  bool add(const ExprNode* node);
  const ExprNode* few_[kFew];
  size_t count_ = 0;                          ///< of `few_`
  std::unordered_set<const ExprNode*> many_;  ///< in use once there are more than a few
};

/// The results of a rewrite for nodes with several parents, so that each is rewritten once. Keeps
/// the nodes and their results alive.
class RewriteMemo {
 public:
  /// `fn(e)`, or its remembered result.
  template <class Fn>
  Expr operator()(const Expr& e, const Fn& fn) {
    if (!e->shared() || SeenNodes::is_leaf(e)) return fn(e);
    if (const auto it = done_.find(e.get()); it != done_.end()) return it->second.second;
    Expr result = fn(e);
    done_.emplace(e.get(), std::pair(e, result));
    return result;
  }

 private:
  std::unordered_map<const ExprNode*, std::pair<Expr, Expr>> done_;
};

/// A variable and the expression that replaces it.
struct VarBinding {
  Var var;
  Expr value;
};
/// Replaces variables. Rebuilt nodes fold constants.
Expr substitute(const Expr& e, const std::vector<VarBinding>& bindings);

}  // namespace heddle
