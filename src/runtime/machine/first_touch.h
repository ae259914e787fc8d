// On a machine of several NUMA nodes a page lies on the node of the thread that touches it first.
#pragma once

#include <cstddef>

namespace heddle::internal {

/// Touches each page of fresh memory, whose contents are undefined or zero, by the threads that run
/// parallel regions: the first part by the first thread, and so on, as they share out the rows of
/// an array. It leaves small blocks and machines of one node alone, and calls from within a region.
void touch_by_parts(void* block, std::size_t bytes);

}  // namespace heddle::internal
