// Memory blocks aligned for vectors and huge pages. A cache line before each block holds its size.
#pragma once

#include <cstddef>

namespace heddle::internal {

inline constexpr std::size_t kCacheLine = 64;
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// 64-byte aligned, from 2 MiB on 2 MiB aligned and advised to use huge pages. Null if there is no
/// memory. Fresh pages of large blocks are zero; small blocks are not cleared.
void* allocate_aligned(std::size_t bytes);
void free_aligned(void* block);

/// The capacity of the block in bytes, at least the requested size.
std::size_t aligned_capacity(const void* block);

}  // namespace heddle::internal
