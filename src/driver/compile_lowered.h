// From a lowered program to a kernel: the second half of build().
#pragma once

#include <memory>
#include <vector>

#include "heddle/driver/build.h"
#include "heddle/lower/gpu_program.h"
#include "lower/passes/finite_checks.h"

namespace heddle {

/// Adds checks for NaN and infinity of the arguments `all`, as with_bound gave them, where the
/// options ask for them.
template <class Program>
FiniteChecks with_finite_checks(Program& program, const std::vector<Tensor>& all,
                                const std::vector<Buffer>& buffers, const BuildOptions& options) {
  if (!options.check_finite) return {};
  std::vector<CheckedArgument> args;
  for (size_t i = 0; i < all.size(); ++i) {
    args.push_back({buffers[i], !all[i].op()->is_placeholder()});
  }
  return add_finite_checks(program, args);
}

/// `all` are the arguments that with_bound gave, of which the first `listed` are arguments of the
/// kernel. The caller adds the times of lowering. `checks` are the checks that the program
/// contains.
TimedBuild compile_lowered(const std::shared_ptr<const LoweredProgram>& program,
                           const Schedule& schedule, const std::vector<Tensor>& all, size_t listed,
                           const FiniteChecks& checks, const BuildOptions& options);
/// The same for a GPU. Throws a User error for a program that the GPU would refuse to launch.
TimedBuild compile_lowered(const std::shared_ptr<const GpuProgram>& program,
                           const Schedule& schedule, const std::vector<Tensor>& all, size_t listed,
                           const FiniteChecks& checks, const BuildOptions& options);
/// The same for a program of several schedules (lower/gpu/memory/join_kernels.h): `all` are its
/// args.
TimedBuild compile_lowered(const std::shared_ptr<const GpuProgram>& program, const Gpu& gpu,
                           const std::vector<Tensor>& all, KernelWork work);

}  // namespace heddle
