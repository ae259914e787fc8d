#include <algorithm>

#include "codegen/llvm/generator.h"
#include "heddle/support/error.h"
#include "ir/reads.h"
#include "llvm/IR/MDBuilder.h"

namespace heddle::codegen {

using llvm::Value;

namespace {

constexpr int64_t kMaxStackBuffer = 64 << 10;  // of one buffer
constexpr int64_t kMaxStackFrame =
    256 << 10;  // of all in a function: the stacks of threads have 8 MiB or less

// `!llvm.loop` metadata that disables LLVM's own unrolling and vectorisation, because the schedule
// has decided both. Each loop has a distinct node.
llvm::MDNode* loop_metadata(llvm::LLVMContext& context, bool unroll) {
  auto flag = [&](const char* name) {
    return llvm::MDNode::get(context, llvm::MDString::get(context, name));
  };
  llvm::Metadata* off = llvm::ConstantAsMetadata::get(llvm::ConstantInt::getFalse(context));
  llvm::SmallVector<llvm::Metadata*, 4> parts{nullptr};
  parts.push_back(flag(unroll ? "llvm.loop.unroll.full" : "llvm.loop.unroll.disable"));
  parts.push_back(llvm::MDNode::get(
      context, {llvm::MDString::get(context, "llvm.loop.vectorize.enable"), off}));
  parts.push_back(flag("llvm.loop.mustprogress"));
  llvm::MDNode* node = llvm::MDNode::getDistinct(context, parts);
  node->replaceOperandWith(0, node);
  return node;
}

}  // namespace

void Generator::emit(const Stmt& s) {
  switch (s.kind()) {
    case StmtKind::For:
      if (auto nest = calls_.find(s.get());
          nest != calls_.end() &&
          nest->second.symbol != name_)  // which is the function being defined
        return emit_call(nest->second);
      if (emit_tiles({s}, 0) > 0) return;
      return emit_for(*s.as<For>());
    case StmtKind::If: return emit_if(*s.as<If>());
    case StmtKind::Let: return emit_let(*s.as<Let>());
    case StmtKind::Allocate: return emit_allocate(*s.as<Allocate>());
    case StmtKind::Block: {
      const std::vector<Stmt>& stmts = s.as<Block>()->stmts;
      for (size_t i = 0; i < stmts.size();) {
        size_t done = emit_transposed(stmts, i);
        if (done == 0) done = emit_tiles(stmts, i);
        if (done == 0) emit(stmts[i]);
        i += std::max<size_t>(1, done);
      }
      return;
    }
    case StmtKind::Store:
      eager_ = is_large_tree(s.as<Store>()->value);
      emit_store(*s.as<Store>());
      eager_ = false;
      break;
    case StmtKind::Prefetch: emit_prefetch(*s.as<Prefetch>()); break;
    case StmtKind::Sync:
    case StmtKind::TileOp: throw_internal_error("a GPU statement reached '" + name_ + "'");
  }
  memo_rewind(0);  // memory has changed, and the next instruction may be in another block
}

void Generator::bind(const Var& v, Value* value, Interval range) {
  frame_.vars[v.get()] = value;
  frame_.depth[v.get()] = llvm::isa<llvm::Constant>(value) ? 0 : frame_.loops;
  ranges_.set(v, range);
}

void Generator::unbind(const Var& v) {
  frame_.vars.erase(v.get());
  frame_.depth.erase(v.get());
  ranges_.erase(v);
  loaded_lanes_.clear();  // the variable may be bound to another value
}

void Generator::emit_for(const For& loop) {
  const int64_t* extent = as_int(loop.extent);
  if (extent && *extent <= 0) return;
  if (extent && *extent == 1) {
    bind(loop.var, ops_.int_constant(loop.var->dtype, 0), {0, 0});
    emit(loop.body);
    unbind(loop.var);
    return;
  }
  if (loop.loop == LoopKind::Parallel && !frame_.parallel_body) return emit_parallel(loop);
  Value* end = ops_.cast(emit(loop.extent), loop.extent.dtype(), i64);
  memo_rewind(0);
  const bool configured = begin_tiles(loop.body);
  emit_loop(loop, b_.getInt64(0), end, !extent);
  if (configured) end_tiles();
}

// The loop is rotated: its test is at the end, with another test in front where the loop may have
// no iteration.
void Generator::emit_loop(const For& loop, Value* begin, Value* end, bool maybe_empty) {
  emit_loop(loop, begin, end, maybe_empty, [&] { emit(loop.body); });
}

void Generator::emit_loop(const For& loop, Value* begin, Value* end, bool maybe_empty,
                          FunctionRef<void()> emit_body) {
  llvm::BasicBlock* body = new_block(loop.var->name.c_str());
  llvm::BasicBlock* done = new_block("done");
  llvm::BasicBlock* before = b_.GetInsertBlock();
  if (maybe_empty) {
    b_.CreateCondBr(b_.CreateICmpSLT(begin, end), body, done);
  } else {
    b_.CreateBr(body);
  }
  b_.SetInsertPoint(body);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2, loop.var->name);
  i->addIncoming(begin, before);
  const Interval extent = range_of(loop.extent, ranges_);
  const int64_t last = extent.max == Interval::kPosInf ? extent.max : extent.max - 1;
  ++frame_.loops;
  bind(loop.var, ops_.cast(i, i64, loop.var->dtype), {0, last});
  emit_body();
  unbind(loop.var);
  --frame_.loops;
  Value* next = b_.CreateAdd(i, b_.getInt64(1), "", true, true);
  llvm::BranchInst* back = b_.CreateCondBr(b_.CreateICmpSLT(next, end), body, done);
  back->setMetadata(llvm::LLVMContext::MD_loop,
                    loop_metadata(context(), loop.loop == LoopKind::Unrolled));
  i->addIncoming(next, b_.GetInsertBlock());
  b_.SetInsertPoint(done);
}

