#include "runtime/machine/first_touch.h"

#include "heddle/runtime/thread_pool.h"
#include "runtime/machine/aligned_memory.h"
#include "runtime/machine/cpu_topology.h"

namespace heddle::internal {

void touch_by_parts(void* block, std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  if (bytes < kHugePage || cpu_topology().num_nodes() < 2) return;
  auto* const first = static_cast<volatile char*>(block);
  const std::size_t pages = (bytes + kPage - 1) / kPage;
  parallel_for(static_cast<std::int64_t>(pages), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t page = begin; page < end; ++page)
      first[static_cast<std::size_t>(page) * kPage] = 0;
  });
}

}  // namespace heddle::internal
