// A kernel between lowering and compilation. build() makes one of them, build_multi and export_multi
// several.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heddle/driver/build.h"
#include "lower/passes/finite_checks.h"

namespace heddle::driver {

struct LoweredVariant {
  Schedule schedule;
  /// One of the two programs is set, depending on the target of the schedule. Tensors that the
  /// variant does not read are also among its arguments.
  std::shared_ptr<const LoweredProgram> cpu;
  std::shared_ptr<const GpuProgram> gpu;
  std::vector<Tensor> all;        ///< the arguments of the call, then bound constants
  size_t listed = 0;              ///< the number of those that are arguments of the call
  lowering::FiniteChecks checks;  ///< the checks that the program contains
  std::vector<int> in_part = {};  ///< the outputs of which rows go to places (scatter_rows)
};

/// `own`: the tensors of the variant in the places of `args`, null where it reads none.
LoweredVariant lower_variant(const Schedule& schedule, const std::vector<Tensor>& own,
                             const std::vector<Tensor>& args, const BuildOptions& options);

/// Throws a User error for a size that the shape of no argument gives. Calls of a kernel read sizes
/// there; those of a network pass them to its kernels.
void check_sizes_are_given(const LoweredVariant& variant);

/// A key that is equal for variants of equal code, in every process. It has no names of variables.
std::string code_of(const LoweredVariant& variant, const BuildOptions& options);
std::vector<KernelArg> args_of(const LoweredVariant& variant);

/// The caller adds the times of lowering. Throws a User error for a program that a GPU would refuse
/// to launch.
TimedBuild compile_variant(const LoweredVariant& variant, const BuildOptions& options);
TimedBuild compile_for_cpu(const LoweredVariant& variant, const BuildOptions& options);
TimedBuild compile_for_gpu(const LoweredVariant& variant, const BuildOptions& options);
/// The same for a program of several schedules (lower/gpu/memory/join_kernels.h): `all` are its
/// args.
TimedBuild compile_joined_program(const std::shared_ptr<const GpuProgram>& program, const Gpu& gpu,
                                  const std::vector<Tensor>& all, KernelWork work);

}  // namespace heddle::driver
