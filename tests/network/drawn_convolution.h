// Small convolutions of random groups, strides, paddings and dilations.
#pragma once

#include "heddle/ops/ops.h"
#include "heddle/support/rng.h"

namespace heddle::testing {

struct DrawnConvolution {
  Shape image, weights;
  ops::Conv how;
};

inline DrawnConvolution draw_convolution(Rng& rng) {
  const auto pick = [&](int64_t lo, int64_t hi) { return rng.uniform_int(lo, hi); };
  DrawnConvolution made;
  const int64_t groups = rng.choose<int64_t>({1, 1, 2, 4}), k = groups * pick(1, 3),
                c = groups * pick(1, 3), r = rng.choose<int64_t>({1, 2, 3});
  made.how = {
      .stride = {pick(1, 2)}, .padding = {pick(0, 2)}, .dilation = {pick(1, 2)}, .groups = groups};
  made.image = {1, c, pick(5, 7), pick(5, 7)};
  made.weights = {k, c / groups, r, r};
  return made;
}

}  // namespace heddle::testing
