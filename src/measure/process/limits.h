// The set-up of a worker process before it serves: files, signals, limits.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace heddle::measuring {

/// Called in a child. The system then kills it when its parent ends for any reason.
void die_with_parent(pid_t parent);

/// Closes inherited descriptors from `first` on. Among them are the channels of other workers: a
/// worker notices the end of the tuner by the end of its channel, which other workers must not hold
/// open. A log that the tuner has locked is among them too.
void close_from(int first);

/// Ignores Ctrl-C, which the tuner handles.
void ignore_interrupts();

/// Turns core files off, limits output, and limits memory to `memory_bytes` above the current use
/// (0: no limit). A failed allocation ends the process with kExitOutOfMemory.
void limit_resources(int64_t memory_bytes);
/// Raises (or lowers) the limit of memory by `bytes`.
void allow_more_memory(int64_t bytes);

/// Keeps freed memory in the process, for the next compilation.
void keep_freed_memory();

}  // namespace heddle::measuring
