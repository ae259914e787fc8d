// Kernels that were compiled ahead of time (export_kernel, driver/export.h). This needs no
// compiler: it links with the runtime library alone.
#pragma once

#include <string>

#include "heddle/runtime/kernel.h"
#include "heddle/runtime/multi_kernel.h"

namespace heddle {

/// Loads the kernel of `STEM.json` from the shared library `STEM.so`, with its constants. The
/// features that it was compiled for are compared with this CPU before its code is mapped. A
/// Runtime error names missing features, instead of an illegal instruction later. The library calls
/// the runtime (heddle_parallel_for), so a program that links the runtime statically must export
/// its symbols (-rdynamic). A kernel for a GPU comes from `STEM.cubin` instead, which the first
/// call loads onto the GPU.
Kernel load_kernel(const std::string& stem);

/// The default options of load_multi_kernel: the pick of the export is used.
PickOptions exported_pick_options();

/// All variants that export_multi wrote. By default the pick of the export is used and nothing is
/// timed. HEDDLE_PICK and PickOptions::force name another variant; `measure`, set, times the
/// variants on this machine at the first call. What export_kernel wrote is one variant, of the
/// name "kernel".
MultiKernel load_multi_kernel(const std::string& stem,
                              PickOptions options = exported_pick_options());

}  // namespace heddle
