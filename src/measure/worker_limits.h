// What a worker process does to itself before it serves: files, signals, limits.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace heddle::measuring {

/// Called in a child: it is killed when its parent ends, however that ends.
void die_with_parent(pid_t parent);

/// Closes what was inherited, from `first` on: other workers' channels among them (a worker sees
/// that the tuner is gone by the end of its channel, which must not be held open by its brothers),
/// and a log that the tuner has locked.
void close_from(int first);

/// Ctrl-C is the tuner's business.
void ignore_interrupts();

/// No core files, little to print, and so many bytes of memory above what there is now (0: no
/// limit). An allocation that fails ends the process with kExitOutOfMemory.
void limit_resources(int64_t memory_bytes);
/// So many bytes more (or fewer) may be allocated.
void allow_more_memory(int64_t bytes);

/// What one compilation frees the next one takes.
void keep_freed_memory();

}  // namespace heddle::measuring
