// Parallel loops, and calls of nests that are functions of their own. The body of a parallel loop
// becomes `void body(begin, end, context)`. The context is a struct on the caller's stack that
// holds the values and pointers that the body uses.
#include <algorithm>

#include "codegen/llvm/generator.h"
#include "codegen/llvm/loop_work.h"
#include "ir/sizes.h"

namespace heddle::codegen {

using llvm::Value;

namespace {

template <class T, class Map>
void capture(std::vector<const T*>& list, const Map& in_scope, const T* node) {
  if (in_scope.count(node) && std::find(list.begin(), list.end(), node) == list.end()) {
    list.push_back(node);
  }
}

bool is_constant(llvm::Value* value) { return llvm::isa<llvm::Constant>(value); }

bool depends_on_sizes(const For& loop, const std::vector<const VarNode*>& captured) {
  return !sizes_in(loop.extent).empty() ||
         std::any_of(captured.begin(), captured.end(),
                     [](const VarNode* v) { return v->size.has_value(); });
}

}  // namespace

Generator::Captures Generator::captures_of(const Stmt& body) {
  Captures captures;
  const auto in_expr = [&](const Expr& e) {
    if (auto* v = e.as<VarNode>()) capture(captures.vars, frame_.vars, v);
    if (auto* l = e.as<Load>()) capture(captures.buffers, frame_.buffers, l->buffer.get());
  };
  visit(
      body,
      [&](const Stmt& s) {
        if (auto* store = s.as<Store>()) {
          capture(captures.buffers, frame_.buffers, store->buffer.get());
        } else if (auto* prefetch = s.as<Prefetch>()) {
          capture(captures.buffers, frame_.buffers, prefetch->buffer.get());
        } else if (auto* allocate = s.as<Allocate>()) {
          captures.may_fail = true;
          for (const Expr& extent : allocate->buffer->shape) visit(extent, in_expr);
        }
      },
      in_expr);
  // A buffer in registers can occur here only in a Prefetch, which has no effect on it.
  std::erase_if(captures.buffers, [&](const BufferNode* b) { return !frame_.buffers[b].base; });
  return captures;
}

llvm::AllocaInst* Generator::emit_context(const Captures& captures) {
  std::vector<llvm::Type*> fields{b_.getInt32Ty()};
  std::vector<Value*> values{b_.getInt32(0)};
  for (const VarNode* v : captures.vars) {
    Value* value = frame_.vars[v];
    if (is_constant(value)) continue;
    fields.push_back(value->getType());
    values.push_back(value);
  }
  for (const BufferNode* buffer : captures.buffers) {
    fields.push_back(b_.getPtrTy());
    values.push_back(frame_.buffers[buffer].base);
  }
  auto* type = llvm::StructType::get(context(), fields);
  llvm::AllocaInst* slot =
      entry_alloca(type, module_.getDataLayout().getPrefTypeAlign(type), "context");
  for (size_t i = 0; i < values.size(); ++i)
    b_.CreateStore(values[i], b_.CreateStructGEP(type, slot, i));
  return slot;
}

llvm::Function* Generator::emit_parallel_body(const For& loop, const Captures& captures,
                                              llvm::StructType* context_type) {
  Frame outer = std::move(frame_);
  const llvm::IRBuilderBase::InsertPoint outer_point = b_.saveIP();
  auto* body_type = llvm::FunctionType::get(
      b_.getVoidTy(), {b_.getInt64Ty(), b_.getInt64Ty(), b_.getPtrTy()}, false);
  llvm::Function* body =
      begin_function(body_type, name_ + ".parallel" + std::to_string(parallel_loops_++),
                     llvm::GlobalValue::InternalLinkage);
  frame_.parallel_body = true;
  Value* context_arg = body->getArg(2);
  frame_.status = b_.CreateStructGEP(context_type, context_arg, 0);
  unsigned field = 1;
  const auto next_field = [&](const std::string& name) {
    Value* place = b_.CreateStructGEP(context_type, context_arg, field);
    auto* value = b_.CreateLoad(context_type->getElementType(field++), place, name);
    value->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context(), {}));
    return value;
  };
  for (const VarNode* v : captures.vars) {
    Value* outside = outer.vars[v];
    frame_.vars[v] = is_constant(outside) ? outside : next_field(v->name);
    frame_.depth[v] = 0;
  }
  for (const BufferNode* buffer : captures.buffers) {
    Storage storage = outer.buffers[buffer];
    storage.base = next_field(buffer->name);
    frame_.buffers[buffer] = std::move(storage);
  }
  const bool configured = begin_tiles(loop.body);
  emit_loop(loop, body->getArg(0), body->getArg(1), true);
  if (configured) end_tiles();
  emit_leave(0);
  end_function();
  frame_ = std::move(outer);
  b_.restoreIP(outer_point);
  return body;
}

// Shares the iterations among threads. Where the sizes of the call say how much work they are, this
// thread runs a little of it alone.
void Generator::emit_shared(const For& loop, const Captures& captures, llvm::Function* body,
                            Value* slot, Value* extent) {
  auto* run_type = llvm::FunctionType::get(b_.getInt32Ty(),
                                           {b_.getPtrTy(), b_.getPtrTy(), b_.getInt64Ty()}, false);
  const auto share = [&] {
    b_.CreateCall(runtime_function("heddle_parallel_for", run_type), {body, slot, extent});
  };
  const Expr work = depends_on_sizes(loop, captures.vars) ? work_of(loop) : Expr(0);
  if (is_const(work)) return share();
  Value* little = emit(work < make_const(f64, kLeastParallelWork));
  memo_rewind(0);
  llvm::BasicBlock *alone = new_block("alone"), *shared = new_block("shared"),
                   *end = new_block("end.parallel");
  b_.CreateCondBr(little, alone, shared);
  b_.SetInsertPoint(alone);
  b_.CreateCall(body, {b_.getInt64(0), extent, slot})->setIsNoInline();
  b_.CreateBr(end);
  b_.SetInsertPoint(shared);
  share();
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
}

void Generator::emit_parallel(const For& loop) {
  const Captures captures = captures_of(loop.body);
  Value* extent = ops_.cast(emit(loop.extent), loop.extent.dtype(), i64);
  memo_rewind(0);
  llvm::AllocaInst* slot = emit_context(captures);
  auto* context_type = llvm::cast<llvm::StructType>(slot->getAllocatedType());
  llvm::Function* body = emit_parallel_body(loop, captures, context_type);
  emit_shared(loop, captures, body, slot, extent);
  if (captures.may_fail) {
    Value* status =
        b_.CreateLoad(b_.getInt32Ty(), b_.CreateStructGEP(context_type, slot, 0), "status");
    emit_failure(b_.CreateIsNotNull(status));
  }
}

void Generator::emit_call(const NestCall& call) {
  auto* array = llvm::ArrayType::get(b_.getPtrTy(), call.buffers.size());
  llvm::AllocaInst* args = entry_alloca(array, llvm::Align(8), "args");
  for (size_t i = 0; i < call.buffers.size(); ++i) {
    b_.CreateStore(storage_of(call.buffers[i]).base,
                   b_.CreateConstInBoundsGEP2_64(array, args, 0, i));
  }
  auto* type = llvm::FunctionType::get(b_.getInt32Ty(), {b_.getPtrTy()}, false);
  Value* status = b_.CreateCall(runtime_function(call.symbol.c_str(), type), {args}, "status");
  emit_failure(b_.CreateIsNotNull(status));
}

}  // namespace heddle::codegen
