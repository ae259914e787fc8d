// Kernels that were compiled ahead of time (export_kernel, driver/export.h). Needs no compiler:
// links with the runtime library alone.
#pragma once

#include <string>

#include "heddle/runtime/kernel.h"

namespace heddle {

/// The kernel of `<stem>.json`, from the shared library `<stem>.so`, with its constants. Before any
/// of its code is mapped, what it was compiled for is compared with this CPU: a Runtime error names
/// the features that are missing, in place of an illegal instruction later. The library calls back
/// into the runtime (heddle_parallel_for), so a program that holds that statically must export it
/// (-rdynamic).
Kernel load_kernel(const std::string& stem);

}  // namespace heddle
