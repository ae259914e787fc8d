// Sums of products of narrow integers, as the instructions that machines have for them.
//
//   C[ramp(c, 1, 8)] + x8(i32(A[a])) * i32(B[ramp(b, 2, 8)])
//                    + x8(i32(A[a + 1])) * i32(B[ramp(b + 1, 2, 8)])
//   --> vpmaddwd of 16 elements of B from b on and the pair A[a], A[a + 1] in every lane
//
// What makes a pair, or a group of four, is found here, in the indices; a schedule brings it about
// by a layout that has groups of the reduction innermost. Sums of i32 wrap, so their order is free,
// and each of these instructions gives the exact sum: vpmaddubsw, which saturates, is none of them.
#include "codegen/llvm/generator.h"
#include "llvm/IR/IntrinsicsAArch64.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace heddle::codegen {

using llvm::Value;
namespace id = llvm::Intrinsic;

namespace {

struct Product {
  NarrowFactor a, b;
  Expr term;
  bool used = false;
};

const Expr& without_broadcast(const Expr& e) {
  return e.kind() == ExprKind::Broadcast ? e.as<Broadcast>()->value : e;
}

std::optional<NarrowFactor> as_factor(const Expr& e) {
  const Cast* widened = without_broadcast(e).as<Cast>();
  const Load* load = widened ? without_broadcast(widened->value).as<Load>() : nullptr;
  if (!load || load->indices.size() != 1) return std::nullopt;
  const DataType t = load->buffer->dtype;
  if (t != i8 && t != u8 && t != i16) return std::nullopt;
  const Expr& index = load->indices[0];
  if (index.dtype().is_scalar()) return NarrowFactor{load->buffer, index, 0};
  const std::optional<AffineLanes> lanes = as_affine_lanes(index);
  const int64_t* stride = lanes ? as_int(lanes->stride) : nullptr;
  if (!stride) return std::nullopt;
  return NarrowFactor{load->buffer, lanes->base, *stride};
}

std::optional<Product> as_product(const Expr& e) {
  const Binary* mul = e.as<Binary>();
  if (!mul || mul->op != BinaryOp::Mul) return std::nullopt;
  std::optional<NarrowFactor> a = as_factor(mul->a), b = as_factor(mul->b);
  if (!a || !b) return std::nullopt;
  // What is the same in all lanes first, so that all terms have their factors in one order.
  if (b->stride == 0) std::swap(a, b);
  return Product{*a, *b, e};
}

void terms_of(const Expr& e, std::vector<Expr>& out) {
  if (const Binary* add = e.as<Binary>(); add && add->op == BinaryOp::Add) {
    terms_of(add->a, out);
    terms_of(add->b, out);
  } else {
    out.push_back(e);
  }
}

bool follows(const NarrowFactor& first, const NarrowFactor& x, int distance, const Ranges& ranges) {
  return first.buffer == x.buffer && first.stride == x.stride &&
         is_const(simplify(x.base - first.base, ranges), distance);
}

// Either the groups of all lanes lie next to each other, or all lanes have the same.
bool in_groups(const NarrowFactor& f, int size) { return f.stride == 0 || f.stride == size; }

int register_bits(int lanes) { return 32 * padded_lanes(lanes); }

}  // namespace

// Whether there is an instruction that multiplies groups of `size` of these types and adds them up.
bool Generator::has_dot(DataType a, DataType b, int size, int lanes) const {
  const int bits = register_bits(lanes);
  if (size == 4) {
    if (a.bits != 8 || b.bits != 8) return false;
    if (machine_.dotprod) return bits == 128 && a == b;
    return machine_.has_vnni(bits) && a != b;
  }
  return machine_.x86 &&
         (bits == 128 || (bits == 256 && machine_.avx2) || (bits == 512 && machine_.avx512));
}

// All lanes' groups of `size` elements from factor `f` on.
Value* Generator::emit_groups(const NarrowFactor& f, int size, int lanes) {
  const Storage& storage = storage_of(f.buffer);
  const DataType t = f.buffer->dtype;
  const int width = padded_lanes(lanes);
  // Pairs are multiplied as i16, groups of four as they are.
  const DataType as = size == 2 ? i16 : t;
  Value* pointer = address(storage, t, f.base);
  if (f.stride != 0) {
    Value* all = load_contiguous(storage, t.with_lanes(size * lanes), pointer, nullptr);
    return ops_.cast(all, t.with_lanes(size * width), as.with_lanes(size * width));
  }
  auto* load = b_.CreateAlignedLoad(b_.getIntNTy(static_cast<unsigned>(size * t.bits)), pointer,
                                    element_align(t));
  annotate(load, storage);
  Value* group = load;
  if (as != t) {
    group = b_.CreateBitCast(load, with_lanes(element_memory(t), size));
    group = ops_.cast(group, t.with_lanes(size), as.with_lanes(size));
    group = b_.CreateBitCast(group, b_.getInt32Ty());
  }
  return b_.CreateBitCast(ops_.splat(group, width), with_lanes(element_memory(as), size * width));
}

