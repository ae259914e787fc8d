// The kernels of tasks that share launches, by the sizes of a call.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "heddle/runtime/family_kernel.h"

namespace heddle::network {

/// Several tasks as one: a tree whose leaves name combinations of their variants.
struct JoinedSizes {
  SizeTree tree;
  std::vector<std::vector<int>> combinations;  ///< the variant of each task
};

/// `trees` are those of the tasks, over the same sizes. Nothing where there would
/// be more than `most` combinations.
///
///   a: n <= 2 ? 0 : 1                       n <= 2 ? {0, 0} : n <= 64 ? {1, 0} : {1, 1}
///   b: n <= 64 ? 0 : 1
std::optional<JoinedSizes> join_sizes(std::span<const SizeTree> trees, size_t most);

}  // namespace heddle::network
