#include "codegen/interpreter/compile.h"

#include <optional>

namespace heddle::interp {
namespace {

struct IntConstant final : Node {
  explicit IntConstant(std::int64_t v) : value(v) {}
  std::int64_t int_value() override { return value; }
  std::int64_t value;
};

struct FloatConstant final : Node {
  explicit FloatConstant(double v) : value(v) {}
  double float_value() override { return value; }
  double value;
};

struct ScalarVar final : Node {
  explicit ScalarVar(const Slot* s) : slot(s) {}
  std::int64_t int_value() override { return slot->i; }
  double float_value() override { return slot->f; }
  const Slot* slot;
};

struct VectorVar final : Node {
  VectorVar(const Slot* s, const Slot* l) : slots(s), lane(l) {}
  std::int64_t int_value() override { return slots[lane->i].i; }
  double float_value() override { return slots[lane->i].f; }
  const Slot *slots, *lane;
};

struct LinearNode final : Node {
  explicit LinearNode(Linear l) : linear(std::move(l)) {}
  std::int64_t int_value() override { return linear.value(); }
  Linear linear;
};

struct SelectNode final : Node {
  SelectNode(Node* c, Node* t, Node* f) : condition(c), on_true(t), on_false(f) {}
  std::int64_t int_value() override {
    return condition->int_value() != 0 ? on_true->int_value() : on_false->int_value();
  }
  double float_value() override {
    return condition->int_value() != 0 ? on_true->float_value() : on_false->float_value();
  }
  Node *condition, *on_true, *on_false;
};

/// base + lane * stride in the width of a type narrower than i64.
template <typename T>
struct RampNode final : Node {
  RampNode(Node* b, Node* s, const Slot* l) : base(b), stride(s), lane(l) {}
  std::int64_t int_value() override {
    return Int<T>::wrap(static_cast<std::int64_t>(static_cast<std::uint64_t>(base->int_value()) +
                                                  static_cast<std::uint64_t>(stride->int_value()) *
                                                      static_cast<std::uint64_t>(lane->i)));
  }
  Node *base, *stride;
  const Slot* lane;
};

/// lane * stride, where the stride is not a constant.
struct LaneTimes final : Node {
  LaneTimes(Node* s, const Slot* l) : stride(s), lane(l) {}
  std::int64_t int_value() override {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(stride->int_value()) *
                                     static_cast<std::uint64_t>(lane->i));
  }
  Node* stride;
  const Slot* lane;
};

/// Evaluates a shared expression once in each epoch. Otherwise a chain of shared expressions would
/// take exponential time.
struct Shared final : Node {
  Shared(const Context* c, Node* n) : context(c), node(n) {}
  std::int64_t int_value() override {
    if (epoch != context->epoch) {
      value.i = node->int_value();
      epoch = context->epoch;
    }
    return value.i;
  }
  double float_value() override {
    if (epoch != context->epoch) {
      value.f = node->float_value();
      epoch = context->epoch;
    }
    return value.f;
  }
  const Context* context;
  Node* node;
  std::uint64_t epoch = ~std::uint64_t{0};
  Slot value{0};
};

bool is_linear_op(const Expr& e) {
  if (e.dtype().element() != i64) return false;
  switch (e.kind()) {
    case ExprKind::IntImm:
    case ExprKind::Ramp:
    case ExprKind::Broadcast: return true;
    case ExprKind::Var: return e.dtype().is_scalar();
    case ExprKind::Unary: return e.as<Unary>()->op == UnaryOp::Neg;
    case ExprKind::Binary: {
      const auto* b = e.as<Binary>();
      return b->op == BinaryOp::Add || b->op == BinaryOp::Sub ||
             (b->op == BinaryOp::Mul && (as_int(b->a) != nullptr || as_int(b->b) != nullptr));
    }
    case ExprKind::FloatImm:
    case ExprKind::Cast:
    case ExprKind::Select:
    case ExprKind::Load:
    case ExprKind::Shuffle:
    case ExprKind::Reduce: return false;
  }
  return false;
}

bool worth_sharing(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm:
    case ExprKind::Var:
    case ExprKind::Ramp:
    case ExprKind::Broadcast: return false;
    case ExprKind::Cast:
    case ExprKind::Unary:
    case ExprKind::Binary:
    case ExprKind::Select:
    case ExprKind::Shuffle:
    case ExprKind::Load:
    case ExprKind::Reduce: return !is_linear_op(e);
  }
  return false;
}

