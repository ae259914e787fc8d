// Elements of a matrix of few bits as integers, whose scales are the same in each block along an axis.
#pragma once

#include <cstdint>
#include <optional>

#include "heddle/ir/simplify.h"

namespace heddle::dag {

/// Elements of the form
///
///   scale * (number - zero) + offset
///
/// of which `number` alone differs within a block.
struct BlockValues {
  Expr scale;   ///< f32
  Expr number;  ///< integers of `range`
  Interval range;
  Expr zero;                           ///< i32; undefined: 0
  Expr offset;                         ///< f32; undefined: 0
  Var block{"block"}, inner{"inner"};  ///< the axis at element inner + block * size
};

/// The elements `body` along axis `k` of `extent`, in blocks of `size`, over `block` and `inner`; nullopt where
/// they have no such form.
std::optional<BlockValues> as_block_values(const Expr& body, const Var& k, int64_t extent,
                                           int64_t size);

}  // namespace heddle::dag
