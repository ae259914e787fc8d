// Random numbers, the same for a seed on every target and in every call: each depends on the seed and
// its own position alone.
//
//   Tensor noise = ops::random_normal({2, 3, 64, 64}, 7);
//   Tensor keep = ops::random_uniform({1024}, 8);   // in [0, 1)
//
// The bits are those of SplitMix64 (Steele, Lea and Flood 2014) at the position, so that no state is
// kept between elements.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/dsl/tensor.h"

namespace heddle::ops {

/// Numbers in [low, high) of a type of floats. f32 and f64 have 24 random bits, narrower types as many
/// as they hold.
Tensor random_uniform(const std::vector<int64_t>& shape, uint64_t seed, double low = 0,
                      double high = 1, DataType dtype = f32, Where where = Where::current());

/// Numbers of a normal distribution (Box and Muller 1958), computed in f32.
Tensor random_normal(const std::vector<int64_t>& shape, uint64_t seed, double mean = 0,
                     double deviation = 1, DataType dtype = f32, Where where = Where::current());

/// Indices drawn with the probabilities of which `logits` (N, C) are logarithms, up to a factor for
/// each row: (N, samples), integers of `dtype`, with repetitions.
Tensor random_choice(const Tensor& logits, int64_t samples, uint64_t seed, DataType dtype = i64,
                     Where where = Where::current());

}  // namespace heddle::ops
