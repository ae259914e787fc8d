// A hash of what a graph computes, for records and caches that live longer than a process.
//
// It does not depend on names, addresses or the order of creation. Stages are numbered in their
// order from the outputs, axes by position in their operation, other variables in order of
// appearance. Operators enter by their spelling and not by their number, so that a new one changes
// no hash. Any change of this file makes all records on disk unreachable: see the golden value in
// the tests.
//
// The same walk gives the hash of the structure alone (Detail::Structure), which groups similar
// declarations. It leaves out extents and the numbers that follow from extents.
#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "dag/internal.h"
#include "support/hashing/hash.h"

namespace heddle::dag {
namespace {

/// Tags that distinguish what is hashed next. Their values are part of the format.
enum Tag : uint64_t {
  kPlaceholder = 1,
  kCompute = 2,
  kOutput = 3,
  kInt = 10,
  kFloat,
  kSpatialAxis,
  kReduceAxis,
  kLeft,
  kRight,
  kSymbol,
  kCast,
  kUnary,
  kBinary,
  kSelect,
  kLoad,
  kReduce,
  kRamp,
  kBroadcast,
  kCombiner,
  kExtent,
  kPlaceNumber,
  kMean,
};

uint64_t of(DataType t) { return hash_string(to_string(t)); }

/// The largest factor of an index that counts as a stride or a dilation. Larger factors are row
/// lengths of a reshape.
constexpr int64_t kLargestStride = 8;

/// Whether `value` is a count of elements, one less (an unbiased variance), its root (the scale of
/// attention), or the inverse of one of these. Such values follow from extents. Of small counts
/// only the count itself is recognised, because 2 and 3 occur in many formulas.
bool follows_from(double value, const std::vector<int64_t>& counts) {
  const double size = std::abs(value);
  if (size == 0 || size == 1) return false;
  const double n = size > 1 ? size : 1 / size;
  const auto near = [&](double x) { return std::abs(n - x) < 1e-6 * x; };
  return std::any_of(counts.begin(), counts.end(), [&](int64_t count) {
    const auto c = static_cast<double>(count);
    return count > 1 && (near(c) || (count > 16 && (near(c - 1) || near(std::sqrt(c)))));
  });
}

class StageHasher {
 public:
  /// `counts`: the numbers of elements of the reductions of the graph.
  StageHasher(const StageIndex& index, Detail detail, std::vector<int64_t> counts)
      : index_(index), structure_(detail == Detail::Structure), counts_(std::move(counts)) {}

  uint64_t hash(const Operation& op) {
    scope_.clear();
    for (auto& memo : memo_) memo.clear();
    if (op.is_placeholder()) {
      const Buffer& buffer = op.output_buffer(0);
      uint64_t h = hash_combine(kPlaceholder, of(buffer->dtype));
      h = hash_combine(h, op.is_constant() ? 1 : 0);
      return hash_combine(h, hash_extents(buffer->shape));
    }
    uint64_t h = hash_combine(kCompute, op.axes().size());
    for (const Axis& a : op.axes()) h = hash_combine(h, hash_extent(a->extent));
    h = hash_combine(h, op.reduce_axes().size());
    for (const Axis& a : op.reduce_axes()) h = hash_combine(h, hash_extent(a->extent));
    bind(op.axes(), kSpatialAxis);
    bind(op.reduce_axes(), kReduceAxis);
    return hash_combine(h, hash(op.bodies()));
  }

 private:
  void bind(const std::vector<Axis>& axes, Tag tag) {
    for (std::size_t p = 0; p < axes.size(); ++p) {
      scope_[axes[p].var().get()] = hash_combine(tag, p);
    }
  }

  uint64_t hash_extent(const Expr& extent) {
    return structure_ && as_int(extent) != nullptr ? hash_combine(kExtent, 0) : hash(extent);
  }
  uint64_t hash_extents(const std::vector<Expr>& shape) {
    uint64_t h = shape.size();
    for (const Expr& e : shape) h = hash_combine(h, hash_extent(e));
    return h;
  }

  uint64_t hash(const std::vector<Expr>& list) {
    uint64_t h = list.size();
    for (const Expr& e : list) h = hash_combine(h, hash(e));
    return h;
  }

  uint64_t hash(const Expr& e) {
    auto& memo = memo_[place_ ? 1 : 0];
    if (const auto it = memo.find(e.get()); it != memo.end()) return it->second;
    const uint64_t h = hash_combine(hash_node(e), of(e.dtype()));
    memo.emplace(e.get(), h);
    return h;
  }

  /// Hashes `e` as part of a position: an index, or a value that an index is compared with.
  template <class What>
  uint64_t hash_place(const What& e, bool place = true) {
    const bool before = std::exchange(place_, place && structure_);
    const uint64_t h = hash(e);
    place_ = before;
    return h;
  }

  /// Whole numbers in positions come from shapes (padding, the start of a slice, the cuts of a
  /// reshape). They are left out, except strides and dilations.
  uint64_t hash_int(int64_t value) {
    if (place_) return hash_combine(kPlaceNumber, 0);
    return hash_combine(kInt, static_cast<uint64_t>(value));
  }
  uint64_t hash_float(double value) {
    if (structure_ && follows_from(value, counts_)) return hash_combine(kMean, 0);
    return hash_combine(kFloat, hash_double(value));
  }

  static bool compares(BinaryOp op) {
    return op == BinaryOp::Eq || op == BinaryOp::Ne || op == BinaryOp::Lt || op == BinaryOp::Le;
  }

