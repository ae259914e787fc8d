// The tree of the families whose dispatch is timed.
#pragma once

#include "heddle/runtime/family_kernel.h"

namespace heddle::bench {

/// Over 1 to 4096: sizes up to 64 lead to kernel 0 by three questions, all others to kernel 1.
inline SizeTree three_questions() {
  const TreeNode small{.yes = 0}, large{.yes = 1};
  return {{0, 1, 2, 1024, 0}, {0, 3, 4, 256, 0}, large, {0, 5, 6, 64, 0}, large, small, large};
}

}  // namespace heddle::bench
