// The two calls most programs make: a schedule for a declaration, and a kernel for a schedule.
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

/// The choice without measuring. The best record of this declaration and target (the user's log,
/// tophub: see records/tophub.h) where there is one that applies; otherwise the meta-templates'
/// analytic rules fill in every knob, from `target` and `options` (those of this thread's scope, if
/// nothing else is said), which can also turn records off. `Schedule::provenance` says how it was
/// chosen; the schedule holds target and options, for build().
Schedule create_schedule(const std::vector<Tensor>& outputs, const Target& target = Target::host(),
                         const AutoSchedulerOptions& options = current_auto_scheduler_options());

/// The record's schedule alone; empty where no record applies, or the options turn them off.
std::optional<Schedule> recorded_schedule(
    const std::vector<Tensor>& outputs, const Target& target = Target::host(),
    const AutoSchedulerOptions& options = current_auto_scheduler_options());

/// The untuned reference: every stage computed whole, one after the other, outer loops fused and
/// parallel; for a GPU, a kernel a stage, and a thread an element.
Schedule naive_schedule(const std::vector<Tensor>& outputs, const Target& target = Target::host());

struct BuildOptions {
  /// The schedule says what it is for, so this may be left out. What code does not depend on
  /// (threads, caches) may differ; another kind, CPU or vector width is a User error.
  std::optional<Target> target = {};
  std::string name = "kernel";
  int opt_level = 1;   ///< see CodegenOptions
  int max_unroll = 0;  ///< see LowerOptions
};

/// Where the time of a build went, in milliseconds.
struct BuildTimes {
  double lower = 0, llvm_ir = 0, optimize = 0, codegen = 0, link = 0, total = 0;
  std::vector<PassRecord> passes;
};

/// Compiles `schedule`, for its target, into a kernel that takes `args` in this order: every input
/// and every output. Constants with values (dsl/arrays.h) may be left out: the kernel supplies
/// those.
Kernel build(const Schedule& schedule, const std::vector<Tensor>& args,
             const BuildOptions& options = {}, BuildTimes* times = nullptr);

}  // namespace heddle
