// The tree of the families whose dispatch is timed.
#pragma once

#include "heddle/runtime/family_kernel.h"

namespace heddle::bench {

/// Over 1 to 4096: sizes up to 64 lead to kernel 0 by three questions, all others to kernel 1.
inline SizeTree three_questions() {
  return {{0, 1024, 1, 2, 0}, {0, 256, 3, 4, 0}, {-1, 0, 0, 0, 1}, {0, 64, 5, 6, 0},
          {-1, 0, 0, 0, 1},   {-1, 0, 0, 0, 0},  {-1, 0, 0, 0, 1}};
}

}  // namespace heddle::bench
