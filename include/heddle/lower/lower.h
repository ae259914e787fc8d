// From a schedule to the loop IR that code generation takes.
#pragma once

#include <string>
#include <vector>

#include "heddle/ir/stmt.h"
#include "heddle/lower/gpu_program.h"
#include "heddle/schedule/schedule.h"

namespace heddle {

struct LowerOptions {
  std::string name = "kernel";
  bool keep_passes = false;  ///< fill LoweredProgram::passes with the program after each pass
  /// Loops whose unrolled body would have more statements stay loops. 0: as the schedule's options
  /// say, else 512. A User error where those say something else.
  int max_unroll = 0;
};

/// The program after one pass, and what the pass cost.
struct PassRecord {
  std::string name;
  double ms = 0;
  LoweredFunction main, prepare;  ///< filled only with keep_passes
};

/// `main` takes the arguments of the kernel, then the buffers of `persistent`. What depends only on
/// constant placeholders (packed weights) is computed by `prepare`, whose arguments are those
/// constants, then `persistent`; its body is null when there is no such thing.
struct LoweredProgram {
  LoweredFunction main, prepare;
  std::vector<Buffer> persistent;
  std::vector<int> constant_args;  ///< positions among the kernel's arguments
  std::vector<PassRecord> passes;
};

/// `args`: every placeholder and every output of the schedule's DAG, in call order. Throws a user
/// error for a missing or foreign argument, or a stage read outside of where it is computed. A
/// schedule for a GPU gives its sequential form, as the interpreter runs it.
LoweredProgram lower(const Schedule& schedule, const std::vector<Tensor>& args,
                     const LowerOptions& options = {});

/// The same for a GPU: one kernel for each stage at the root. Loops say by bind() which are blocks
/// and threads; what is bound to nothing runs in each thread of its block, one after the other. A
/// User error for a schedule whose target is no GPU, and for a limit to unrolling.
GpuProgram lower_gpu(const Schedule& schedule, const std::vector<Tensor>& args,
                     const LowerOptions& options = {});

}  // namespace heddle
