// A kernel of a task as code in a file, and what its parameters are: the only part of an export that
// differs between CPUs and GPUs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heddle/codegen/llvm.h"
#include "heddle/runtime/kernel.h"
#include "heddle/schedule/schedule.h"
#include "network/cut/horizontal.h"
#include "runtime/cuda/cuda_program.h"

namespace heddle::network {

struct CompiledKernel {
  std::string name = {};            ///< of its task
  std::string entry = {};           ///< the name of its function; empty for a GPU
  std::string file;                 ///< the path of the object, or of the machine code for a GPU
  std::vector<bool> read = {};      ///< for each argument, whether calls read or write it
  std::vector<int> constants = {};  ///< the arguments that the preparation reads
  std::vector<KernelArg> persistent = {};
  std::vector<Var> sizes = {};  ///< those that it takes
  /// Kernels of equal keys prepare equal buffers of equal constants.
  std::string prepare_key = {};
  CompiledModule prepare = {};  ///< for a CPU: runs on this machine
  std::shared_ptr<const cuda::Program> gpu = {};
};

/// Number `index` of the kernels of a network, of task `task`. Writes `file`.
CompiledKernel compile_kernel(const Schedule& schedule, size_t index, size_t task,
                              const std::string& file);
/// The kernel of steps.joined()[j].
CompiledKernel compile_joined(const NetworkSteps& steps, size_t k, const std::string& file);

}  // namespace heddle::network
