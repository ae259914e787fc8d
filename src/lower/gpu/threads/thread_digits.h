// How a buffer of all threads of a block becomes one of each thread: an index of it that says which
// thread an element belongs to loses that part.
//
//   acc[ty*8 + i]     the digit of ty has the weight 8; what is left is acc[i]
#pragma once

#include <optional>
#include <vector>

#include "lower/gpu/gpu_passes.h"
#include "lower/gpu/threads/buffer_uses.h"

namespace heddle::gpu {

/// A part of an index that only says which thread: the index's digit of weight `weight` in a mixed
/// radix system, of values below span / weight.
struct Digit {
  int dim;  ///< dimension of the block
  int64_t weight, span;
};

/// The digits that are removed from each index of a buffer, by dimension, heaviest first.
struct ThreadDigits {
  std::vector<std::vector<Digit>> dims;
};

/// The digits that name threads, when all accesses of `use` agree on the owner of each element.
/// nullopt where threads must share the buffer. For a `fragment`, threadIdx.x are the lanes of a
/// warp, which own their parts by the register layout.
std::optional<ThreadDigits> find_thread_digits(const BufferUse& use, const LaunchShape& shape,
                                               bool fragment = false);

/// The part of `b` that one thread keeps. It is `b` where no digit is removed.
Buffer without_digits(const Buffer& b, const ThreadDigits& digits);

/// An index of this dimension without its digits.
Expr without_digits(const Expr& index, const std::vector<Digit>& digits);

}  // namespace heddle::gpu
