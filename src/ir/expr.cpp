// Nodes: construction with their hashes, destruction, and the identities (Var, Axis).
#include "heddle/ir/expr.h"

#include <utility>

#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "support/hashing/hash.h"

namespace heddle {
namespace {

uint64_t start_hash(ExprKind kind, DataType t) {
  return mix64(static_cast<uint64_t>(kind) | static_cast<uint64_t>(t.code) << 8 |
               static_cast<uint64_t>(t.bits) << 16 | static_cast<uint64_t>(t.lanes) << 24);
}

template <class... H>
uint64_t node_hash(ExprKind kind, DataType t, H... parts) {
  uint64_t h = start_hash(kind, t);
  ((h = hash_combine(h, static_cast<uint64_t>(parts))), ...);
  return h;
}

uint64_t node_hash(ExprKind kind, DataType t, uint64_t head, const std::vector<Expr>& children) {
  uint64_t h = hash_combine(start_hash(kind, t), head);
  for (const Expr& c : children) h = hash_combine(h, c->hash);
  return h;
}

uint64_t reduce_hash(const Combiner& combiner, DataType t, const std::vector<Expr>& sources,
                     const std::vector<Axis>& axes, int index) {
  uint64_t h = node_hash(ExprKind::Reduce, t, static_cast<uint64_t>(combiner.kind), sources);
  for (const Axis& axis : axes) h = hash_combine(h, axis.var()->hash);
  return hash_combine(h, static_cast<uint64_t>(index));
}

uint64_t next_var_id() {
  static std::atomic<uint64_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed) + 1;
}

DataType reduce_type(const Ref<const Combiner>& c, int index) {
  HEDDLE_ICHECK(c && index >= 0 && static_cast<size_t>(index) < c->result.size(),
                "a reduction has no component " + std::to_string(index));
  return c->result[static_cast<size_t>(index)].dtype();
}

}  // namespace

namespace {

/// Deletes nodes of which the last handle is gone. A node may hold the last handles of its children
/// and, through a load, of an operation and all that it reads. So that such a chain does not fill
/// the stack, nodes below some depth wait until those above are gone.
class Deletion {
 public:
  template <class T>
  static void run(const ExprNode* node) {
    Deletion& here = of_thread;
    if (here.depth_ >= kDeepest) {
      if (here.waiting_ == nullptr) here.waiting_ = new std::vector<Waiting>;
      here.waiting_->push_back({node, &remove<T>});
      return;
    }
    ++here.depth_;
    remove<T>(node);
    if (here.depth_ == 1) here.remove_waiting();
    --here.depth_;
  }

 private:
  struct Waiting {
    const ExprNode* node;
    void (*remove)(const ExprNode*);
  };
  static constexpr int kDeepest = 64;

  template <class T>
  static void remove(const ExprNode* node) {
    delete static_cast<const T*>(node);
  }
  void remove_waiting() {
    if (waiting_ == nullptr) return;
    while (!waiting_->empty()) {
      const Waiting next = waiting_->back();
      waiting_->pop_back();
      next.remove(next.node);
    }
    delete std::exchange(waiting_, nullptr);
  }

  // Of a trivial type, because expressions of static storage are deleted after those of the thread.
  static thread_local constinit Deletion of_thread;
  int depth_ = 0;
  std::vector<Waiting>* waiting_ = nullptr;
};

thread_local constinit Deletion Deletion::of_thread;

}  // namespace

void ExprNode::destroy(const ExprNode* node) {
  switch (node->kind) {
    case ExprKind::IntImm: delete static_cast<const IntImm*>(node); return;
    case ExprKind::FloatImm: delete static_cast<const FloatImm*>(node); return;
    case ExprKind::Var: delete static_cast<const VarNode*>(node); return;
    case ExprKind::Cast: return Deletion::run<Cast>(node);
    case ExprKind::Unary: return Deletion::run<Unary>(node);
    case ExprKind::Binary: return Deletion::run<Binary>(node);
    case ExprKind::Select: return Deletion::run<Select>(node);
    case ExprKind::Load: return Deletion::run<Load>(node);
    case ExprKind::Reduce: return Deletion::run<Reduce>(node);
    case ExprKind::Ramp: return Deletion::run<Ramp>(node);
    case ExprKind::Broadcast: return Deletion::run<Broadcast>(node);
    case ExprKind::Shuffle: return Deletion::run<Shuffle>(node);
  }
}

