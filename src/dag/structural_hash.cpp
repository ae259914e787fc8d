// A hash of what a graph computes, for records and caches that live longer than a process.
//
// Nothing in it comes from a name, an address or an order of creation: stages count in their order
// from the outputs, axes by position in their operation, other variables in order of appearance.
// Operators enter by their spelling and not by their number, so that adding one changes no hash.
// Changing anything here makes every record on disk unreadable: see the golden value in the tests.
#include <unordered_map>

#include "dag/internal.h"
#include "heddle/support/hash.h"

namespace heddle::dag {
namespace {

/// Distinguishes what is hashed next; the values are part of the format.
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
};

uint64_t of(DataType t) { return hash_string(to_string(t)); }

class StageHasher {
 public:
  explicit StageHasher(const StageIndex& index) : index_(index) {}

  uint64_t hash(const Operation& op) {
    scope_.clear();
    memo_.clear();
    if (op.is_placeholder()) {
      const Buffer& buffer = op.output_buffer(0);
      uint64_t h = hash_combine(kPlaceholder, of(buffer->dtype));
      h = hash_combine(h, op.is_constant() ? 1 : 0);
      return hash_combine(h, hash(buffer->shape));
    }
    uint64_t h = hash_combine(kCompute, op.axes().size());
    for (const Axis& a : op.axes()) h = hash_combine(h, hash(a->extent));
    h = hash_combine(h, op.reduce_axes().size());
    for (const Axis& a : op.reduce_axes()) h = hash_combine(h, hash(a->extent));
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

  uint64_t hash(const std::vector<Expr>& list) {
    uint64_t h = list.size();
    for (const Expr& e : list) h = hash_combine(h, hash(e));
    return h;
  }

  uint64_t hash(const Expr& e) {
    if (const auto it = memo_.find(e.get()); it != memo_.end()) return it->second;
    const uint64_t h = hash_combine(hash_node(e), of(e.dtype()));
    memo_.emplace(e.get(), h);
    return h;
  }

  uint64_t hash_var(const VarNode* v) {
    if (const auto it = scope_.find(v); it != scope_.end()) return it->second;
    // A symbolic size: it keeps its number through the whole graph.
    return hash_combine(kSymbol, symbols_.try_emplace(v, symbols_.size()).first->second);
  }

  uint64_t hash_load(const Load& load) {
    const Tensor t = tensor_of(load.buffer);
    HEDDLE_ICHECK(static_cast<bool>(t), "'" + load.buffer->name + "' is no tensor");
    uint64_t h = hash_combine(kLoad, static_cast<uint64_t>(index_.at(t.op())));
    h = hash_combine(h, static_cast<uint64_t>(t.index()));
    return hash_combine(h, hash(load.indices));
  }

  uint64_t hash_reduce(const Reduce& r) {
    uint64_t h = hash_combine(kReduce, static_cast<uint64_t>(r.index));
    h = hash_combine(h, r.axes.size());
    for (const Axis& a : r.axes) h = hash_combine(h, hash_var(a.var().get()));
    h = hash_combine(h, hash(r.sources));
    return hash_combine(h, hash_combiner(*r.combiner));
  }

  /// By what it computes: a user's reducer that adds equals sum.
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
      case ExprKind::IntImm:
        return hash_combine(kInt, static_cast<uint64_t>(e.as<IntImm>()->value));
      case ExprKind::FloatImm: return hash_combine(kFloat, hash_double(e.as<FloatImm>()->value));
      case ExprKind::Var: return hash_var(e.as<VarNode>());
      case ExprKind::Cast: return hash_combine(kCast, hash(e.as<Cast>()->value));
      case ExprKind::Unary: {
        const auto* u = e.as<Unary>();
        return hash_combine(hash_combine(kUnary, hash_string(to_string(u->op))), hash(u->a));
      }
      case ExprKind::Binary: {
        const auto* b = e.as<Binary>();
        const uint64_t h = hash_combine(kBinary, hash_string(to_string(b->op)));
        return hash_combine(hash_combine(h, hash(b->a)), hash(b->b));
      }
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
    }
    return 0;
  }

  const StageIndex& index_;
  std::unordered_map<const VarNode*, uint64_t> scope_;
  std::unordered_map<const VarNode*, uint64_t> symbols_;
  std::unordered_map<const ExprNode*, uint64_t> memo_;  // valid for one operation
};

}  // namespace

uint64_t hash_stages(const std::vector<Ref<const Operation>>& stages, const StageIndex& index,
                     const std::vector<Tensor>& outputs) {
  StageHasher hasher(index);
  uint64_t h = stages.size();
  for (const auto& op : stages) h = hash_combine(h, hasher.hash(*op));
  for (const Tensor& t : outputs) {
    h = hash_combine(h, hash_combine(kOutput, static_cast<uint64_t>(index.at(t.op()))));
    h = hash_combine(h, static_cast<uint64_t>(t.index()));
  }
  return h;
}

}  // namespace heddle::dag
