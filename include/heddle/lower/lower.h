// From a schedule to the loop IR that code generation takes.
#pragma once

#include <string>
#include <vector>

#include "heddle/ir/stmt.h"
#include "heddle/lower/gpu_program.h"
#include "heddle/schedule/schedule.h"

namespace heddle {

/// Options of lower().
struct LowerOptions {
  std::string name = "kernel";
  bool keep_passes = false;  ///< fill the records of passes with the program after each of them
  /// Loops whose unrolled body would have more statements are not unrolled. 0: the value of the
  /// schedule's options, or 512 where they have none. A value that differs from theirs is a User
  /// error.
  int max_unroll = 0;
};

/// The program after one pass, and the time of the pass.
struct PassRecord {
  std::string name;
  double ms = 0;
  LoweredFunction main, prepare;  ///< filled only with keep_passes
};

/// `main` takes the arguments of the kernel, then the buffers of `persistent`. Values that depend
/// only on constant placeholders (packed weights) are computed by `prepare`, whose arguments are
/// those constants and then `persistent`. Its body is null where there are none.
struct LoweredProgram {
  LoweredFunction main, prepare;
  std::vector<Buffer> persistent;
  std::vector<int> constant_args;  ///< positions among the kernel's arguments
  std::vector<PassRecord> passes;
};

/// Lowers a schedule. `args` are every placeholder and every output of the schedule's DAG, in call
/// order. Throws a User error for a missing or foreign argument, or for a stage that is read
/// outside of the loop where it is computed. A schedule for a GPU gives its sequential form, which
/// the interpreter runs.
LoweredProgram lower(const Schedule& schedule, const std::vector<Tensor>& args,
                     const LowerOptions& options = {});

/// The same for a GPU: one kernel for each stage at the root. bind() makes loops block or thread
/// indices. Loops that are not bound run serially in each thread. A schedule whose target is not a
/// GPU, and a limit of unrolling, are User errors.
GpuProgram lower_gpu(const Schedule& schedule, const std::vector<Tensor>& args,
                     const LowerOptions& options = {});

}  // namespace heddle
