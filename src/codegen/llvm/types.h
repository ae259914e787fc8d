// The representation of Heddle's types in LLVM.
//
// In registers: bool is i1, bf16 is its bits in an i16 (LLVM's bfloat becomes library calls), and a
// vector of n lanes has the next power of two; the lanes past n hold arbitrary values on which no
// operation can trap. In memory: bool is a byte, and exactly n lanes exist.
#pragma once

#include "heddle/support/dtype.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/IRBuilder.h"

namespace heddle::codegen {

using Builder = llvm::IRBuilder<>;

int padded_lanes(int lanes);
inline int padded_lanes(DataType t) { return padded_lanes(t.lanes); }
inline bool is_padded(DataType t) { return padded_lanes(t) != t.lanes; }

/// One lane of `t` in a register, or in memory.
llvm::Type* element_type(llvm::LLVMContext& context, DataType t);
llvm::Type* element_memory_type(llvm::LLVMContext& context, DataType t);
/// All (padded) lanes.
llvm::Type* register_type(llvm::LLVMContext& context, DataType t);
llvm::Type* memory_type(llvm::LLVMContext& context, DataType t);
/// `element` itself for one lane, else a vector of `lanes`.
llvm::Type* with_lanes(llvm::Type* element, int lanes);
int lanes_of(llvm::Value* v);

/// <padded x i1> that is true in the first `lanes` lanes.
llvm::Constant* lane_mask(llvm::LLVMContext& context, int lanes);

/// A constant of `v`'s shape (splat for vectors).
llvm::Constant* int_like(llvm::Type* type, int64_t value);
llvm::Constant* float_like(llvm::Type* type, double value);

}  // namespace heddle::codegen