void Generator::emit_if(const If& s) {
  if (s.condition.dtype().is_vector()) {
    const Store* store = s.then_body.as<Store>();
    HEDDLE_ICHECK(store && !s.else_body, "an If with a vector condition has one Store");
    return emit_masked_store(s.condition, *store);
  }
  Value* condition = emit(s.condition);
  memo_rewind(0);
  llvm::BasicBlock* then_block = new_block("then");
  llvm::BasicBlock* else_block = s.else_body ? new_block("else") : nullptr;
  llvm::BasicBlock* end = new_block("end.if");
  b_.CreateCondBr(condition, then_block, else_block ? else_block : end);
  // Where loops were cut, `v < constant` separates the parts.
  const Binary* less = s.condition.as<Binary>();
  const VarNode* var = less && less->op == BinaryOp::Lt ? less->a.as<VarNode>() : nullptr;
  const int64_t* bound = var ? as_int(less->b) : nullptr;
  const Interval before = bound ? ranges_.get(var) : Interval{};
  auto within = [&](Interval range) {
    if (range.min <= range.max) ranges_.set(Var::from(less->a), range);
  };
  b_.SetInsertPoint(then_block);
  if (bound) within({before.min, std::min(before.max, *bound - 1)});
  if (s.then_body) emit(s.then_body);
  b_.CreateBr(end);
  if (else_block) {
    b_.SetInsertPoint(else_block);
    if (bound) within({std::max(before.min, *bound), before.max});
    emit(s.else_body);
    b_.CreateBr(end);
  }
  if (bound) within(before);
  b_.SetInsertPoint(end);
}

void Generator::emit_let(const Let& s) {
  Value* value = emit(s.value);
  memo_rewind(0);
  const bool integral = s.value.dtype().is_integral();
  bind(s.var, value, integral ? range_of(s.value, ranges_) : Interval{});
  emit(s.body);
  unbind(s.var);
}

Value* Generator::emit_bytes(const Buffer& buffer) {
  Value* bytes = b_.getInt64(buffer->dtype.bytes());
  for (const Expr& extent : buffer->shape) {
    bytes = b_.CreateMul(bytes, ops_.cast(emit(extent), extent.dtype(), i64), "", false, true);
  }
  memo_rewind(0);
  return bytes;
}

void Generator::emit_allocate(const Allocate& s) {
  const Buffer& buffer = s.buffer;
  const auto [own, others] = alias_scopes_[buffer.get()];
  Storage storage{nullptr, own, others, {}};
  Value* block = nullptr;
  int64_t bytes = buffer->dtype.bytes();
  for (const Expr& extent : buffer->shape) {
    const int64_t* n = as_int(extent);
    bytes = n && bytes >= 0 ? bytes * *n : -1;
  }
  std::optional<std::vector<Chunk>> chunks;
  if (buffer->scope == Scope::Local) chunks = plan_chunks(buffer, s.body);
  if (chunks) {
    storage.chunks = std::move(*chunks);
    for (Chunk& chunk : storage.chunks) {
      llvm::Type* type = register_type(context(), buffer->dtype.with_lanes(chunk.lanes));
      chunk.slot = entry_alloca(type, module_.getDataLayout().getPrefTypeAlign(type), buffer->name);
    }
  } else if (buffer->scope == Scope::Local && bytes >= 0 && bytes <= kMaxStackBuffer &&
             frame_.stack_bytes + bytes <= kMaxStackFrame) {
    frame_.stack_bytes += bytes;
    auto* type = llvm::ArrayType::get(b_.getInt8Ty(), static_cast<uint64_t>(bytes));
    storage.base = entry_alloca(type, llvm::Align(64), buffer->name);
  } else {
    auto* type = llvm::FunctionType::get(b_.getPtrTy(), {b_.getInt64Ty()}, false);
    block = b_.CreateCall(runtime_function("heddle_workspace_alloc", type), {emit_bytes(buffer)},
                          buffer->name);
    emit_failure(b_.CreateIsNull(block));
    frame_.workspaces.push_back(block);
    storage.base = block;
  }
  frame_.buffers[buffer.get()] = std::move(storage);
  emit(s.body);
  frame_.buffers.erase(buffer.get());
  if (block) {
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy()}, false);
    b_.CreateCall(runtime_function("heddle_workspace_free", type), {block});
    frame_.workspaces.pop_back();
  }
}

}  // namespace heddle::codegen
