// Stores that leave out lanes, for the tails of vectorized loops whose length varies.
#include "codegen/llvm/generator.h"
#include "heddle/support/error.h"

namespace heddle::codegen {

using llvm::Value;

void Generator::emit_masked_store(const Expr& condition, const Store& s) {
  HEDDLE_ICHECK(s.indices.size() == 1 && s.value.dtype().lanes == condition.dtype().lanes,
                "a masked store to '" + s.buffer->name + "' has other lanes than its mask");
  const int lanes = s.value.dtype().lanes;
  Value* mask = emit(condition);
  if (is_padded(s.value.dtype())) mask = b_.CreateAnd(mask, lane_mask(context(), lanes));
  store_masked(s, emit_masked(mask, lanes, s.value), mask);
  for (const StoreHint hint : {StoreHint::DotProduct, StoreHint::TransposedSquare})
    note_expected(s, hint, false, "lanes are left out");
  memo_rewind(0);
}

void Generator::store_masked(const Store& s, Value* value, Value* mask) {
  const Storage& storage = storage_of(s.buffer);
  const Expr& index = s.indices[0];
  const DataType dtype = s.value.dtype();
  if (!storage.base) {
    Value* old = load_chunk(storage, dtype, index);
    return store_chunk(storage, dtype, index, b_.CreateSelect(mask, value, old));
  }
  value = to_memory(value, dtype);
  const std::optional<AffineLanes> lanes = as_affine_lanes(index);
  const llvm::Align align = element_align(dtype);
  if (lanes && is_const(lanes->stride, 1)) {
    Value* pointer = address(storage, dtype, lanes->base);
    annotate(b_.CreateMaskedStore(value, pointer, align, mask), storage);
    return;
  }
  Value* pointers = b_.CreateGEP(element_memory(dtype), storage.base, emit_index(index));
  annotate(b_.CreateMaskedScatter(value, pointers, align, mask), storage);
}

}  // namespace heddle::codegen