  uint64_t hash_binary(const Binary& b) {
    const uint64_t h = hash_combine(kBinary, hash_string(to_string(b.op)));
    if (place_ && b.op == BinaryOp::Mul) {
      for (const auto& [factor, other] : {std::pair(b.a, b.b), std::pair(b.b, b.a)}) {
        const int64_t* stride = as_int(factor);
        if (stride == nullptr || std::abs(*stride) > kLargestStride) continue;
        return hash_combine(hash_combine(h, static_cast<uint64_t>(*stride)), hash(other));
      }
    }
    const bool place = place_ || (compares(b.op) && b.a.dtype().is_int());
    return hash_combine(hash_combine(h, hash_place(b.a, place)), hash_place(b.b, place));
  }

  uint64_t hash_var(const VarNode* v) {
    if (const auto it = scope_.find(v); it != scope_.end()) return it->second;
    // A symbolic size keeps its number throughout the graph.
    const uint64_t h =
        hash_combine(kSymbol, symbols_.try_emplace(v, symbols_.size()).first->second);
    if (!v->size) return h;
    return hash_combine(hash_combine(h, static_cast<uint64_t>(v->size->lo)),
                        static_cast<uint64_t>(v->size->hi));
  }

  uint64_t hash_load(const Load& load) {
    const Tensor t = tensor_of(load.buffer);
    HEDDLE_ICHECK(static_cast<bool>(t), "'" + load.buffer->name + "' is no tensor");
    uint64_t h = hash_combine(kLoad, static_cast<uint64_t>(index_.at(t.op())));
    h = hash_combine(h, static_cast<uint64_t>(t.index()));
    return hash_combine(h, hash_place(load.indices));
  }

  uint64_t hash_reduce(const Reduce& r) {
    uint64_t h = hash_combine(kReduce, static_cast<uint64_t>(r.index));
    h = hash_combine(h, r.axes.size());
    for (const Axis& a : r.axes) h = hash_combine(h, hash_var(a.var().get()));
    h = hash_combine(h, hash(r.sources));
    return hash_combine(h, hash_combiner(*r.combiner));
  }

  /// Hashes a reducer by its formula, so a user-defined reducer that adds equals sum.
  uint64_t hash_combiner(const Combiner& c) {
    for (std::size_t i = 0; i < c.size(); ++i) {
      scope_[c.lhs[i].get()] = hash_combine(kLeft, i);
      scope_[c.rhs[i].get()] = hash_combine(kRight, i);
    }
    uint64_t h = hash_combine(kCombiner, c.commutative ? 1 : 0);
    h = hash_combine(h, hash(c.result));
    return hash_combine(h, hash(c.identity));
  }

  uint64_t hash_node(const Expr& e) {
    switch (e.kind()) {
      case ExprKind::IntImm: return hash_int(e.as<IntImm>()->value);
      case ExprKind::FloatImm: return hash_float(e.as<FloatImm>()->value);
      case ExprKind::Var: return hash_var(e.as<VarNode>());
      case ExprKind::Cast: {
        // An integer that is converted to a float for computation, such as a count of elements made
        // of indices.
        const Expr& value = e.as<Cast>()->value;
        return hash_combine(
            kCast, hash_place(value, place_ || (value.dtype().is_int() && e.dtype().is_float())));
      }
      case ExprKind::Unary: {
        const auto* u = e.as<Unary>();
        return hash_combine(hash_combine(kUnary, hash_string(to_string(u->op))), hash(u->a));
      }
      case ExprKind::Binary: return hash_binary(*e.as<Binary>());
      case ExprKind::Select: {
        const auto* s = e.as<Select>();
        const uint64_t h = hash_combine(kSelect, hash(s->condition));
        return hash_combine(hash_combine(h, hash(s->on_true)), hash(s->on_false));
      }
      case ExprKind::Load: return hash_load(*e.as<Load>());
      case ExprKind::Reduce: return hash_reduce(*e.as<Reduce>());
      case ExprKind::Ramp: {
        const auto* r = e.as<Ramp>();
        return hash_combine(hash_combine(kRamp, hash(r->base)), hash(r->stride));
      }
      case ExprKind::Broadcast: return hash_combine(kBroadcast, hash(e.as<Broadcast>()->value));
      case ExprKind::Shuffle: break;  // never in a declaration
    }
    return 0;
  }

  const StageIndex& index_;
  bool structure_ = false;
  bool place_ = false;  ///< true only where structure_ is
  std::vector<int64_t> counts_;
  std::unordered_map<const VarNode*, uint64_t> scope_;
  std::unordered_map<const VarNode*, uint64_t> symbols_;
  // Indexed by place_. The hashes are valid for one operation.
  std::array<std::unordered_map<const ExprNode*, uint64_t>, 2> memo_;
};

}  // namespace

uint64_t hash_stages(const std::vector<Ref<const Operation>>& stages, const StageIndex& index,
                     const std::vector<Tensor>& outputs, Detail detail) {
  std::vector<int64_t> counts;
  for (const auto& op : stages) {
    int64_t count = 1;
    for (const Axis& a : op->reduce_axes()) {
      counts.push_back(extent_of(a->extent));
      count *= extent_of(a->extent);
    }
    counts.push_back(count);
  }
  StageHasher hasher(index, detail, std::move(counts));
  uint64_t h = stages.size();
  for (const auto& op : stages) h = hash_combine(h, hasher.hash(*op));
  for (const Tensor& t : outputs) {
    h = hash_combine(h, hash_combine(kOutput, static_cast<uint64_t>(index.at(t.op()))));
    h = hash_combine(h, static_cast<uint64_t>(t.index()));
  }
  return h;
}

}  // namespace heddle::dag
