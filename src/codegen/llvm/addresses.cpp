// Addresses of elements. An index is split into a constant, which the instruction takes as its
// displacement, and terms that are added from the outermost loop's to the innermost's: partial sums
// then are the same for neighbouring accesses and do not change in inner loops.
#include <algorithm>

#include "codegen/llvm/generator.h"
#include "heddle/support/error.h"

namespace heddle::codegen {

using llvm::Value;

const Generator::Storage& Generator::storage_of(const Buffer& buffer) {
  auto it = frame_.buffers.find(buffer.get());
  HEDDLE_ICHECK(
      it != frame_.buffers.end(),
      "buffer '" + buffer->name + "' is neither an argument nor allocated in '" + name_ + "'");
  return it->second;
}

void Generator::annotate(llvm::Instruction* access, const Storage& storage) {
  if (!storage.own_scope) return;
  access->setMetadata(llvm::LLVMContext::MD_alias_scope, storage.own_scope);
  access->setMetadata(llvm::LLVMContext::MD_noalias, storage.other_scopes);
}

int Generator::depth_of(const Expr& e) {
  if (e.kind() == ExprKind::Load) return frame_.loops;
  if (auto* v = e.as<VarNode>()) {
    auto it = frame_.depth.find(v);
    return it == frame_.depth.end() ? 0 : it->second;
  }
  int depth = 0;
  for_each_child(e, [&](const Expr& child) { depth = std::max(depth, depth_of(child)); });
  return depth;
}

void Generator::flatten_index(const Expr& e, int64_t scale, std::vector<Term>& terms,
                              int64_t& constant) {
  if (auto* i = e.as<IntImm>()) {
    constant += scale * i->value;
    return;
  }
  if (auto* v = e.as<VarNode>()) {
    // A loop that runs once: its variable is a constant.
    auto it = frame_.vars.find(v);
    if (it != frame_.vars.end()) {
      if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(it->second)) {
        constant += scale * c->getSExtValue();
        return;
      }
    }
  }
  if (auto* binary = e.as<Binary>()) {
    switch (binary->op) {
      case BinaryOp::Add:
        flatten_index(binary->a, scale, terms, constant);
        return flatten_index(binary->b, scale, terms, constant);
      case BinaryOp::Sub:
        flatten_index(binary->a, scale, terms, constant);
        return flatten_index(binary->b, -scale, terms, constant);
      case BinaryOp::Mul:
        if (const int64_t* c = as_int(binary->b)) {
          return flatten_index(binary->a, scale * *c, terms, constant);
        }
        if (const int64_t* c = as_int(binary->a)) {
          return flatten_index(binary->b, scale * *c, terms, constant);
        }
        break;
      default: break;
    }
  }
  terms.push_back({e, scale, depth_of(e)});
}

Value* Generator::emit_index(const Expr& index) {
  const bool outer = std::exchange(in_index_, true);
  Value* value = ops_.cast(emit(index), index.dtype(), i64.with_lanes(index.dtype().lanes));
  in_index_ = outer;
  return value;
}

Value* Generator::address(const Storage& storage, DataType dtype, const Expr& index,
                          int64_t offset) {
  std::vector<Term> terms;
  if (index.dtype() == i64) {
    flatten_index(index, 1, terms, offset);
  } else {
    terms.push_back({index, 1, 0});
  }
  std::stable_sort(terms.begin(), terms.end(),
                   [](const Term& a, const Term& b) { return a.depth < b.depth; });
  Value* sum = nullptr;
  for (const Term& term : terms) {
    Value* value = emit_index(term.value);
    if (term.scale != 1) value = b_.CreateMul(value, b_.getInt64(term.scale), "", false, true);
    sum = sum ? b_.CreateAdd(sum, value, "", false, true) : value;
  }
  Value* pointer = storage.base;
  // The index without its constant may lie outside of the buffer, so the GEP is not inbounds.
  if (sum) {
    pointer = offset == 0 ? b_.CreateInBoundsGEP(element_memory(dtype), pointer, sum)
                          : b_.CreateGEP(element_memory(dtype), pointer, sum);
  }
  return advance(pointer, dtype, offset);
}

Value* Generator::advance(Value* pointer, DataType dtype, int64_t elements) {
  if (elements == 0) return pointer;
  return b_.CreateConstGEP1_64(element_memory(dtype), pointer, static_cast<uint64_t>(elements));
}

}  // namespace heddle::codegen
