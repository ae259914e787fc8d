// A parallel loop: its body becomes `void body(begin, end, context)`, where the context is a struct
// on the caller's stack with the values and pointers that the body uses. Also calls of nests that
// are functions of their own.
#include <algorithm>

#include "codegen/llvm/generator.h"

namespace heddle::codegen {

using llvm::Value;

namespace {

struct Captures {
  std::vector<const VarNode*> vars;
  std::vector<const BufferNode*> buffers;
};

template <class T, class Map>
void capture(std::vector<const T*>& list, const Map& in_scope, const T* node) {
  if (in_scope.count(node) && std::find(list.begin(), list.end(), node) == list.end()) {
    list.push_back(node);
  }
}

}  // namespace

void Generator::emit_parallel(const For& loop) {
  Captures captures;
  auto capture_in_expr = [&](const Expr& e) {
    if (auto* v = e.as<VarNode>()) capture(captures.vars, frame_.vars, v);
    if (auto* l = e.as<Load>()) capture(captures.buffers, frame_.buffers, l->buffer.get());
  };
  bool may_fail = false;
  visit(
      loop.body,
      [&](const Stmt& s) {
        if (auto* store = s.as<Store>()) {
          capture(captures.buffers, frame_.buffers, store->buffer.get());
        } else if (auto* prefetch = s.as<Prefetch>()) {
          capture(captures.buffers, frame_.buffers, prefetch->buffer.get());
        } else if (auto* allocate = s.as<Allocate>()) {
          may_fail = true;
          for (const Expr& extent : allocate->buffer->shape) visit(extent, capture_in_expr);
        }
      },
      capture_in_expr);

  Value* extent = ops_.cast(emit(loop.extent), loop.extent.dtype(), i64);
  memo_rewind(0);

  // ---- the context: status first, then what is captured ----
  std::vector<llvm::Type*> fields{b_.getInt32Ty()};
  std::vector<Value*> values{b_.getInt32(0)};
  for (const VarNode* v : captures.vars) {
    Value* value = frame_.vars[v];
    if (llvm::isa<llvm::Constant>(value)) continue;
    fields.push_back(value->getType());
    values.push_back(value);
  }
  // A buffer in registers can occur here only in a Prefetch, which has no effect on it.
  std::erase_if(captures.buffers, [&](const BufferNode* b) { return !frame_.buffers[b].base; });
  for (const BufferNode* buffer : captures.buffers) {
    fields.push_back(b_.getPtrTy());
    values.push_back(frame_.buffers[buffer].base);
  }
  auto* context_type = llvm::StructType::get(context(), fields);
  llvm::AllocaInst* context_slot =
      entry_alloca(context_type, module_.getDataLayout().getPrefTypeAlign(context_type), "context");
  for (size_t i = 0; i < values.size(); ++i) {
    b_.CreateStore(values[i], b_.CreateStructGEP(context_type, context_slot, i));
  }

  // ---- the body ----
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
  auto next_field = [&](const std::string& name) {
    Value* place = b_.CreateStructGEP(context_type, context_arg, field);
    auto* value = b_.CreateLoad(fields[field++], place, name);
    value->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context(), {}));
    return value;
  };
  for (const VarNode* v : captures.vars) {
    Value* outside = outer.vars[v];
    frame_.vars[v] = llvm::isa<llvm::Constant>(outside) ? outside : next_field(v->name);
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

  auto* run_type = llvm::FunctionType::get(b_.getInt32Ty(),
                                           {b_.getPtrTy(), b_.getPtrTy(), b_.getInt64Ty()}, false);
  b_.CreateCall(runtime_function("heddle_parallel_for", run_type), {body, context_slot, extent});
  if (may_fail) {
    Value* status =
        b_.CreateLoad(b_.getInt32Ty(), b_.CreateStructGEP(context_type, context_slot, 0), "status");
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
