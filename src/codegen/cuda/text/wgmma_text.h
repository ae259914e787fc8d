// The names of the helper functions for products by warp groups.
#pragma once

#include <string>

#include "heddle/support/dtype.h"

namespace heddle::cuda {

/// The name of the function for 64 rows, `columns` columns and 32 bytes of the depth.
/// "wgmma_n128_bf16" (16-bit floats) and "wgmma_n64_tf32" (f32) add up in f32, "wgmma_n96_s8_u8"
/// (bytes) in i32.
std::string wgmma_name(int columns, DataType a, DataType b);
/// With "_begins" the product replaces what the accumulators hold.
/// The same for a left operand that is a fragment in registers: "wgmma_n128_bf16_registers".
std::string wgmma_of_registers(int columns, DataType t);

}  // namespace heddle::cuda
