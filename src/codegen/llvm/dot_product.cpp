// Sums of products of narrow types in groups of two or four (instruction/dot_groups.h), as the instructions
// that machines have for them: vpmaddwd or vpdpwssd for pairs, and for groups of four bytes vpdpbusd (u8
// with i8), vpdpbssd, vpdpbuud, sdot, udot and usdot.
//
// Sums of i32 wrap, so their order is free, and each of
// these instructions gives the exact sum. vpmaddubsw saturates and is not used. Pairs of bf16 are
// vdpbf16ps, which rounds each sum as a multiply-add of f32 does and treats subnormal numbers as 0.
#include <numeric>

#include "codegen/llvm/generator.h"
#include "heddle/instruction/instruction.h"
#include "instruction/dot_groups.h"

namespace heddle::codegen {

using namespace instructions;

using llvm::Value;
namespace id = llvm::Intrinsic;

namespace {

// The narrowest register has four lanes of 32 bits.
int register_lanes(int lanes) { return std::max(4, padded_lanes(lanes)); }

}  // namespace

// The call that adds up groups of `size` elements of these types; null where the machine has none.
const LlvmCall* Generator::dot_call(DataType wide, DataType a, DataType b, int size,
                                    int lanes) const {
  const std::vector<DataType> types{wide, a, b};
  const std::vector<std::vector<int64_t>> extents{{register_lanes(lanes)}, {size}};
  for (const InstructionForm* form : machine_.dots) {
    if (form->types == types && form->extents == extents) return &form->llvm;
  }
  return nullptr;
}

// `sum`, which may be null, plus the sums of the groups of x and y.
Value* Generator::emit_dot_call(const LlvmCall& call, Value* sum, Value* x, Value* y,
                                llvm::Type* type) {
  const id::ID id = llvm::Function::lookupIntrinsicID(call.intrinsic);
  if (call.adds) {
    Value* products = b_.CreateIntrinsic(id, {}, {x, y});
    return sum ? add(sum, products) : products;
  }
  if (!sum) sum = llvm::Constant::getNullValue(type);
  if (id::isOverloaded(id)) return b_.CreateIntrinsic(id, {type, x->getType()}, {sum, x, y});
  const llvm::FunctionType* signature = id::getType(context(), id);
  return b_.CreateIntrinsic(id, {},
                            {sum, b_.CreateBitCast(x, signature->getParamType(1)),
                             b_.CreateBitCast(y, signature->getParamType(2))});
}

// Whether loading groups of `size` of these types together is faster.
bool Generator::has_dot(DataType a, DataType b, int size, int lanes) const {
  if (a.is_float() || b.is_float()) return a == bf16 && b == bf16 && size == 2;
  if (size == 4) return a.bits == 8 && b.bits == 8;
  return dot_call(i32, i16, i16, 2, lanes);
}

// The group of `size` elements that all lanes share, as an integer. Elements after the first
// `members` are zeros.
Value* Generator::emit_group(const NarrowFactor& f, int size, int members) {
  const Storage& storage = storage_of(f.buffer);
  const DataType t = f.buffer->dtype;
  llvm::Type* type = b_.getIntNTy(static_cast<unsigned>(size * t.bits));
  auto load = [&](llvm::Type* as, int at) -> Value* {
    auto* value = b_.CreateAlignedLoad(as, address(storage, t, f.base, at), element_align(t));
    annotate(value, storage);
    return value;
  };
  const auto flipped = [&](Value* group) {
    constexpr uint64_t kHighest = 0x8080808080808080;
    if (!f.flipped) return group;
    return b_.CreateXor(group, kHighest & ((uint64_t{1} << (members * t.bits)) - 1));
  };
  if (members == size) return flipped(load(type, 0));
  if (has_elements(f, size, ranges_))
    return flipped(b_.CreateAnd(load(type, 0), (uint64_t{1} << (members * t.bits)) - 1));
  Value* group = llvm::ConstantInt::get(type, 0);
  for (int at = 0; at < members; ++at) {
    Value* element = b_.CreateZExt(load(element_memory(t), at), type);
    group = b_.CreateOr(group, b_.CreateShl(element, static_cast<uint64_t>(at * t.bits)));
  }
  return flipped(group);
}

Value* Generator::add(Value* a, Value* b) {
  return a->getType()->isFPOrFPVectorTy() ? b_.CreateFAdd(a, b) : b_.CreateAdd(a, b);
}

// The groups of `size` elements of all lanes, from factor `f` on. A group that all lanes share has
// zeros after its first `members` elements.
Value* Generator::emit_groups(const NarrowFactor& f, int size, int members, int lanes) {
  const Storage& storage = storage_of(f.buffer);
  const DataType t = f.buffer->dtype;
  const int width = register_lanes(lanes);
  // Pairs of integers are multiplied as i16, all other groups in their own type.
  const DataType as = size == 2 && t != bf16 ? i16 : f.type;
  if (f.stride != 0) {
    Value* all =
        load_contiguous(storage, t.with_lanes(size * lanes), address(storage, t, f.base), nullptr);
    if (f.flipped) all = b_.CreateXor(all, int_like(all->getType(), 0x80));
    if (f.bits == ByteBits::Lower) all = b_.CreateAnd(all, int_like(all->getType(), 0xf));
    if (f.bits == ByteBits::Upper) all = b_.CreateLShr(all, int_like(all->getType(), 4));
    if (lanes_of(all) < size * width) {
      Value* zeros = llvm::Constant::getNullValue(with_lanes(element_memory(t), size * width));
      all = ops_.insert_lanes(zeros, all, 0, lanes_of(all));
    }
    return ops_.cast(all, f.type.with_lanes(size * width), as.with_lanes(size * width));
  }
  Value* group = emit_group(f, size, members);
  if (as != f.type) {
    group = b_.CreateBitCast(group, with_lanes(element_memory(t), size));
    group = ops_.cast(group, f.type.with_lanes(size), as.with_lanes(size));
    group = b_.CreateBitCast(group, b_.getInt32Ty());
  }
  return b_.CreateBitCast(ops_.splat(group, width), with_lanes(element_memory(as), size * width));
}

// `sum` plus the sum of the groups of products.
Value* Generator::emit_dot(Value* sum, const NarrowFactor& a, const NarrowFactor& b, int size,
                           int members, int lanes) {
  Value *x = emit_groups(a, size, members, lanes), *y = emit_groups(b, size, members, lanes);
  const int width = padded_lanes(lanes);
  const bool whole = width == register_lanes(lanes);
  Value* products = whole ? sum : nullptr;
  products = a.buffer->dtype == bf16 ? emit_bf16_pairs(products, x, y, lanes)
             : size == 2             ? emit_pairs(products, x, y, lanes)
                                     : emit_fours(products, x, a.type, y, b.type, lanes);
  if (whole) return products;
  std::vector<int> first(static_cast<size_t>(width));
  std::iota(first.begin(), first.end(), 0);
  products = b_.CreateShuffleVector(products, first);
  return sum ? add(sum, products) : products;
}

Value* Generator::emit_bf16_pairs(Value* sum, Value* x, Value* y, int lanes) {
  const int width = register_lanes(lanes);
  llvm::Type* type = with_lanes(b_.getFloatTy(), width);
  if (const LlvmCall* call = dot_call(f32, bf16, bf16, 2, lanes))
    return emit_dot_call(*call, sum, x, y, type);
  if (!sum) sum = llvm::Constant::getNullValue(type);
  // The operand order of vdpbf16ps: first the upper element of each pair, whose word is an f32 once
  // its lower bits are cleared, then the lower element.
  llvm::Type* ints = with_lanes(b_.getInt32Ty(), width);
  for (const bool upper : {true, false}) {
    Value* factors[2];
    for (const int i : {0, 1}) {
      Value* pairs = b_.CreateBitCast(i == 0 ? x : y, ints);
      pairs = upper ? b_.CreateAnd(pairs, int_like(ints, -65536))
                    : b_.CreateShl(pairs, int_like(ints, 16));
      factors[i] = b_.CreateBitCast(pairs, sum->getType());
    }
    sum = b_.CreateIntrinsic(id::fmuladd, {sum->getType()}, {factors[0], factors[1], sum});
  }
  return sum;
}

Value* Generator::emit_pairs(Value* sum, Value* x, Value* y, int lanes) {
  return emit_dot_call(*dot_call(i32, i16, i16, 2, lanes), sum, x, y,
                       with_lanes(b_.getInt32Ty(), register_lanes(lanes)));
}

Value* Generator::emit_fours(Value* sum, Value* x, DataType tx, Value* y, DataType ty, int lanes) {
  if (tx != ty && tx.is_int()) {  // the unsigned factor comes first
    std::swap(x, y);
    std::swap(tx, ty);
  }
  if (const LlvmCall* call = dot_call(i32, tx, ty, 4, lanes))
    return emit_dot_call(*call, sum, x, y, with_lanes(b_.getInt32Ty(), register_lanes(lanes)));
  Value* products = expand_fours(x, tx, y, ty, lanes);
  return sum ? b_.CreateAdd(sum, products) : products;
}

// Computes groups of four on machines that have no instruction for them, so that schedules made for
// other machines run too.
Value* Generator::expand_fours(Value* x, DataType tx, Value* y, DataType ty, int lanes) {
  const int width = register_lanes(lanes);
  const bool pairs = has_dot(i16, i16, 2, lanes);
  const DataType as = (pairs ? i16 : i32).with_lanes(4 * width);
  x = ops_.cast(x, tx.with_lanes(4 * width), as);
  y = ops_.cast(y, ty.with_lanes(4 * width), as);
  auto some = [&](Value* v, int begin, int count, int step) {
    std::vector<int> lanes_of_v;
    for (int i = 0; i < count; ++i) lanes_of_v.push_back(begin + i * step);
    return b_.CreateShuffleVector(v, lanes_of_v);
  };
  Value* sum = nullptr;
  if (!pairs) {
    Value* products = b_.CreateMul(x, y);
    for (int member = 0; member < 4; ++member) {
      Value* part = some(products, member, width, 4);
      sum = sum ? b_.CreateAdd(sum, part) : part;
    }
    return sum;
  }
  // Each half of the groups is one register. The sums of the two pairs of a group are added last.
  Value* halves[2];
  for (const int half : {0, 1}) {
    const int begin = half * 2 * width;
    halves[half] =
        emit_pairs(nullptr, some(x, begin, 2 * width, 1), some(y, begin, 2 * width, 1), lanes);
  }
  std::vector<int> even, odd;
  for (int lane = 0; lane < width; ++lane) {
    even.push_back(2 * lane);
    odd.push_back(2 * lane + 1);
  }
  return b_.CreateAdd(b_.CreateShuffleVector(halves[0], halves[1], even),
                      b_.CreateShuffleVector(halves[0], halves[1], odd));
}

// The sum `e` with groups of its terms computed by one instruction each. Null where there are none.
Value* Generator::emit_dot_products(const Binary& e) {
  const DataType wide = e.dtype.element();
  if (e.op != BinaryOp::Add || (wide != i32 && wide != f32) || e.dtype.is_scalar() || mask_) {
    return nullptr;
  }
  const int lanes = e.dtype.lanes;
  const auto in_memory = [&](const Buffer& b) { return storage_of(b).base != nullptr; };
  const auto has = [&](DataType a, DataType b, int size) { return has_dot(a, b, size, lanes); };
  std::string why;
  const std::optional<DotSum> found = find_dot_groups(Expr(&e), {ranges_, in_memory, has}, &why);
  if (!found) {
    if (why_no_dot_.empty()) why_no_dot_ = why;  // that of the whole sum
    return nullptr;
  }
  Value* sum = nullptr;
  for (const Expr& term : found->rest) {
    Value* value = emit(term);
    sum = sum ? add(sum, value) : value;
  }
  dot_products_ += static_cast<int>(found->groups.size());
  for (const DotGroup& g : found->groups) sum = emit_dot(sum, g.a, g.b, g.size, g.members, lanes);
  return sum;
}

}  // namespace heddle::codegen
