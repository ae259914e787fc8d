// Kernels that were compiled ahead of time (export_kernel, driver/export.h). This needs no
// compiler: it links with the runtime library alone.
#pragma once

#include <string>

#include "heddle/runtime/kernel.h"

namespace heddle {

/// Loads the kernel of `<stem>.json` from the shared library `<stem>.so`, with its constants. The
/// features that it was compiled for are compared with this CPU before its code is mapped. A
/// Runtime error names missing features, instead of an illegal instruction later. The library calls
/// the runtime (heddle_parallel_for), so a program that links the runtime statically must export
/// its symbols (-rdynamic).
Kernel load_kernel(const std::string& stem);

}  // namespace heddle