Expr Expr::from_int(int64_t value) { return Expr(new IntImm(i64, value)); }
Expr Expr::from_uint(uint64_t value) {
  const bool fits = value <= static_cast<uint64_t>(INT64_MAX);
  return Expr(new IntImm(fits ? i64 : u64, static_cast<int64_t>(value)));
}
Expr::Expr(float value) : Expr(new FloatImm(f32, static_cast<double>(value))) {}
Expr::Expr(double value) : Expr(new FloatImm(f64, value)) {}
Expr::Expr(bool value) : Expr(new IntImm(boolean, value ? 1 : 0)) {}

IntImm::IntImm(DataType t, int64_t v) : ExprNode(kKind, t, node_hash(kKind, t, v)), value(v) {}

FloatImm::FloatImm(DataType t, double v)
    : ExprNode(kKind, t, node_hash(kKind, t, hash_double(v))), value(v) {}

VarNode::VarNode(std::string name, DataType t, int64_t extent)
    : VarNode(std::move(name), t, extent, next_var_id()) {}
VarNode::VarNode(std::string name, SizeRange size)
    : VarNode(std::move(name), i64, -1, next_var_id(), size) {}
VarNode::VarNode(std::string name, DataType t, int64_t extent, uint64_t id,
                 std::optional<SizeRange> size)
    : ExprNode(kKind, t, node_hash(kKind, t, id)),
      name(std::move(name)),
      id(id),
      extent(extent),
      size(size) {}

Cast::Cast(DataType t, Expr v)
    : ExprNode(kKind, t, node_hash(kKind, t, v->hash)), value(std::move(v)) {}

Unary::Unary(UnaryOp o, DataType t, Expr x)
    : ExprNode(kKind, t, node_hash(kKind, t, o, x->hash)), op(o), a(std::move(x)) {}

Binary::Binary(BinaryOp o, DataType t, Expr x, Expr y)
    : ExprNode(kKind, t, node_hash(kKind, t, o, x->hash, y->hash)),
      op(o),
      a(std::move(x)),
      b(std::move(y)) {}

Select::Select(Expr c, Expr t, Expr f)
    : ExprNode(kKind, t.dtype(), node_hash(kKind, t.dtype(), c->hash, t->hash, f->hash)),
      condition(std::move(c)),
      on_true(std::move(t)),
      on_false(std::move(f)) {}

Load::Load(Buffer b, std::vector<Expr> i, DataType t)
    : ExprNode(kKind, t, node_hash(kKind, t, b->id, i)),
      buffer(std::move(b)),
      indices(std::move(i)) {}

Ramp::Ramp(Expr b, Expr s, int lanes)
    : ExprNode(kKind, b.dtype().with_lanes(lanes),
               node_hash(kKind, b.dtype().with_lanes(lanes), b->hash, s->hash)),
      base(std::move(b)),
      stride(std::move(s)) {}

Broadcast::Broadcast(Expr v, int lanes)
    : ExprNode(kKind, v.dtype().with_lanes(lanes),
               node_hash(kKind, v.dtype().with_lanes(lanes), v->hash)),
      value(std::move(v)) {}

Shuffle::Shuffle(Expr v, int m)
    : ExprNode(kKind, v.dtype(), node_hash(kKind, v.dtype(), v->hash, static_cast<uint64_t>(m))),
      value(std::move(v)),
      lane_xor(m) {}

Reduce::Reduce(Ref<const Combiner> c, std::vector<Expr> s, std::vector<Axis> a, int i)
    : ExprNode(kKind, reduce_type(c, i), reduce_hash(*c, reduce_type(c, i), s, a, i)),
      combiner(std::move(c)),
      sources(std::move(s)),
      axes(std::move(a)),
      index(i) {}

Var::Var(std::string name, DataType t, int64_t extent)
    : expr_(new VarNode(std::move(name), t, extent)) {}
Var::Var(std::string name, SizeRange size) : expr_(new VarNode(std::move(name), size)) {}

namespace {

Var axis_var(std::string name, const Expr& extent) {
  const bool known = as_int(extent) || is_symbolic(extent);
  return Var(std::move(name), i64, known ? heddle::largest_extent(extent) : -1);
}

}  // namespace

Axis::Axis(std::string name, Expr extent, AxisKind kind)
    : node_(new AxisNode(axis_var(std::move(name), extent), extent, kind)) {
  HEDDLE_ICHECK(node_->extent.defined() && node_->extent.dtype() == i64,
                "the extent of an axis is i64");
}

void Axis::fail_unassigned() {
  throw_user_error(
      "an Axis that was never assigned is used", {},
      "a compute gives its body the axes of its shape; reduce_axis makes one to reduce "
      "over");
}

int64_t Axis::extent() const {
  const int64_t* value = as_int(assigned().extent);
  if (!value) fail_symbolic("axis '" + name() + "'", assigned().extent);
  return *value;
}

int64_t Axis::largest_extent() const { return heddle::largest_extent(assigned().extent); }

}  // namespace heddle
