// Functions of four bits as tables in registers. Of numbers of few bits that are unpacked,
//
//   f32(((bytes >> shift) & x16(15)) - x16(8)) * x16(scale)
//
// has 16 values for all lanes: those of the numbers 0 to 15 are a vector, which does not depend on the
// bytes, and one vpermps takes each lane's value from it. It looks at the lowest four bits of a lane
// alone, so the mask goes, too. The values are computed as before, and are the same.
#include <algorithm>
#include <array>
#include <bit>

#include "codegen/llvm/generator.h"
#include "ir/replace.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace heddle::codegen {

using llvm::Value;

namespace {

constexpr int kEntries = 16;

/// What a vector of an expression depends on, in which lanes differ.
struct LaneParts {
  Expr number;    ///< the only part, of values from 0 to 15; undefined: there is none
  int steps = 0;  ///< operations between it and the expression
  bool other = false;

  bool has_number() const { return number.get() != nullptr; }
};

LaneParts parts_of(const Expr& e, const Ranges& ranges, int& budget) {
  if (!e.dtype().is_vector() || e.kind() == ExprKind::Broadcast) return {};
  const bool computed =
      e.kind() == ExprKind::Binary || e.kind() == ExprKind::Unary || e.kind() == ExprKind::Cast;
  if (!computed || --budget < 0) return {.number = {}, .other = true};
  if (e.dtype().element() == i32) {
    const Interval range = range_of(e, ranges);
    if (range.min >= 0 && range.max < kEntries) return {.number = e, .other = false};
  }
  LaneParts all;
  for_each_child(e, [&](const Expr& child) {
    const LaneParts part = parts_of(child, ranges, budget);
    const bool differs = part.has_number() && all.has_number() && !equal(part.number, all.number);
    all.other |= part.other || differs;
    if (part.has_number()) all.number = part.number;
    all.steps += part.steps;
  });
  ++all.steps;
  return all;
}

/// What the number consists of below the mask of its lowest four bits; undefined where it has no such mask.
Expr below_mask(const Expr& number) {
  const auto* masked = number.as<Binary>();
  const auto* by = masked && masked->op == BinaryOp::BitAnd ? masked->b.as<Broadcast>() : nullptr;
  return by && is_const(by->value, kEntries - 1) ? masked->a : Expr();
}

/// Bytes that lanes read and the bit of these at which each lane's number begins.
struct BitPlaces {
  const Load* load = nullptr;
  Expr base;          ///< the first byte
  int64_t bytes = 0;  ///< a power of two
  std::array<int64_t, kEntries> bits;
};

/// The places of 16 numbers of four bits within at most eight bytes, such as neighbours.
std::optional<BitPlaces> bit_places(const Expr& number, const Ranges& ranges) {
  constexpr int64_t kBits = 8;
  const Expr below = below_mask(number);
  const auto* shifted = below.defined() ? below.as<Binary>() : nullptr;
  const auto* wide = shifted && shifted->op == BinaryOp::Shr ? shifted->a.as<Cast>() : nullptr;
  BitPlaces out;
  out.load = wide ? wide->value.as<Load>() : nullptr;
  if (!out.load || out.load->dtype.element() != u8 || out.load->indices.size() != 1)
    return std::nullopt;
  const std::optional<LanePattern> at = as_lane_pattern(out.load->indices[0], ranges);
  if (!at) return std::nullopt;
  const auto [least, most] = std::ranges::minmax_element(at->offsets);
  out.base = at->base + *least;
  out.bytes = *most - *least + 1;
  if (out.bytes > kBits || !std::has_single_bit(static_cast<uint64_t>(out.bytes)))
    return std::nullopt;
  for (int lane = 0; lane < kEntries; ++lane) {
    const Expr by = simplify(slice_lanes(shifted->b, lane, 1), ranges);
    const int64_t* shift = as_int(by);
    if (!shift || *shift < 0 || *shift > kBits / 2) return std::nullopt;
    out.bits[static_cast<size_t>(lane)] =
        kBits * (at->offsets[static_cast<size_t>(lane)] - *least) + *shift;
  }
  return out;
}

}  // namespace

// All bytes in each eight bytes of a register, of which vpmultishiftqb takes the eight bits from any bit on.
Value* Generator::emit_bit_places(const Expr& number) {
  const std::optional<BitPlaces> places =
      machine_.vbmi && !mask_ ? bit_places(number, ranges_) : std::nullopt;
  if (!places || !storage_of(places->load->buffer).base) return nullptr;
  const Storage& storage = storage_of(places->load->buffer);
  llvm::Type* type = b_.getIntNTy(static_cast<unsigned>(8 * places->bytes));
  auto* bytes = b_.CreateAlignedLoad(type, address(storage, u8, places->base), llvm::Align(1));
  annotate(bytes, storage);
  llvm::SmallVector<llvm::Constant*, 64> from;
  for (const int64_t bit : places->bits) {
    for (int i = 0; i < i32.bytes(); ++i) from.push_back(b_.getInt8(static_cast<uint8_t>(bit)));
  }
  Value* all = b_.CreateVectorSplat(8, b_.CreateZExt(bytes, b_.getInt64Ty()));
  llvm::Type* as_bytes = with_lanes(b_.getInt8Ty(), 64);
  Value* taken =
      b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_pmultishift_qb_512, {},
                         {llvm::ConstantVector::get(from), b_.CreateBitCast(all, as_bytes)});
  return b_.CreateBitCast(taken, with_lanes(b_.getInt32Ty(), kEntries));
}

Value* Generator::emit_table(const Expr& e) {
  constexpr int kFewNodes = 16, kLeastSteps = 2;
  const int lanes = e.dtype().lanes;
  if (!machine_.avx512 || machine_.vector_bytes < kEntries * f32.bytes() ||
      e.dtype().element() != f32 || lanes % kEntries != 0 ||
      !std::has_single_bit(static_cast<unsigned>(lanes)))
    return nullptr;
  int budget = kFewNodes;
  const LaneParts parts = parts_of(e, ranges_, budget);
  if (parts.other || !parts.has_number() || parts.steps < kLeastSteps ||
      !contains_load(parts.number))
    return nullptr;
  const Expr numbers = make_ramp(make_const(i32, 0), make_const(i32, 1), lanes);
  const Expr values = replace_equal(e, parts.number, numbers);
  Value* table = emit(lanes == kEntries ? values : slice_lanes(values, 0, kEntries));
  llvm::Type* type = with_lanes(b_.getFloatTy(), lanes);
  Value* result = llvm::PoisonValue::get(type);
  for (int begin = 0; begin < lanes; begin += kEntries) {
    const Expr number =
        lanes == kEntries ? parts.number : slice_lanes(parts.number, begin, kEntries);
    Value* places = emit_bit_places(number);
    if (!places) places = emit(below_mask(number).defined() ? below_mask(number) : number);
    Value* taken =
        b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {}, {table, places});
    result = lanes == kEntries ? taken : ops_.insert_lanes(result, taken, begin, kEntries);
  }
  return result;
}

}  // namespace heddle::codegen
