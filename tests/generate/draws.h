// The ways to draw that tests of generations share.
#pragma once

#include <vector>

#include "heddle/generate/sampling.h"

namespace heddle::testing {

inline const std::vector<Sampling>& draws() {
  static const std::vector<Sampling> all = {
      {},
      {.temperature = 1.5, .seed = 3},
      {.temperature = 2, .top_k = 3, .seed = 4},
      {.temperature = 2, .top_p = 0.8, .seed = 5},
  };
  return all;
}

}  // namespace heddle::testing
