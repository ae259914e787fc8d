// Expressions other than loads. `mask_` holds the lanes in which a load may be executed. It makes a
// select with a vector condition lazy.
#include "codegen/llvm/generator.h"
#include "heddle/support/error.h"
#include "ir/reads.h"

namespace heddle::codegen {

using llvm::Value;

bool contains_load(const Expr& e) {
  return any_below(e, [](const Expr& x) { return x.kind() == ExprKind::Load; });
}

// Whether computing `e` here reads memory that needs a mask. Registers may be read in any lane, and
// values that are computed already are not read again. In a statement that is computed whole, loads
// inside of their buffers are allowed.
bool Generator::reads_memory(const Expr& e) {
  SeenNodes seen;
  return reads_memory(e, seen);
}

bool Generator::reads_memory(const Expr& e, SeenNodes& seen) {
  if (!seen.first(e) || memo_.contains(e.get())) return false;
  if (auto* load = e.as<Load>(); load && storage_of(load->buffer).base)
    return !eager_ || !stays_inside(*load, ranges_);
  bool found = false;
  for_each_child(e, [&](const Expr& child) { found = found || reads_memory(child, seen); });
  return found;
}

// Nodes that both arms compute are computed in front of them. Otherwise each level of nested
// selects would double them.
void Generator::emit_common(const Expr& on_true, const Expr& on_false) {
  const auto known = [this](const Expr& e) { return memo_.contains(e.get()); };
  for (const Expr& e : computed_by_both(on_true, on_false, known)) emit(e);
}

void Generator::memo_rewind(size_t mark) {
  while (memo_log_.size() > mark) {
    memo_.erase(memo_log_.back().get());
    memo_log_.pop_back();
  }
}

Value* Generator::emit(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm:
    case ExprKind::Var: return emit_node(e);
    default: break;
  }
  if (auto it = memo_.find(e.get()); it != memo_.end()) return it->second;
  // A scalar inside a masked vector: its loads are executed if any lane is active.
  Value* value =
      mask_ && e.dtype().is_scalar() && reads_memory(e) ? emit_if_any_lane(e) : emit_node(e);
  if (memo_.emplace(e.get(), value).second) memo_log_.push_back(e);
  return value;
}

Value* Generator::emit_node(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm: return emit_constant(e);
    case ExprKind::Var: {
      auto it = frame_.vars.find(e.as<VarNode>());
      HEDDLE_ICHECK(it != frame_.vars.end(),
                    "variable '" + e.as<VarNode>()->name + "' is not in scope in '" + name_ + "'");
      return it->second;
    }
    case ExprKind::Cast: {
      if (Value* taken = emit_table(e)) return taken;
      const Expr& value = e.as<Cast>()->value;
      return ops_.cast(emit(value), value.dtype(), e.dtype());
    }
    case ExprKind::Unary: {
      const Unary& unary = *e.as<Unary>();
      return ops_.unary(unary.op, unary.a.dtype(), emit(unary.a));
    }
    case ExprKind::Binary: return emit_binary(*e.as<Binary>());
    case ExprKind::Select: {
      const Select& select = *e.as<Select>();
      return emit_select(select.condition, select.on_true, select.on_false);
    }
    case ExprKind::Load: return emit_load(*e.as<Load>());
    case ExprKind::Ramp: return emit_ramp(*e.as<Ramp>());
    case ExprKind::Broadcast:
      return ops_.splat(emit(e.as<Broadcast>()->value), padded_lanes(e.dtype()));
    case ExprKind::Shuffle:
    case ExprKind::Reduce: break;
  }
  throw_internal_error("a node that no CPU runs reached code generation in '" + name_ + "'");
}

Value* Generator::emit_constant(const Expr& e) {
  if (auto* i = e.as<IntImm>()) return ops_.int_constant(e.dtype(), i->value);
  return ops_.float_constant(e.dtype(), e.as<FloatImm>()->value);
}

Value* Generator::emit_ramp(const Ramp& r) {
  const int width = padded_lanes(r.dtype);
  llvm::Type* element = element_type(context(), r.dtype);
  llvm::SmallVector<llvm::Constant*, 64> steps;
  for (int i = 0; i < width; ++i) steps.push_back(int_like(element, i));
  Value* offsets = llvm::ConstantVector::get(steps);
  const bool nsw = in_index_ && r.dtype.element() == i64;
  if (!is_const(r.stride, 1)) {
    offsets = b_.CreateMul(offsets, ops_.splat(emit(r.stride), width), "", false, nsw);
  }
  return b_.CreateAdd(ops_.splat(emit(r.base), width), offsets, "", false, nsw);
}