Value* Generator::emit_dot(Value* sum, const NarrowFactor& a, const NarrowFactor& b, int size,
                           int lanes) {
  const int bits = register_bits(lanes);
  Value *x = emit_groups(a, size, lanes), *y = emit_groups(b, size, lanes);
  llvm::Type* type = with_lanes(b_.getInt32Ty(), padded_lanes(lanes));
  if (size == 2 && !machine_.has_vnni(bits)) {
    Value* products = b_.CreateIntrinsic(bits == 128   ? id::x86_sse2_pmadd_wd
                                         : bits == 256 ? id::x86_avx2_pmadd_wd
                                                       : id::x86_avx512_pmaddw_d_512,
                                         {}, {x, y});
    return sum ? b_.CreateAdd(sum, products) : products;
  }
  if (!sum) sum = llvm::Constant::getNullValue(type);
  if (machine_.dotprod) {
    return b_.CreateIntrinsic(
        a.buffer->dtype.is_int() ? id::aarch64_neon_sdot : id::aarch64_neon_udot,
        {type, x->getType()}, {sum, x, y});
  }
  x = b_.CreateBitCast(x, type);
  y = b_.CreateBitCast(y, type);
  if (size == 2) {
    return b_.CreateIntrinsic(bits == 128   ? id::x86_avx512_vpdpwssd_128
                              : bits == 256 ? id::x86_avx512_vpdpwssd_256
                                            : id::x86_avx512_vpdpwssd_512,
                              {}, {sum, x, y});
  }
  if (a.buffer->dtype.is_int()) std::swap(x, y);  // the unsigned factor comes first
  return b_.CreateIntrinsic(bits == 128   ? id::x86_avx512_vpdpbusd_128
                            : bits == 256 ? id::x86_avx512_vpdpbusd_256
                                          : id::x86_avx512_vpdpbusd_512,
                            {}, {sum, x, y});
}

// The sum `e`, where groups of its terms are one instruction; null where none are.
Value* Generator::emit_dot_products(const Binary& e) {
  if (e.op != BinaryOp::Add || e.dtype.element() != i32 || e.dtype.is_scalar() || mask_) {
    return nullptr;
  }
  const int lanes = e.dtype.lanes;
  std::vector<Expr> terms, rest;
  terms_of(Expr(&e), terms);
  std::vector<Product> products;
  for (const Expr& term : terms) {
    std::optional<Product> p = as_product(term);
    // What is in registers cannot be loaded together.
    if (p && storage_of(p->a.buffer).base && storage_of(p->b.buffer).base) {
      products.push_back(*p);
    } else {
      rest.push_back(term);
    }
  }
  struct Group {
    const Product* first = nullptr;
    int size = 0;
  };
  std::vector<Group> groups;
  for (int size : {4, 2}) {
    for (Product& first : products) {
      if (first.used || !in_groups(first.a, size) || !in_groups(first.b, size) ||
          !has_dot(first.a.buffer->dtype, first.b.buffer->dtype, size, lanes)) {
        continue;
      }
      std::vector<Product*> members{&first};
      for (Product& p : products) {
        const int at = static_cast<int>(members.size());
        if (at == size) break;
        if (!p.used && follows(first.a, p.a, at, ranges_) && follows(first.b, p.b, at, ranges_)) {
          members.push_back(&p);
        }
      }
      if (static_cast<int>(members.size()) < size) continue;
      for (Product* p : members) p->used = true;
      groups.push_back({&first, size});
    }
  }
  if (groups.empty()) return nullptr;
  for (const Product& p : products) {
    if (!p.used) rest.push_back(p.term);
  }
  Value* sum = nullptr;
  for (const Expr& term : rest) {
    Value* value = emit(term);
    sum = sum ? b_.CreateAdd(sum, value) : value;
  }
  for (const Group& g : groups) sum = emit_dot(sum, g.first->a, g.first->b, g.size, lanes);
  return sum;
}

}  // namespace heddle::codegen
