#include "runtime/machine/aligned_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

namespace heddle::internal {
namespace {

struct alignas(kCacheLine) Header {
  void* base = nullptr;
  std::size_t mapped = 0;  // bytes mapped; 0 for memory of malloc
  std::size_t capacity = 0;
};
static_assert(sizeof(Header) == kCacheLine);

Header* header_of(const void* block) {
  return reinterpret_cast<Header*>(reinterpret_cast<std::uintptr_t>(block) - sizeof(Header));
}

void* place(void* base, std::size_t alignment, std::size_t mapped, std::size_t capacity) {
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(base) + sizeof(Header);
  void* block = reinterpret_cast<void*>((first + alignment - 1) / alignment * alignment);
  *header_of(block) = {base, mapped, capacity};
  return block;
}

}  // namespace

void* allocate_aligned(std::size_t bytes) {
  if (bytes > PTRDIFF_MAX / 2) return nullptr;
  if (bytes >= kHugePage) {
    // The mapping is one huge page larger than requested, for the alignment. Only the part of that
    // page with the header is touched.
    const std::size_t capacity = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    const std::size_t mapped = capacity + kHugePage;
    void* base =
        ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return nullptr;
    // Addresses of mmap are page-aligned, so the header always fits before the next 2 MiB boundary.
    void* block = place(base, kHugePage, mapped, capacity);
#ifdef MADV_HUGEPAGE
    // These hints may fail. The last, partial huge page is left out: it would take memory that
    // nothing uses, on average half a page for each array.
    const std::size_t full = bytes / kHugePage * kHugePage;
    ::madvise(block, full, MADV_HUGEPAGE);
    if (full < capacity)
      ::madvise(static_cast<char*>(block) + full, capacity - full, MADV_NOHUGEPAGE);
#endif
    return block;
  }
  const std::size_t capacity = (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  void* base = std::aligned_alloc(kCacheLine, capacity + sizeof(Header));
  if (base == nullptr) return nullptr;
  return place(base, kCacheLine, 0, capacity);
}

void free_aligned(void* block) {
  if (block == nullptr) return;
  const Header header = *header_of(block);
  if (header.mapped != 0) {
    ::munmap(header.base, header.mapped);
  } else {
    std::free(header.base);
  }
}

std::size_t aligned_capacity(const void* block) { return header_of(block)->capacity; }

}  // namespace heddle::internal
