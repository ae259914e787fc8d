// Products of narrow types that are added up in a wider type: bf16 and f16 in f32, 8- and 16-bit
// integers in i32. Two things make them faster: operands that are widened once, while they are
// packed, and instructions that multiply and add groups of integers.
#pragma once

#include <optional>

#include "common/contraction_shape.h"
#include "heddle/instruction/instruction.h"

namespace heddle::meta::cpu {

/// sum(wide(x[..]) * wide(y[..])), where x and y have narrower types.
struct NarrowProduct {
  DataType x, y, wide;
  bool integers() const { return wide == i32; }
};

inline std::optional<NarrowProduct> narrow_product(const Operation& op) {
  const Reduce* sum = op.bodies()[0].as<Reduce>();
  if (!sum || sum->combiner->kind != ReduceKind::Sum || sum->sources.size() != 1)
    return std::nullopt;
  const Binary* mul = sum->sources[0].as<Binary>();
  if (!mul || mul->op != BinaryOp::Mul) return std::nullopt;
  const Cast *x = mul->a.as<Cast>(), *y = mul->b.as<Cast>();
  if (!x || !y || !x->value.as<Load>() || !y->value.as<Load>()) return std::nullopt;
  const NarrowProduct p{x->value.dtype(), y->value.dtype(), mul->a.dtype()};
  auto in = [](DataType t, std::initializer_list<DataType> list) {
    return std::find(list.begin(), list.end(), t) != list.end();
  };
  const bool floats = p.wide == f32 && in(p.x, {f16, bf16}) && in(p.y, {f16, bf16});
  const bool integers = p.wide == i32 && in(p.x, {i8, u8, i16}) && in(p.y, {i8, u8, i16});
  return floats || integers ? std::optional(p) : std::nullopt;
}

/// The sizes of groups of products that the target adds up in one instruction, ascending: pairs
/// (pmaddwd, which takes i16; vpdpwssd; vdpbf16ps) and fours of bytes (vpdpbusd, sdot and others).
inline std::vector<int64_t> dot_sizes(const NarrowProduct& p, const Target& target) {
  std::vector<int64_t> sizes;
  if (!p.integers()) {
    if (adds_products(target, p.wide, p.x, p.y, 2)) sizes.push_back(2);
    return sizes;
  }
  if (target.is_x86()) sizes.push_back(2);
  if (adds_products(target, p.wide, p.x, p.y, 4)) sizes.push_back(4);
  return sizes;
}

/// The reduction that is taken in groups, and the dimensions of the operands that it indexes.
struct GroupedReduction {
  int axis = -1;                      ///< position among the reduce axes
  int row_dim = -1, vector_dim = -1;  ///< the dimension of each operand that it indexes alone
  int lane_dim = -1;  ///< dimension of the vector operand that the vector axis indexes
  int64_t extent = 0;
};

/// nullopt where no reduce axis is a dimension of both operands, or where lanes would not be
/// adjacent.
inline std::optional<GroupedReduction> grouped_reduction(const Operation& op,
                                                         const ContractionShape& sh) {
  if (!sh.vector || !sh.row || sh.vector->guarded || sh.row->guarded) return std::nullopt;
  GroupedReduction g;
  for (size_t d = 0; d < sh.vector->affine.size(); ++d) {
    const auto& index = sh.vector->affine[d];
    if (!index) return std::nullopt;
    const int64_t step = index->coefficient(op.axes()[static_cast<size_t>(sh.v)].var());
    if (step == 0) continue;
    if (step != 1 || g.lane_dim >= 0) return std::nullopt;
    g.lane_dim = static_cast<int>(d);
  }
  if (g.lane_dim < 0) return std::nullopt;
  for (size_t i = 0; i < op.reduce_axes().size(); ++i) {
    const Axis& k = op.reduce_axes()[i];
    const int row_dim = plain_dim(*sh.row, k), vector_dim = plain_dim(*sh.vector, k);
    if (row_dim < 0 || vector_dim < 0 || k.extent() <= g.extent) continue;
    g.axis = static_cast<int>(i);
    g.row_dim = row_dim;
    g.vector_dim = vector_dim;
    g.extent = k.extent();
  }
  return g.axis >= 0 ? std::optional(g) : std::nullopt;
}

}  // namespace heddle::meta::cpu
