// One variant of a multi-kernel, lowered: its code is known, and not compiled yet.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heddle/driver/build.h"
#include "lower/finite_checks.h"

namespace heddle {

struct LoweredVariant {
  Schedule schedule;
  /// One of them, by the target of the schedule. Arguments that the variant does not read are among
  /// its arguments all the same.
  std::shared_ptr<const LoweredProgram> cpu;
  std::shared_ptr<const GpuProgram> gpu;
  std::vector<Tensor> all;  ///< the arguments of the multi-kernel, then bound constants
  size_t listed = 0;        ///< of those, the arguments
  FiniteChecks checks;      ///< that the program has
  /// Equal for variants of equal code, in every process. It has no names of variables.
  std::string code;
};

/// `own`: the tensors of the variant in the places of `args`, null where it reads none.
LoweredVariant lower_variant(const Schedule& schedule, const std::vector<Tensor>& own,
                             const std::vector<Tensor>& args, const BuildOptions& options);

std::vector<KernelArg> args_of(const LoweredVariant& variant);
Kernel compile_variant(const LoweredVariant& variant, const BuildOptions& options);

}  // namespace heddle
