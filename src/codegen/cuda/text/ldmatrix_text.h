// The names of the helper functions that load matrices of shared memory into registers (ldmatrix).
#pragma once

#include <string>

#include "heddle/support/dtype.h"

namespace heddle::cuda {

/// The name of the function for so many matrices and registers of type `t`: ldmatrix_x4_trans.
std::string ldmatrix_name(int matrices, bool transposed, DataType t);

}  // namespace heddle::cuda
