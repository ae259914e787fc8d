// Index vectors that are not a ramp but have the same pattern everywhere: one position, and a
// constant distance from it for each lane. Reading each pixel twice, (16*j + lane) / 2, is 8*j +
// {0, 0, 1, 1, 2, 2, ..}: a load or two and a shuffle, where a gather would fetch lane by lane.
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

// Short runs of elements at any positions, such as the rows of a tile that are packed side by side.
// Each run is loaded as one integer. Null where runs have one element or are too long.
Value* Generator::load_runs(const Storage& storage, DataType dtype, const LanePattern& pattern) {
  const auto runs_of = [&](int length) {
    for (int lane = 0; lane < dtype.lanes; ++lane) {
      if (pattern.offsets[lane] != pattern.offsets[lane / length * length] + lane % length)
        return false;
    }
    return dtype.lanes % length == 0;
  };
  int length = 64 / dtype.bits;
  while (length > 1 && !runs_of(length)) length /= 2;
  if (length < 2 || dtype.is_bool()) return nullptr;
  llvm::Type* run = b_.getIntNTy(static_cast<unsigned>(length * dtype.bits));
  llvm::Type* type = with_lanes(run, padded_lanes(dtype) / length);
  Value* result = llvm::Constant::getNullValue(type);
  for (int lane = 0; lane < dtype.lanes; lane += length) {
    auto* load = b_.CreateAlignedLoad(
        run, address(storage, dtype, pattern.base, pattern.offsets[lane]), element_align(dtype));
    annotate(load, storage);
    if (!type->isVectorTy()) {
      result = load;
    } else {
      result = b_.CreateInsertElement(result, load, static_cast<uint64_t>(lane / length));
    }
  }
  return b_.CreateBitCast(result, memory_type(context(), dtype));
}

// A few contiguous stretches whose elements alternate, such as interleaved rows. Null where there
// are more than four.
Value* Generator::load_stretches(const Storage& storage, DataType dtype,
                                 const LanePattern& pattern) {
  struct Stretch {
    int64_t from, to;
  };
  std::vector<int64_t> sorted = pattern.offsets;
  std::sort(sorted.begin(), sorted.end());
  std::vector<Stretch> stretches;
  for (int64_t offset : sorted) {
    if (stretches.empty() || offset - stretches.back().from >= dtype.lanes) {
      stretches.push_back({offset, offset});
    }
    stretches.back().to = offset;
  }
  if (stretches.size() > 4 || dtype.is_bool()) return nullptr;
  const int width = padded_lanes(dtype);
  Value* result = nullptr;
  for (const Stretch& s : stretches) {
    const int count = static_cast<int>(s.to - s.from + 1);
    if (count < 2) return nullptr;
    Value* part = load_contiguous(storage, dtype.with_lanes(count),
                                  address(storage, dtype, pattern.base, s.from), nullptr);
    llvm::SmallVector<int, 64> place(width, llvm::PoisonMaskElem), blend(width);
    for (int lane = 0; lane < width; ++lane) {
      const int64_t at = lane < dtype.lanes ? pattern.offsets[lane] : s.to + 1;
      const bool here = at >= s.from && at <= s.to;
      if (here) place[lane] = static_cast<int>(at - s.from);
      blend[lane] = here ? width + lane : lane;
    }
    part = b_.CreateShuffleVector(part, place);
    result = result ? b_.CreateShuffleVector(result, part, blend) : part;
  }
  return result;
}

// One or two loads that cover exactly the range from the first element to the last. Where elements
// are further apart, one load for each stretch or run. Null where that takes too many loads.
Value* Generator::load_pattern(const Storage& storage, DataType dtype, const LanePattern& pattern) {
  const auto [least, most] = std::minmax_element(pattern.offsets.begin(), pattern.offsets.end());
  const int lanes = dtype.lanes;
  const int64_t span = *most - *least + 1;
  if (span > 2 * int64_t{lanes}) {
    Value* runs = load_runs(storage, dtype, pattern);
    return runs ? runs : load_stretches(storage, dtype, pattern);
  }
  Value* first = address(storage, dtype, pattern.base, *least);
  if (span == 1) return ops_.splat(load_scalar(storage, dtype, first), padded_lanes(dtype));
  // Each load covers half of the lanes if possible, because the shuffle then stays within the
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
