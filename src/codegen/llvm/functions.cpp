// LLVM functions: their attributes, frames and exits.
#include <algorithm>

#include "codegen/llvm/generator.h"
#include "heddle/support/error.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/MDBuilder.h"

namespace heddle::codegen {

using llvm::Value;

Generator::Generator(llvm::Module& module, const Machine& machine, const NestCalls& calls)
    : module_(module),
      machine_(machine),
      calls_(calls),
      b_(module.getContext()),
      ops_(b_, machine_) {
  llvm::FastMathFlags flags;
  flags.setAllowContract();  // a * b + c may become one operation; sums keep their order
  b_.setFastMathFlags(flags);
}

llvm::Function* Generator::begin_function(llvm::FunctionType* type, const std::string& name,
                                          llvm::GlobalValue::LinkageTypes linkage) {
  llvm::Function* function = llvm::Function::Create(type, linkage, name, module_);
  function->setDoesNotThrow();
  function->setMustProgress();
  function->addFnAttr("target-cpu", machine_.cpu);
  if (!machine_.features.empty()) function->addFnAttr("target-features", machine_.features);
  // Never min-legal-vector-width: below 512 it would split explicit 64-byte vectors.
  function->addFnAttr("prefer-vector-width", std::to_string(machine_.vector_bytes * 8));
  function->addFnAttr("no-trapping-math", "true");
  frame_ = Frame{};
  frame_.function = function;
  frame_.entry = new_block("entry");
  b_.SetInsertPoint(new_block("body"));
  return function;
}

void Generator::end_function() {
  llvm::BasicBlock* body = frame_.entry->getNextNode();
  Builder(frame_.entry).CreateBr(body);
}

llvm::AllocaInst* Generator::entry_alloca(llvm::Type* type, llvm::Align align,
                                          const std::string& name) {
  Builder at_entry(frame_.entry);
  llvm::AllocaInst* slot = at_entry.CreateAlloca(type, nullptr, name);
  slot->setAlignment(align);
  return slot;
}

llvm::FunctionCallee Generator::runtime_function(const char* name, llvm::FunctionType* type) {
  llvm::FunctionCallee callee = module_.getOrInsertFunction(name, type);
  llvm::cast<llvm::Function>(callee.getCallee())->setDoesNotThrow();
  return callee;
}

// One alias scope for each argument and shared temporary, because no two of them overlap. LLVM
// proves by itself that Local buffers do not alias, and an unrolled loop may have hundreds of them.
void Generator::make_alias_scopes(const LoweredFunction& function) {
  alias_scopes_.clear();
  written_.clear();
  std::vector<const BufferNode*> buffers;
  for (const Buffer& buffer : function.args) buffers.push_back(buffer.get());
  visit(
      function.body,
      [&](const Stmt& s) {
        if (auto* store = s.as<Store>()) written_.insert(store->buffer.get());
        auto* allocate = s.as<Allocate>();
        if (!allocate || allocate->buffer->scope == Scope::Local) return;
        const BufferNode* buffer = allocate->buffer.get();
        if (std::find(buffers.begin(), buffers.end(), buffer) == buffers.end()) {
          buffers.push_back(buffer);
        }
      },
      [](const Expr&) {});
  llvm::MDBuilder builder(context());
  llvm::MDNode* domain = builder.createAnonymousAliasScopeDomain(function.name);
  std::vector<llvm::Metadata*> scopes;
  for (const BufferNode* buffer : buffers) {
    scopes.push_back(builder.createAnonymousAliasScope(domain, buffer->name));
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    std::vector<llvm::Metadata*> others = scopes;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    alias_scopes_[buffers[i]] = {llvm::MDNode::get(context(), scopes[i]),
                                 llvm::MDNode::get(context(), others)};
  }
}

void Generator::add(const LoweredFunction& function, const std::string& name) {
  name_ = name;
  parallel_loops_ = 0;
  ranges_ = Ranges{};
  make_alias_scopes(function);
  auto* type = llvm::FunctionType::get(b_.getInt32Ty(), {b_.getPtrTy()}, false);
  llvm::Function* entry = begin_function(type, name, llvm::GlobalValue::ExternalLinkage);
  Value* args = entry->getArg(0);
  args->setName("args");
  entry->addParamAttr(0, llvm::Attribute::NoCapture);
  entry->addParamAttr(0, llvm::Attribute::ReadOnly);
  entry->addParamAttr(0, llvm::Attribute::NonNull);
  for (size_t i = 0; i < function.args.size(); ++i) {
    const Buffer& buffer = function.args[i];
    Value* place = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), args, i);
    auto* pointer = b_.CreateAlignedLoad(b_.getPtrTy(), place, llvm::Align(8), buffer->name);
    pointer->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context(), {}));
    const auto [own, others] = alias_scopes_[buffer.get()];
    frame_.buffers[buffer.get()] = Storage{pointer, own, others, {}};
  }
  for (size_t i = 0; i < function.sizes.size(); ++i) {
    const Var& size = function.sizes[i];
    Value* place = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), args, function.args.size() + i);
    auto* value = b_.CreateAlignedLoad(b_.getInt64Ty(), place, llvm::Align(8), size->name);
    value->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context(), {}));
    bind(size, value, {size->size->lo, size->size->hi});
  }
  if (function.body) emit(function.body);
  emit_leave(0);
  end_function();
}

// Leaves the function with `status` when `failed` (an i1).
void Generator::emit_failure(Value* failed) {
  llvm::BasicBlock* fail = new_block("fail");
  llvm::BasicBlock* go_on = new_block("go.on");
  b_.CreateCondBr(failed, fail, go_on, llvm::MDBuilder(context()).createUnlikelyBranchWeights());
  b_.SetInsertPoint(fail);
  auto* free_type = llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy()}, false);
  for (Value* block : frame_.workspaces) {
    b_.CreateCall(runtime_function("heddle_workspace_free", free_type), {block});
  }
  emit_leave(1);
  b_.SetInsertPoint(go_on);
}

void Generator::emit_leave(int status) {
  // Non-temporal data must be visible to other threads before a flag is.
  if (frame_.nontemporal && machine_.x86) {
    b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
  }
  if (!frame_.parallel_body) {
    b_.CreateRet(b_.getInt32(status));
    return;
  }
  if (status != 0) {
    llvm::StoreInst* report =
        b_.CreateAlignedStore(b_.getInt32(status), frame_.status, llvm::Align(4));
    report->setAtomic(llvm::AtomicOrdering::Monotonic);
  }
  b_.CreateRetVoid();
}

}  // namespace heddle::codegen
