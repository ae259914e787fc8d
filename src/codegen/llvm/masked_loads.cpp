// Loads of vectors that are not contiguous, where only some lanes may be read. A gather fetches lane by
// lane; what follows needs a load or two and a shuffle:
//
//   - a read that is inside of its buffer in every lane may be executed in every lane
//   - lanes that a mask leaves out, where the mask is constant, read what another lane reads
//   - a condition that is the same in all lanes is a branch, which leaves a constant mask inside
//   - a read at the position of one that the condition itself executed is as safe as that one
#include <algorithm>

#include "codegen/llvm/generator.h"
#include "ir/conjuncts.h"
#include "ir/reads.h"

namespace heddle::codegen {

using llvm::Value;

LanePattern pattern_of(const AffineLanes& lanes, int count) {
  LanePattern pattern{lanes.base, {}};
  for (int lane = 0; lane < count; ++lane) pattern.offsets.push_back(lane * *as_int(lanes.stride));
  return pattern;
}

// The pattern of the lanes that are active; no value where none is.
static std::optional<LanePattern> active_part(LanePattern pattern, const llvm::Constant& mask) {
  const auto active = [&](size_t lane) {
    const llvm::Constant* bit = mask.getAggregateElement(static_cast<unsigned>(lane));
    return bit && !bit->isNullValue();
  };
  size_t first = 0;
  while (first < pattern.offsets.size() && !active(first)) ++first;
  if (first == pattern.offsets.size()) return std::nullopt;
  int64_t last = pattern.offsets[first];
  for (size_t lane = 0; lane < pattern.offsets.size(); ++lane) {
    if (active(lane)) last = pattern.offsets[lane];
    pattern.offsets[lane] = last;
  }
  return pattern;
}

Value* Generator::load_active(const Load& load, const LanePattern& pattern) {
  const Storage& storage = storage_of(load.buffer);
  if (!mask_ || stays_inside(load, ranges_)) return load_pattern(storage, load.dtype, pattern);
  const auto* mask = llvm::dyn_cast<llvm::Constant>(mask_);
  if (!mask) return nullptr;
  const std::optional<LanePattern> active = active_part(pattern, *mask);
  if (!active) return llvm::Constant::getNullValue(register_type(context(), load.dtype));
  return load_pattern(storage, load.dtype, *active);
}

bool Generator::gathers(const Expr& e) {
  return any_below(e, [&](const Expr& x) {
    const Load* load = x.as<Load>();
    if (!load || memo_.contains(x.get()) || load->dtype.is_scalar()) return false;
    const std::optional<AffineLanes> lanes = as_affine_lanes(load->indices[0]);
    const int64_t* stride = lanes ? as_int(lanes->stride) : nullptr;
    return (!stride || std::abs(*stride) > 1) && !stays_inside(*load, ranges_);
  });
}

// The loads that computing `e` executes, whatever it gives: the right operands of "and" and "or" and
// the arms of a select may be left out.
static void add_executed(const Expr& e, std::vector<Expr>* to) {
  const Binary* op = e.as<Binary>();
  if (e.kind() == ExprKind::Load)
    to->push_back(e);
  else if (const Select* select = e.as<Select>())
    add_executed(select->condition, to);
  else if (op && (op->op == BinaryOp::And || op->op == BinaryOp::Or))
    add_executed(op->a, to);
  else
    for_each_child(e, [&](const Expr& child) { add_executed(child, to); });
}

bool Generator::reads_as(const Expr& e, const Expr& condition) {
  std::vector<Expr> executed;
  add_executed(condition, &executed);
  const auto is_safe = [&](const Load& load) {
    if (stays_inside(load, ranges_)) return true;
    return std::ranges::any_of(executed, [&](const Expr& x) {
      const Load& other = *x.as<Load>();
      return equal(load.indices[0], other.indices[0]) &&
             std::ranges::equal(load.buffer->shape, other.buffer->shape,
                                [](const Expr& a, const Expr& b) { return equal(a, b); });
    });
  };
  return !any_below(e, [&](const Expr& x) { return x.as<Load>() && !is_safe(*x.as<Load>()); });
}

// select(uniform && rest, a, b) as a branch on `uniform`. Null where there is no such part, or where
// `b`, which both sides of the branch would compute, reads memory.
Value* Generator::emit_uniform_part(const Expr& condition, const Expr& on_true,
                                    const Expr& on_false) {
  std::vector<Expr> all;
  add_conjuncts(condition, all);
  Expr uniform, rest;
  const auto join = [](const Expr& a, const Expr& b) { return a.defined() ? a && b : b; };
  for (const Expr& c : all) {
    const Broadcast* same = c.as<Broadcast>();
    if (same)
      uniform = join(uniform, same->value);
    else
      rest = join(rest, c);
  }
  if (!uniform.defined() || reads_memory(on_false)) return nullptr;
  return emit_branches(
      emit(uniform), register_type(context(), on_true.dtype()),
      [&] { return rest.defined() ? emit_select(rest, on_true, on_false) : emit(on_true); },
      [&] { return emit(on_false); });
}

}  // namespace heddle::codegen
