// Scratch memory of generated code. Freed blocks stay with the thread that freed them, so that the
// next call of a kernel finds its workspace mapped and warm.
#pragma once

#include <cstdint>

extern "C" {

/// Allocates memory that is at least 64-byte aligned; from 2 MiB on it is 2 MiB aligned and backed
/// by huge pages where there are any. Contents are undefined. Returns null if there is no memory.
void* heddle_workspace_alloc(std::int64_t bytes);

/// Frees a block, which may be null. Any thread may free any block.
void heddle_workspace_free(void* block);
}

namespace heddle {

/// Gives the calling thread's cached blocks back to the system.
void release_workspaces();

}  // namespace heddle