const Expr& require_scalar(const Expr& e, const char* what) {
  HEDDLE_ICHECK(e.dtype().is_scalar(), std::string("interpreter: ") + what + " of a vector");
  return e;
}

}  // namespace

Slot* Compiler::bind(const VarNode* v) {
  const int lanes = v->dtype.lanes;
  const auto [it, added] = scope_.insert({v, {program_->make_slots(lanes), lanes}});
  HEDDLE_ICHECK(added, "variable '" + v->name + "' is bound inside its own scope");
  return it->second.slots;
}

Memory* Compiler::bind(const Buffer& b) {
  Memory* m = program_->make_memory(b);
  const bool added = memory_.insert({b.get(), m}).second;
  HEDDLE_ICHECK(added, "buffer '" + b->name + "' is bound inside its own scope");
  return m;
}

Memory* Compiler::memory_of(const Buffer& b) const {
  const auto it = memory_.find(b.get());
  if (it == memory_.end()) {
    program_->context.fail("buffer '" + b->name +
                           "' is neither an argument nor allocated around this use");
  }
  return it->second;
}

const Compiler::Binding& Compiler::lookup(const VarNode* v) const {
  const auto it = scope_.find(v);
  if (it == scope_.end()) {
    program_->context.fail("variable '" + v->name + "' is used outside its scope");
  }
  return it->second;
}

void Compiler::begin_unit(const std::vector<Expr>& roots) {
  uses_.clear();
  nodes_.clear();
  linear_.clear();
  roots_ = roots;
  for (const Expr& e : roots_) count_uses(e);
}

void Compiler::count_uses(const Expr& e) {
  if (++uses_[e.get()] > 1) return;
  for_each_child(e, [this](const Expr& child) { count_uses(child); });
}

Node* Compiler::compile(const Expr& e) {
  if (const auto it = nodes_.find(e.get()); it != nodes_.end()) return it->second;
  Node* node = compile_new(e);
  if (const auto it = uses_.find(e.get());
      it != uses_.end() && it->second > 1 && worth_sharing(e)) {
    node = program_->make<Shared>(&program_->context, node);
  }
  nodes_.emplace(e.get(), node);
  return node;
}

Node* Compiler::compile_new(const Expr& e) {
  if (is_linear_op(e)) {
    Linear sum = compile_index(e);
    if (sum.is_constant()) return program_->make<IntConstant>(sum.constant());
    if (const Slot* slot = sum.single_slot()) return program_->make<ScalarVar>(slot);
    if (Node* node = sum.single_node()) return node;
    return program_->make<LinearNode>(std::move(sum));
  }
  switch (e.kind()) {
    case ExprKind::IntImm: {
      const std::int64_t v = e.as<IntImm>()->value;
      return with_int_type(e.dtype(), [&](auto t) -> Node* {
        return program_->make<IntConstant>(decltype(t)::wrap(v));
      });
    }
    case ExprKind::FloatImm: {
      const double v = e.as<FloatImm>()->value;
      return with_float_type(e.dtype(), [&](auto t) -> Node* {
        return program_->make<FloatConstant>(decltype(t)::round(v));
      });
    }
    case ExprKind::Var: return compile_var(e.as<VarNode>());
    case ExprKind::Cast: {
      const auto* c = e.as<Cast>();
      return make_cast(*program_, c->value.dtype().element(), e.dtype().element(),
                       compile(c->value));
    }
    case ExprKind::Unary: {
      const auto* u = e.as<Unary>();
      const DataType type = u->a.dtype().element();
      Node* a = compile(u->a);
      return type.is_float() ? make_float_unary(*program_, u->op, type, a)
                             : make_int_unary(*program_, u->op, type, a);
    }
    case ExprKind::Binary: return compile_binary(e.as<Binary>());
    case ExprKind::Select: {
      const auto* s = e.as<Select>();
      return program_->make<SelectNode>(compile(s->condition), compile(s->on_true),
                                        compile(s->on_false));
    }
    case ExprKind::Load: return compile_load(e.as<Load>());
    case ExprKind::Ramp: {
      const auto* r = e.as<Ramp>();
      Node* base = compile(require_scalar(r->base, "a ramp"));
      Node* stride = compile(require_scalar(r->stride, "a ramp"));
      return with_int_type(e.dtype(), [&](auto t) -> Node* {
        using T = typename decltype(t)::Value;
        return program_->make<RampNode<T>>(base, stride, &program_->context.lane);
      });
    }
    case ExprKind::Broadcast:
      return compile(require_scalar(e.as<Broadcast>()->value, "a broadcast"));
    case ExprKind::Shuffle: program_->context.fail("lanes of a warp: run it in the GPU emulator");
    case ExprKind::Reduce: program_->context.fail("a reduction inside an expression");
  }
  throw_internal_error("interpreter: unknown expression");
}

