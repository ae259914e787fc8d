// The memory of NDArrays on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heddle/runtime/device.h"

namespace heddle::cuda {

/// Allocates from the pool, in the order of the current stream. Never null.
void* allocate_array(std::size_t bytes, int device);
/// For destructors: never throws.
void free_array(void* block, int device) noexcept;
/// Puts a copy into the current stream of the target's device, or of the source's where the target is
/// the CPU. At least one side is on a GPU. The memory of the CPU must be there until the copy is done,
/// and is what the GPU reads and writes where it is pinned (pinned_memory.h).
void start_copy(void* to, Device to_device, const void* from, Device from_device,
                std::size_t bytes);
/// The same, and waits unless both sides are on one GPU.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device,
                std::size_t bytes);
/// Fills elements of 1, 2, 4 or 8 bytes with these bits, in the order of the current stream.
void fill_elements(void* data, int device, std::uint64_t bits, int element_bytes,
                   std::size_t count);

}  // namespace heddle::cuda
