// The same program with other buffers in the place of some.
#pragma once

#include "heddle/ir/stmt.h"

namespace heddle::gpu {

/// `s` with the buffer `of(b)` wherever it reads, stores, prefetches or computes tiles of `b`. Allocations stay.
Stmt renamed_buffers(const Stmt& s, FunctionRef<Buffer(const Buffer&)> of);

}  // namespace heddle::gpu
