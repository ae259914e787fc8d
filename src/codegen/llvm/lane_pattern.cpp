// Index vectors that are no ramp, but the same pattern wherever they are: one place and a constant
// distance from it for every lane. Reading every pixel twice, (16*j + lane) / 2, is 8*j + {0, 0, 1,
// 1, 2, 2, ..}: a load or two and a shuffle, where a gather would fetch lane by lane.
#include <algorithm>
#include <bit>
#include <numeric>

#include "codegen/llvm/generator.h"

namespace heddle::codegen {

using llvm::Value;

std::optional<LanePattern> as_lane_pattern(const Expr& index, const Ranges& ranges) {
  const int lanes = index.dtype().lanes;
  bool formula = index.dtype().element() == i64 && lanes > 1;
  visit(index, [&](const Expr& e) {
    formula &= e.kind() != ExprKind::Load && (e.kind() != ExprKind::Var || e.dtype().is_scalar());
  });
  if (!formula) return std::nullopt;
  LanePattern out;
  for (int lane = 0; lane < lanes; ++lane) {
    const Expr at = simplify(slice_lanes(index, lane, 1), ranges);
    if (lane == 0) out.base = at;
    const Expr distance = simplify(at - out.base, ranges);
    const int64_t* constant = as_int(distance);
    if (!constant) return std::nullopt;
    out.offsets.push_back(*constant);
  }
  return out;
}

Value* Generator::emit_lane_pattern(const LanePattern& pattern, DataType dtype) {
  llvm::SmallVector<llvm::Constant*, 64> offsets(padded_lanes(dtype));
  for (size_t lane = 0; lane < offsets.size(); ++lane) {
    const int64_t offset = lane < pattern.offsets.size() ? pattern.offsets[lane] : 0;
    offsets[lane] = int_like(element_type(context(), dtype), offset);
  }
  return b_.CreateAdd(ops_.splat(emit(pattern.base), padded_lanes(dtype)),
                      llvm::ConstantVector::get(offsets));
}

// From the first element that is read to the last, nothing outside: one load, or two. Null where
// they lie too far apart.
Value* Generator::load_pattern(const Storage& storage, DataType dtype, const LanePattern& pattern) {
  const auto [least, most] = std::minmax_element(pattern.offsets.begin(), pattern.offsets.end());
  const int lanes = dtype.lanes;
  const int64_t span = *most - *least + 1;
  if (span > 2 * int64_t{lanes}) return nullptr;
  Value* first = address(storage, dtype, pattern.base, *least);
  if (span == 1) return ops_.splat(load_scalar(storage, dtype, first), padded_lanes(dtype));
  // Half of the lanes from a load each, if that is possible: their shuffle then stays within the
  // halves of a register.
  const int half = lanes / 2;
  bool halves = !is_padded(dtype) && half >= 2 && half <= span;
  int64_t begins[2] = {0, 0};
  for (int h = 0; halves && h < 2; ++h) {
    const auto from = pattern.offsets.begin() + h * half;
    const auto [lowest, highest] = std::minmax_element(from, from + half);
    begins[h] = std::min(*lowest - *least, span - half);
    halves = *highest - *least - begins[h] < half;
  }
  const int width = halves ? half : static_cast<int>(std::bit_floor(static_cast<uint64_t>(span)));
  if (!halves) {  // the other load ends at the last element: they overlap
    begins[0] = 0;
    begins[1] = span - width;
  }
  const auto part = [&](int64_t begin) {
    auto* load = b_.CreateAlignedLoad(with_lanes(element_memory(dtype), width),
                                      advance(first, dtype, begin), element_align(dtype));
    annotate(load, storage);
    return load;
  };
  Value* low = part(begins[0]);
  Value* high = begins[1] == begins[0] ? low : part(begins[1]);
  llvm::SmallVector<int, 64> mask(padded_lanes(dtype), llvm::PoisonMaskElem);
  for (int lane = 0; lane < lanes; ++lane) {
    const int64_t at = pattern.offsets[lane] - *least;
    const bool in_low = halves ? lane < half : at < width;
    mask[lane] = static_cast<int>(in_low ? at - begins[0] : width + at - begins[1]);
  }
  if (!halves) return from_memory(b_.CreateShuffleVector(low, high, mask), dtype);
  llvm::SmallVector<int, 64> both(lanes);
  std::iota(both.begin(), both.end(), 0);
  Value* joined = b_.CreateShuffleVector(low, high, both);
  return from_memory(b_.CreateShuffleVector(joined, mask), dtype);
}

}  // namespace heddle::codegen