Value* Generator::emit_binary(const Binary& e) {
  // The right operand is lazy, as in C, so that `i < n && A(i) > 0` is safe.
  if ((e.op == BinaryOp::And || e.op == BinaryOp::Or) && reads_memory(e.b)) {
    const Expr known = make_int(e.dtype, e.op == BinaryOp::Or);
    return e.op == BinaryOp::And ? emit_select(e.a, e.b, known) : emit_select(e.a, known, e.b);
  }
  if (Value* dot = emit_dot_products(e)) return dot;
  if (Value* taken = emit_table(Expr(&e))) return taken;
  const bool of_positions = e.op == BinaryOp::FloorDiv || e.op == BinaryOp::FloorMod ||
                            e.op == BinaryOp::Div || e.op == BinaryOp::Mod ||
                            e.op == BinaryOp::Min || e.op == BinaryOp::Max;
  if (of_positions && e.dtype.is_vector()) {
    if (auto pattern = as_lane_pattern(Expr(&e), ranges_))
      return emit_lane_pattern(*pattern, e.dtype);
  }
  ArithmeticFacts facts;
  facts.index = in_index_;
  switch (e.op) {
    case BinaryOp::Div:
    case BinaryOp::Mod:
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod:
      facts.nonnegative = e.dtype.is_int() && range_of(e.a, ranges_).min >= 0;
      break;
    default: break;
  }
  Value* a = emit(e.a);
  return ops_.binary(e.op, e.a.dtype(), a, emit(e.b), facts);
}

// Whether an expression is a few reads and operations of one instruction.
static bool is_cheap(const Expr& e) {
  constexpr double kFew = 24;
  TreeSizes sizes;
  return tree_size(e, sizes) <= kFew && !any_below(e, [](const Expr& x) {
           const Unary* u = x.as<Unary>();
           return u && u->op != UnaryOp::Neg && u->op != UnaryOp::Abs && u->op != UnaryOp::Not;
         });
}

Value* Generator::emit_select(const Expr& condition, const Expr& on_true, const Expr& on_false) {
  const bool gathered = condition.dtype().is_vector() && (gathers(on_true) || gathers(on_false));
  if (gathered) {
    if (Value* branched = emit_uniform_part(condition, on_true, on_false)) return branched;
  }
  Value* c = emit(condition);
  if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(c)) {
    return emit(constant->isOne() ? on_true : on_false);
  }
  if (reads_memory(on_true) || reads_memory(on_false)) emit_common(on_true, on_false);
  const bool lazy_true = reads_memory(on_true), lazy_false = reads_memory(on_false);
  // Of data a branch is a guess: reads that are safe are executed instead.
  const bool guessed = condition.dtype().is_scalar() && is_cheap(condition) &&
                       contains_load(condition) && is_cheap(on_true) && is_cheap(on_false);
  const bool safe =
      (gathered || guessed) && reads_as(on_true, condition) && reads_as(on_false, condition);
  if (safe || (!lazy_true && !lazy_false)) {
    Value* t = emit(on_true);
    return b_.CreateSelect(c, t, emit(on_false));
  }
  if (condition.dtype().is_scalar()) {
    return emit_branches(
        c, register_type(context(), on_true.dtype()), [&] { return emit(on_true); },
        [&] { return emit(on_false); });
  }
  const int lanes = condition.dtype().lanes;
  Value* t = lazy_true ? emit_masked(c, lanes, on_true) : emit(on_true);
  Value* f = lazy_false ? emit_masked(b_.CreateNot(c), lanes, on_false) : emit(on_false);
  return b_.CreateSelect(c, t, f);
}

Value* Generator::emit_branches(Value* condition, llvm::Type* type, FunctionRef<Value*()> on_true,
                                FunctionRef<Value*()> on_false) {
  llvm::BasicBlock* true_block = new_block("true");
  llvm::BasicBlock* false_block = new_block("false");
  llvm::BasicBlock* end = new_block("end.select");
  b_.CreateCondBr(condition, true_block, false_block);
  const size_t mark = memo_mark();
  b_.SetInsertPoint(true_block);
  Value* t = on_true();
  memo_rewind(mark);
  true_block = b_.GetInsertBlock();
  b_.CreateBr(end);
  b_.SetInsertPoint(false_block);
  Value* f = on_false();
  memo_rewind(mark);
  false_block = b_.GetInsertBlock();
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
  llvm::PHINode* phi = b_.CreatePHI(type, 2);
  phi->addIncoming(t, true_block);
  phi->addIncoming(f, false_block);
  return phi;
}

// Values computed under a mask are valid only in its lanes, so they are removed from the memo with
// it.
Value* Generator::emit_masked(Value* mask, int lanes, const Expr& e) {
  if (padded_lanes(lanes) != lanes) {
    mask = b_.CreateSelect(lane_mask(context(), lanes), mask,
                           llvm::Constant::getNullValue(mask->getType()));
  }
  Value* outer = mask_;
  const size_t mark = memo_mark();
  mask_ = outer ? b_.CreateAnd(outer, mask) : mask;
  Value* value = emit(e);
  memo_rewind(mark);
  mask_ = outer;
  return value;
}

Value* Generator::emit_if_any_lane(const Expr& e) {
  Value* mask = mask_;
  mask_ = nullptr;
  llvm::Type* type = register_type(context(), e.dtype());
  Value* value = emit_branches(
      b_.CreateOrReduce(mask), type, [&] { return emit_node(e); },
      [&]() -> Value* { return llvm::Constant::getNullValue(type); });
  mask_ = mask;
  return value;
}

}  // namespace heddle::codegen
