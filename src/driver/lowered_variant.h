// One variant of a multi-kernel, lowered but not compiled yet.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heddle/driver/build.h"
#include "lower/passes/finite_checks.h"

namespace heddle {

struct LoweredVariant {
  Schedule schedule;
  /// One of the two programs is set, depending on the target of the schedule. Tensors that the
  /// variant does not read are also among its arguments.
  std::shared_ptr<const LoweredProgram> cpu;
  std::shared_ptr<const GpuProgram> gpu;
  std::vector<Tensor> all;  ///< the arguments of the multi-kernel, then bound constants
  size_t listed = 0;        ///< the number of those that are arguments of the multi-kernel
  FiniteChecks checks;      ///< the checks that the program contains
  /// A key that is equal for variants of equal code, in every process. It has no names of
  /// variables.
  std::string code;
};

/// `own`: the tensors of the variant in the places of `args`, null where it reads none.
LoweredVariant lower_variant(const Schedule& schedule, const std::vector<Tensor>& own,
                             const std::vector<Tensor>& args, const BuildOptions& options);

std::vector<KernelArg> args_of(const LoweredVariant& variant);
Kernel compile_variant(const LoweredVariant& variant, const BuildOptions& options);

}  // namespace heddle
