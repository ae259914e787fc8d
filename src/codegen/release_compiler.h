// The memory that compiling took.
#pragma once

namespace heddle::codegen {

/// Gives back what the compiler freed, and its code, which would be some fifty MiB of the resident
/// set of a process that only calls kernels from now on. Later compilations read it again from the
/// page cache, in about a millisecond.
void release_compiler();

}  // namespace heddle::codegen
