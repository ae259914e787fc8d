// The representation of Heddle's types in CUDA C++.
#pragma once

#include <string>

#include "codegen/cuda/text/text.h"
#include "heddle/support/dtype.h"

namespace heddle::cuda {

/// The type of a value. f16 and bf16 are `unsigned short` with their bits, 8-bit floats `unsigned
/// char`.
std::string value_type(DataType t);
/// The type of an element in memory: as value_type, but a byte for bool.
std::string memory_type(DataType t);
/// A vector of `bytes` (4, 8 or 16) of elements of `t`: "float4"; "uint2" for eight bytes of 16-bit
/// or 8-bit elements, several to a word.
std::string vector_type(DataType t, int bytes);
/// The function that makes a vector, such as "make_float4"; "" where the vector is one value.
std::string make_vector(DataType t, int bytes);
inline bool is_small_float(DataType t) { return t.is_small_float(); }
/// Elements in each component of a vector: 1, or as many as fit in 32 bits.
inline int elements_per_word(DataType t) { return t.bytes() >= 4 ? 1 : 4 / t.bytes(); }

/// Constants; those of small floats by their bits.
Text int_literal(DataType t, int64_t value);
Text float_literal(DataType t, double value);

}  // namespace heddle::cuda
