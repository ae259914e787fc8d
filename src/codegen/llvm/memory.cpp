// Loads, stores and prefetches. Memory outside of the lanes that an access names is never touched:
// a vector may end at the end of a page. (Elements between two lanes of a strided load may be
// read.)
#include <algorithm>

#include "codegen/llvm/generator.h"
#include "heddle/support/error.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/MDBuilder.h"

namespace heddle::codegen {

using llvm::Value;

Value* Generator::from_memory(Value* v, DataType dtype) {
  return dtype.is_bool() ? b_.CreateIsNotNull(v) : v;
}

Value* Generator::to_memory(Value* v, DataType dtype) {
  return dtype.is_bool() ? b_.CreateZExt(v, memory_type(context(), dtype)) : v;
}

// Whether a masked load is one instruction.
bool Generator::has_masks(DataType dtype) const {
  return machine_.avx512 || (machine_.avx && !dtype.is_bool() && dtype.bits >= 32);
}

Value* Generator::load_scalar(const Storage& storage, DataType dtype, Value* pointer) {
  auto* load = b_.CreateAlignedLoad(element_memory(dtype), pointer, element_align(dtype));
  annotate(load, storage);
  return from_memory(load, dtype.element());
}

Value* Generator::load_contiguous(const Storage& storage, DataType dtype, Value* pointer,
                                  Value* mask) {
  llvm::Type* type = memory_type(context(), dtype);
  const llvm::Align align = element_align(dtype);
  if (!mask && !is_padded(dtype)) {
    auto* load = b_.CreateAlignedLoad(type, pointer, align);
    annotate(load, storage);
    return from_memory(load, dtype);
  }
  if (mask || has_masks(dtype)) {
    if (!mask) mask = lane_mask(context(), dtype.lanes);
    auto* load =
        b_.CreateMaskedLoad(type, pointer, align, mask, llvm::Constant::getNullValue(type));
    annotate(load, storage);
    return from_memory(load, dtype);
  }
  // The lanes are loaded in parts whose sizes are powers of two, each under its part of the mask.
  Value* result = llvm::Constant::getNullValue(type);
  for (int begin = 0, step = padded_lanes(dtype) / 2; step > 0; step /= 2) {
    if (begin + step > dtype.lanes) continue;
    auto* part = b_.CreateAlignedLoad(with_lanes(element_memory(dtype), step),
                                      advance(pointer, dtype, begin), align);
    annotate(part, storage);
    result = ops_.insert_lanes(result, part, begin, step);
    begin += step;
  }
  return from_memory(result, dtype);
}

// Loads every second, third or fourth element by full vectors and shuffles. The last vector ends at
// the last lane, so that nothing beyond it is read.
Value* Generator::load_strided(const Storage& storage, DataType dtype, const AffineLanes& lanes) {
  const int n = dtype.lanes;
  Value* base = address(storage, dtype, lanes.base);
  const int s = static_cast<int>(*as_int(lanes.stride));
  const int last_begin = s * (n - 1) + 1 - n;
  Value* result = nullptr;
  for (int part = 0; part < s; ++part) {
    const int begin = std::min(part * n, last_begin);
    auto* load = b_.CreateAlignedLoad(memory_type(context(), dtype), advance(base, dtype, begin),
                                      element_align(dtype));
    annotate(load, storage);
    llvm::SmallVector<int, 64> mask(n, llvm::PoisonMaskElem);
    for (int lane = 0; lane < n; ++lane) {
      const int at = lane * s;
      if (at < std::min(part * n, last_begin)) mask[lane] = lane;  // lanes of an earlier part
      if (at >= begin && at < begin + n) mask[lane] = n + at - begin;
    }
    result = b_.CreateShuffleVector(result ? result : load, load, mask);
  }
  return from_memory(result, dtype);
}

Value* Generator::load_lanes(const Storage& storage, DataType dtype, const AffineLanes& lanes) {
  const int64_t* stride = as_int(lanes.stride);
  Value* base = address(storage, dtype, lanes.base);
  Value* result = llvm::Constant::getNullValue(register_type(context(), dtype));
  Value* step = stride ? nullptr : emit_index(lanes.stride);
  for (int lane = 0; lane < dtype.lanes; ++lane) {
    Value* pointer = base;
    if (stride) {
      pointer = advance(base, dtype, *stride * lane);
    } else if (lane > 0) {
      pointer = b_.CreateGEP(element_memory(dtype), base,
                             b_.CreateMul(step, b_.getInt64(lane), "", false, true));
    }
    result = ops_.insert_lanes(result, load_scalar(storage, dtype, pointer), lane, 1);
  }
  return result;
}

// A vector by single lanes takes two instructions a lane, and a transform of tiles names each of
// its operands in many stores (Winograd's weights: 9 vectors, 196 times).
Value* Generator::load_lanes_once(const Load& load, const AffineLanes& lanes) {
  const Storage& storage = storage_of(load.buffer);
  if (written_.contains(load.buffer.get())) return load_lanes(storage, load.dtype, lanes);
  if (b_.GetInsertBlock() != lanes_in_) loaded_lanes_.clear();
  lanes_in_ = b_.GetInsertBlock();
  const Expr key(&load);
  for (const auto& [known, value] : loaded_lanes_) {
    if (equal(known, key)) return value;
  }
  loaded_lanes_.emplace_back(key, load_lanes(storage, load.dtype, lanes));
  return loaded_lanes_.back().second;
}

Value* Generator::gather(const Storage& storage, DataType dtype, const Expr& index) {
  Value* pointers = b_.CreateGEP(element_memory(dtype), storage.base, emit_index(index));
  Value* mask = mask_;
  if (!mask) mask = lane_mask(context(), dtype.lanes);
  llvm::Type* type = memory_type(context(), dtype);
  auto* load = b_.CreateMaskedGather(type, pointers, element_align(dtype), mask,
                                     llvm::Constant::getNullValue(type));
  annotate(load, storage);
  return from_memory(load, dtype);
}

Value* Generator::emit_load(const Load& load) {
  HEDDLE_ICHECK(load.indices.size() == 1,
                "a load of '" + load.buffer->name + "' is not flat in '" + name_ + "'");
  const Storage& storage = storage_of(load.buffer);
  const Expr& index = load.indices[0];
  const DataType dtype = load.dtype;
  if (!storage.base) return load_chunk(storage, dtype, index);
  if (index.dtype().is_scalar()) {
    return load_scalar(storage, dtype, address(storage, dtype, index));
  }
  const std::optional<AffineLanes> lanes = as_affine_lanes(index);
  if (!lanes) {
    const auto pattern = as_lane_pattern(index, ranges_);
    Value* shuffled = pattern ? load_active(load, *pattern) : nullptr;
    return shuffled ? shuffled : gather(storage, dtype, index);
  }
  const int64_t* stride = as_int(lanes->stride);
  if (stride && *stride == 0) {
    Value* mask = std::exchange(mask_, nullptr);
    auto one = [&] { return load_scalar(storage, dtype, address(storage, dtype, lanes->base)); };
    llvm::Type* type = element_type(context(), dtype);
    Value* value =
        !mask ? one() : emit_branches(b_.CreateOrReduce(mask), type, one, [&]() -> Value* {
          return llvm::Constant::getNullValue(type);
        });
    mask_ = mask;
    return ops_.splat(value, padded_lanes(dtype));
  }
  if (stride && *stride == 1) {
    return load_contiguous(storage, dtype, address(storage, dtype, lanes->base), mask_);
  }
  if (stride && *stride == -1) {
    Value* first = address(storage, dtype, lanes->base, 1 - dtype.lanes);
    Value* mask = mask_ ? ops_.reverse(mask_, dtype.lanes) : nullptr;
    return ops_.reverse(load_contiguous(storage, dtype, first, mask), dtype.lanes);
  }
  const bool few = stride && *stride >= 2 && *stride <= 4 && dtype.lanes >= 4;
  if (mask_) {
    Value* shuffled = few ? load_active(load, pattern_of(*lanes, dtype.lanes)) : nullptr;
    return shuffled ? shuffled : gather(storage, dtype, index);
  }
  return few && !is_padded(dtype) ? load_strided(storage, dtype, *lanes)
                                  : load_lanes_once(load, *lanes);
}

// ---- stores ----

void Generator::store_nontemporal(const Storage& storage, Value* pointer, Value* value,
                                  llvm::Align align) {
  // A non-temporal store needs an aligned address, which an argument does not guarantee.
  Value* low_bits =
      b_.CreateAnd(b_.CreatePtrToInt(pointer, b_.getInt64Ty()), b_.getInt64(align.value() - 1));
  llvm::BasicBlock* aligned = new_block("aligned");
  llvm::BasicBlock* unaligned = new_block("unaligned");
  llvm::BasicBlock* end = new_block("end.store");
  llvm::MDBuilder metadata(context());
  b_.CreateCondBr(b_.CreateIsNull(low_bits), aligned, unaligned,
                  metadata.createLikelyBranchWeights());
  b_.SetInsertPoint(aligned);
  auto* streaming = b_.CreateAlignedStore(value, pointer, align);
  streaming->setMetadata(
      llvm::LLVMContext::MD_nontemporal,
      llvm::MDNode::get(context(), llvm::ConstantAsMetadata::get(b_.getInt32(1))));
  annotate(streaming, storage);
  b_.CreateBr(end);
  b_.SetInsertPoint(unaligned);
  annotate(b_.CreateAlignedStore(value, pointer, llvm::Align(1)), storage);
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
  frame_.nontemporal = true;
}

void Generator::store_contiguous(const Storage& storage, DataType dtype, Value* pointer,
                                 Value* value, bool nontemporal) {
  const llvm::Align align = element_align(dtype);
  if (!is_padded(dtype)) {
    const int bytes = dtype.bytes();
    if (nontemporal && bytes >= 16) {
      return store_nontemporal(storage, pointer, value,
                               llvm::Align(std::min(bytes, machine_.vector_bytes)));
    }
    annotate(b_.CreateAlignedStore(value, pointer, align), storage);
    return;
  }
  // Masked stores are slow on AVX2 machines (about 20 operations on AMD) and fast with AVX-512.
  if (machine_.avx512) {
    annotate(b_.CreateMaskedStore(value, pointer, align, lane_mask(context(), dtype.lanes)),
             storage);
    return;
  }
  for (int begin = 0, step = padded_lanes(dtype) / 2; step > 0; step /= 2) {
    if (begin + step > dtype.lanes) continue;
    Value* part = ops_.lanes(value, begin, step);
    annotate(b_.CreateAlignedStore(part, advance(pointer, dtype, begin), align), storage);
    begin += step;
  }
}

void Generator::emit_store(const Store& s) {
  HEDDLE_ICHECK(s.indices.size() == 1,
                "a store to '" + s.buffer->name + "' is not flat in '" + name_ + "'");
  const Expr& index = s.indices[0];
  const DataType dtype = s.value.dtype();
  HEDDLE_ICHECK(dtype.lanes == index.dtype().lanes && dtype.element() == s.buffer->dtype,
                "a store of " + to_string(dtype) + " to '" + s.buffer->name + "' at " +
                    std::to_string(index.dtype().lanes) + " indices");
  const int dots_before = dot_products_;
  why_no_dot_.clear();
  store_value(s, emit(s.value));
  note_expected(s, StoreHint::DotProduct, dot_products_ > dots_before, why_no_dot_);
  note_expected(s, StoreHint::TransposedSquare, false, why_no_square_);
}

void Generator::note_expected(const Store& s, StoreHint hint, bool found, const std::string& why) {
  if (!has(s.hint, hint)) return;
  note_expected(s.buffer->name, hint == StoreHint::DotProduct ? "dot_product" : "transposed_square",
                found, why);
}

void Generator::note_expected(const std::string& buffer, const std::string& instruction, bool found,
                              const std::string& why) {
  auto it = std::find_if(expected_.begin(), expected_.end(), [&](const ExpectedInstruction& e) {
    return e.buffer == buffer && e.instruction == instruction;
  });
  if (it == expected_.end()) {
    expected_.push_back({buffer, instruction});
    why_missed_.emplace_back();
    it = expected_.end() - 1;
  }
  ++it->stores;
  it->found += found;
  std::string& first = why_missed_[static_cast<size_t>(it - expected_.begin())];
  if (!found && first.empty()) first = why;
}

void Generator::store_value(const Store& s, Value* value) {
  const Storage& storage = storage_of(s.buffer);
  const Expr& index = s.indices[0];
  const DataType dtype = s.value.dtype();
  if (!storage.base) return store_chunk(storage, dtype, index, value);
  value = to_memory(value, dtype);
  if (dtype.is_scalar()) {
    annotate(b_.CreateAlignedStore(value, address(storage, dtype, index), element_align(dtype)),
             storage);
    return;
  }
  const std::optional<AffineLanes> lanes = as_affine_lanes(index);
  const int64_t* stride = lanes ? as_int(lanes->stride) : nullptr;
  if (stride && (*stride == 1 || *stride == -1)) {
    const bool backwards = *stride < 0;
    if (backwards) value = ops_.reverse(value, dtype.lanes);
    Value* pointer = address(storage, dtype, lanes->base, backwards ? 1 - dtype.lanes : 0);
    return store_contiguous(storage, dtype, pointer, value, has(s.hint, StoreHint::NonTemporal));
  }
  Value* base = stride ? address(storage, dtype, lanes->base) : nullptr;
  Value* indices = stride ? nullptr : emit_index(index);
  for (int lane = 0; lane < dtype.lanes; ++lane) {
    Value* pointer =
        stride ? advance(base, dtype, *stride * lane)
               : b_.CreateGEP(element_memory(dtype), storage.base, ops_.lanes(indices, lane, 1));
    annotate(b_.CreateAlignedStore(ops_.lanes(value, lane, 1), pointer, element_align(dtype)),
             storage);
  }
}

void Generator::emit_prefetch(const Prefetch& s) {
  HEDDLE_ICHECK(s.indices.size() == 1,
                "a prefetch of '" + s.buffer->name + "' is not flat in '" + name_ + "'");
  auto it = frame_.buffers.find(s.buffer.get());
  if (it == frame_.buffers.end() || !it->second.base) return;  // in registers
  const Storage& storage = it->second;
  const Expr& index = s.indices[0];
  const std::optional<AffineLanes> lanes = as_affine_lanes(index);
  if (index.dtype().is_vector() && !lanes) return;
  Value* pointer = address(storage, s.buffer->dtype, lanes ? lanes->base : index);
  // The arguments say: a read, keep in all caches, data and not instructions.
  b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {pointer->getType()},
                     {pointer, b_.getInt32(0), b_.getInt32(3), b_.getInt32(1)});
}

}  // namespace heddle::codegen
