// Operations on lists of loops.
#pragma once

#include <vector>

#include "heddle/schedule/schedule.h"

namespace heddle::meta {

/// The loops of `a`, then those of `b`.
inline std::vector<Loop> joined(std::vector<Loop> a, const std::vector<Loop>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace heddle::meta
