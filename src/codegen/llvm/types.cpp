#include "codegen/llvm/types.h"

#include <bit>

#include "heddle/support/error.h"
#include "llvm/IR/Constants.h"

namespace heddle::codegen {

int padded_lanes(int lanes) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(lanes)));
}

llvm::Type* element_type(llvm::LLVMContext& context, DataType t) {
  switch (t.code) {
    case TypeCode::Bool: return llvm::Type::getInt1Ty(context);
    case TypeCode::Int:
    case TypeCode::UInt: return llvm::Type::getIntNTy(context, t.bits);
    case TypeCode::BFloat: return llvm::Type::getInt16Ty(context);
    case TypeCode::E4M3:
    case TypeCode::E5M2: return llvm::Type::getInt8Ty(context);
    case TypeCode::Float:
      if (t.bits == 64) return llvm::Type::getDoubleTy(context);
      if (t.bits == 32) return llvm::Type::getFloatTy(context);
      if (t.bits == 16) return llvm::Type::getHalfTy(context);
      break;
  }
  throw_internal_error("no machine type for " + to_string(t));
}

llvm::Type* element_memory_type(llvm::LLVMContext& context, DataType t) {
  return t.is_bool() ? llvm::Type::getInt8Ty(context) : element_type(context, t);
}

llvm::Type* with_lanes(llvm::Type* element, int lanes) {
  return lanes == 1 ? element : llvm::FixedVectorType::get(element, lanes);
}

llvm::Type* register_type(llvm::LLVMContext& context, DataType t) {
  return with_lanes(element_type(context, t), padded_lanes(t));
}

llvm::Type* memory_type(llvm::LLVMContext& context, DataType t) {
  return with_lanes(element_memory_type(context, t), padded_lanes(t));
}

int lanes_of(llvm::Value* v) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return vector ? static_cast<int>(vector->getNumElements()) : 1;
}

llvm::Constant* lane_mask(llvm::LLVMContext& context, int lanes) {
  llvm::SmallVector<llvm::Constant*, 64> bits;
  for (int i = 0; i < padded_lanes(lanes); ++i) {
    bits.push_back(llvm::ConstantInt::getBool(context, i < lanes));
  }
  return llvm::ConstantVector::get(bits);
}

llvm::Constant* int_like(llvm::Type* type, int64_t value) {
  return llvm::ConstantInt::get(type, static_cast<uint64_t>(value), true);
}

llvm::Constant* float_like(llvm::Type* type, double value) {
  return llvm::ConstantFP::get(type, value);
}

}  // namespace heddle::codegen
