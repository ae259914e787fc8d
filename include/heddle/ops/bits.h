// Integers as bits: counts, packed words, and products of numbers of few bits.
//
//   Tensor words = ops::pack_bits(ops::greater_equal(x, zero));       // (M, K) -> (M, K / 32) of u32
//   Tensor y = ops::bitserial_matmul(x, w, {.bits_x = 2, .bits_w = 1});
//
// The count of bits is declared by shifts, masks and sums, which LLVM makes the machine's instruction of.
#pragma once

#include <cstdint>

#include "heddle/dsl/tensor.h"
#include "heddle/ops/conv.h"

namespace heddle::ops {

/// The number of bits of each element that are 1, of the type of x, which is an integer.
Tensor popcount(const Tensor& x, Where where = Where::current());

/// Bits in words of the unsigned type `word` along `axis`: whether each element is not 0, the first one in the
/// lowest bit. The last word is filled with zeros.
Tensor pack_bits(const Tensor& x, int axis = -1, DataType word = u32,
                 Where where = Where::current());
/// The lowest `bits` bits of unsigned integers, each in words of its own: dimension 0 of the result is the
/// bit, the others are those of pack_bits().
Tensor pack_planes(const Tensor& x, int bits, int axis = -1, DataType word = u32,
                   Where where = Where::current());

/// The product of numbers of which each bit is 1 or -1, packed by pack_bits() (Rastegari et al. 2016,
/// arXiv:1603.05279): x (M, words), weight (N, words), `depth` bits of each row -> i32 (M, N).
Tensor binary_matmul(const Tensor& x, const Tensor& weight, int64_t depth,
                     Where where = Where::current());

/// Numbers of few bits.
struct BitSerial {
  int bits_x = 1, bits_w = 1;
  bool signed_weights = false;  ///< a bit of a weight that is 0 stands for -1
};
/// x (M, K) times weight (N, K), unsigned integers of few bits, by counts of bits (Umuroglu et al. 2018,
/// arXiv:1806.08862): i32 (M, N). Higher bits are not read.
Tensor bitserial_matmul(const Tensor& x, const Tensor& weight, const BitSerial& bits = {},
                        Where where = Where::current());
/// The same as a convolution over x and weights in the layout of conv2d(); padding is 0. No groups.
Tensor bitserial_conv2d(const Tensor& x, const Tensor& weight, const BitSerial& bits = {},
                        const Conv& attributes = {}, Where where = Where::current());

}  // namespace heddle::ops
