// Checks for NaN and infinity, generated into lowered programs (BuildOptions::check_finite).
#pragma once

#include <vector>

#include "heddle/lower/gpu_program.h"
#include "heddle/lower/lower.h"

namespace heddle::lowering {

struct FiniteChecks {
  Buffer report;  ///< the last argument of the checked program: i64[rows * slots]; may be null
  std::vector<int> args;  ///< the position of each row's argument
  int64_t slots = 0;      ///< elements of a row
};

/// An argument of a program, at its place among all arguments.
struct CheckedArgument {
  Buffer buffer;
  bool output = false;
};

/// Adds loops to the main function: before its body for the inputs of floating-point types among
/// `args`, after it for the outputs.
///
///   for t in 0..slots {
///     first = nothing
///     for j { i = t*n + j  if (x[i] is NaN or infinite) first = min(first, i) }
///     report[row*slots + t] = first
///   }
///
/// The elements of the report are as FiniteReport describes them. Nothing is added where no
/// argument is of such a type.
FiniteChecks add_finite_checks(LoweredProgram& program, const std::vector<CheckedArgument>& args);

/// The same as kernels of their own, before and after the others; a slot for each thread.
FiniteChecks add_finite_checks(GpuProgram& program, const std::vector<CheckedArgument>& args);

}  // namespace heddle::lowering
