// The two calls that most programs make: a schedule for a declaration, and a kernel for a schedule.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heddle/codegen/llvm.h"
#include "heddle/lower/lower.h"
#include "heddle/runtime/kernel.h"
#include "heddle/schedule/schedule.h"
#include "heddle/schedule/template.h"
#include "heddle/target/target.h"

namespace heddle {

/// Chooses a schedule without measuring. It takes the best record of this declaration and target,
/// from the user's log or tophub (see records/tophub.h), where one applies. Otherwise the analytic
/// rules of the meta-templates set every knob from `target` and `options`. The default for
/// `options` is those of this thread's scope; they can also turn records off.
/// `Schedule::provenance` says how the schedule was chosen. The schedule holds target and options
/// for build(). For a declaration over dimensions (dsl/dim.h) see family/schedule.h.
Schedule create_schedule(const std::vector<Tensor>& outputs, const Target& target = Target::host(),
                         const AutoSchedulerOptions& options = current_auto_scheduler_options());

/// The schedule of the best record; empty where no record applies or the options turn records off.
std::optional<Schedule> recorded_schedule(
    const std::vector<Tensor>& outputs, const Target& target = Target::host(),
    const AutoSchedulerOptions& options = current_auto_scheduler_options());

/// The reference without optimisation: the stages are computed one after the other, with outer
/// loops fused and parallel. For a GPU: one kernel for each stage and one thread for each element.
Schedule naive_schedule(const std::vector<Tensor>& outputs, const Target& target = Target::host());

/// Options of build().
struct BuildOptions {
  /// The target. The schedule names its target, so this may be left out. Properties that code does
  /// not depend on (threads, caches) may differ. Another kind, CPU or vector width is a User error.
  std::optional<Target> target = {};
  std::string name = "kernel";  ///< in profiles, messages and exported files
  int opt_level = 1;            ///< 1: a few cheap passes; 2: LLVM's O2
  int max_unroll = 0;           ///< statements of an unrolled body; 0: by the target
  bool disk_cache = false;      ///< keep code on the disk; cubins always are
  /// Debug mode: the kernel checks the elements of every argument of a floating-point type for NaN
  /// and infinity, inputs before it computes and outputs after. A call then throws a Runtime error
  /// that names the kernel, each such argument and the index of its first bad element. The call
  /// waits for the GPU, so it cannot be captured.
  bool check_finite = false;
  /// Debug mode: each call first checks the indices that are data of the gathers of the declaration
  /// (ops/transform.h), which are otherwise clamped. An index out of range is a Runtime error that
  /// names the kernel, the stage, what it reads, the index and the extent. The call waits for the
  /// GPU, so it cannot be captured. Extents must be constant.
  bool check_indices = false;
};

/// The time of each part of a build, in milliseconds.
struct BuildTimes {
  double lower = 0, llvm_ir = 0, optimize = 0, codegen = 0, link = 0, total = 0;
  std::vector<PassRecord> passes;
  CacheAnswer cache = CacheAnswer::NotAsked;
};

/// Compiles `schedule`, for its target, into a kernel that takes `args` in this order: every input
/// and every output. Constants with values (dsl/arrays.h) may be left out: the kernel supplies
/// them.
Kernel build(const Schedule& schedule, const std::vector<Tensor>& args,
             const BuildOptions& options = {});

/// A kernel and the times of its build, in seconds.
struct TimedBuild {
  Kernel kernel;
  BuildTimes times;
};
/// The same, with the time that each part took. For a GPU `codegen` is the time of emitting and
/// compiling CUDA text, and `llvm_ir`, `optimize` and `link` are 0.
TimedBuild build_timed(const Schedule& schedule, const std::vector<Tensor>& args,
                       const BuildOptions& options = {});

}  // namespace heddle
