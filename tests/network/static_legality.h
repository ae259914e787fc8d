// Whether the static choices for a declaration are legal and can be lowered.
#pragma once

#include <string>
#include <vector>

#include "heddle/codegen/cuda.h"
#include "heddle/driver/build.h"
#include "heddle/lower/gpu_program.h"
#include "heddle/lower/lower.h"
#include "heddle/network/network.h"
#include "heddle/support/error.h"

namespace heddle::testing {

/// A machine of each kind that rules tell apart.
inline constexpr const char* kStaticTargets[] = {
    "llvm -mcpu=haswell",     "llvm -mcpu=znver3", "llvm -mcpu=znver5", "llvm -mcpu=emeraldrapids",
    "llvm -mcpu=neoverse-n1", "cuda -gpu=h100",    "cuda -gpu=h200",    "cuda -gpu=a100"};

/// Lowers for the target of the schedule, for GPUs as far as the text for NVRTC.
inline void lower_for_target(const Schedule& s, const std::vector<Tensor>& args) {
  if (s.target().is_cuda())
    emit_cuda(lower_gpu(s, args));
  else
    lower(s, args);
}

/// Why the naive schedule took the place of what templates choose; empty where it did not.
inline std::string why_last_resort(const Template& t) {
  return t.is_last_resort() ? t.refusals().back().why : "";
}

/// What is wrong with the static choices for a declaration, as one kernel and as a network cut into
/// nodes; empty where nothing is. `args`: placeholders, then outputs.
inline std::string why_not_lowered(const std::vector<Tensor>& outputs,
                                   const std::vector<Tensor>& args, const Target& target) {
  try {
    const Template whole = make_static_template(ComputeDag(outputs), target);
    if (const std::string why = why_last_resort(whole); !why.empty()) return why;
    lower_for_target(create_schedule(outputs, target), args);
    const Network network(outputs, target);
    const std::vector<Schedule> schedules = network.static_schedules();
    for (size_t t = 0; t < schedules.size(); ++t) {
      const TuneTask& task = network.tasks()[t];
      if (const std::string why = why_last_resort(task.tmpl); !why.empty()) return why;
      lower_for_target(schedules[t], task.args);
    }
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace heddle::testing