Node* Compiler::compile_load(const Load* l) {
  return make_load(*program_, l->buffer->dtype, compile_address(l->buffer, l->indices));
}

Node* Compiler::compile_var(const VarNode* v) {
  const Binding& b = lookup(v);
  if (b.lanes == 1) return program_->make<ScalarVar>(b.slots);
  return program_->make<VectorVar>(b.slots, &program_->context.lane);
}

Node* Compiler::compile_binary(const Binary* b) {
  const DataType type = b->a.dtype().element();
  Node* x = compile(b->a);
  Node* y = compile(b->b);
  return type.is_float() ? make_float_binary(*program_, b->op, type, x, y)
                         : make_int_binary(*program_, b->op, type, x, y);
}

Linear Compiler::compile_index(const Expr& e) {
  if (const auto it = linear_.find(e.get()); it != linear_.end()) return it->second;
  Linear sum = linear_new(e);
  linear_.emplace(e.get(), sum);
  return sum;
}

Linear Compiler::linear_new(const Expr& e) {
  if (!is_linear_op(e)) {
    const auto* c = e.as<Cast>();
    const bool same_type =
        c != nullptr && e.dtype().element() == i64 && c->value.dtype().element() == i64;
    return same_type ? compile_index(c->value) : Linear::of(compile(e));
  }
  const Slot* lane = &program_->context.lane;
  if (const auto* imm = e.as<IntImm>()) return Linear(imm->value);
  if (const auto* v = e.as<VarNode>()) return Linear::of(lookup(v).slots, 1);
  if (const auto* b = e.as<Broadcast>()) {
    return compile_index(require_scalar(b->value, "a broadcast"));
  }
  Linear sum;
  if (const auto* u = e.as<Unary>()) {
    sum.add(compile_index(u->a), -1);
  } else if (const auto* r = e.as<Ramp>()) {
    sum = compile_index(require_scalar(r->base, "a ramp"));
    const std::int64_t* stride = as_int(r->stride);
    sum.add(stride != nullptr ? Linear::of(lane, *stride)
                              : Linear::of(program_->make<LaneTimes>(
                                    compile(require_scalar(r->stride, "a ramp")), lane)),
            1);
  } else if (const auto* b = e.as<Binary>()) {
    if (b->op == BinaryOp::Mul) {
      const std::int64_t* factor = as_int(b->b);
      sum.add(compile_index(factor != nullptr ? b->a : b->b),
              factor != nullptr ? *factor : *as_int(b->a));
    } else {
      sum.add(compile_index(b->a), 1);
      sum.add(compile_index(b->b), b->op == BinaryOp::Add ? 1 : -1);
    }
  }
  return sum;
}

Address Compiler::compile_address(const Buffer& buffer, const std::vector<Expr>& indices) {
  Address address;
  address.context = &program_->context;
  address.memory = memory_of(buffer);
  HEDDLE_ICHECK(indices.size() == buffer->shape.size() || indices.size() == 1,
                "interpreter: '" + buffer->name + "' has " + std::to_string(buffer->shape.size()) +
                    " dimensions but is accessed with " + std::to_string(indices.size()) +
                    " indices");
  for (const Expr& index : indices) address.indices.push_back(compile_index(index));
  return address;
}

}  // namespace heddle::interp
