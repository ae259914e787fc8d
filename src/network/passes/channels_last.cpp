// Stores the images between convolutions with their channels innermost.
//
//   y[n, k, h, w] = sum over c, r, s of x[n, c, h + r, w + s] * weight[k, c, r, s]   (before)
//   z[n, k, h, w] = max(y[n, k, h, w], 0)
//
//   y[n, h, w, k] = sum over c, r, s of x[n, h + r, w + s, c] * weight[k, c, r, s]   (after)
//   z[n, h, w, k] = max(y[n, h, w, k], 0)
//
// Vectors of channels then lie one after another for any size of the image, and rows of the image
// need no copy. Weights of a depthwise convolution are read by vectors of channels too, so they get
// the same layout, once; on CPUs those of groups do, too. CPUs pack other weights in any case; for
// GPUs they become weight[k, r, s, c], so that tiles of them are rows of memory, as those of the
// image are.
// Concatenating channels copies them in this layout, and is done in place in the other. So the pass
// leaves a network as it is whose images are concatenated by many stages. Kernels for GPUs load
// such images by vectors, too.
#include <algorithm>

#include "network/passes/image_layouts.h"

namespace heddle::network {

bool concatenates_often(const Images& images) {
  constexpr int kMostCopies = 2;
  const ComputeDag& dag = images.dag();
  std::vector<int> copies(static_cast<size_t>(dag.size()));
  for (int s = 0; s < dag.size(); ++s) {
    if (!images.chosen(s) || dag.stage(s).is_reduction()) continue;
    std::vector<int> parts;
    for (const int p : dag.info(s).producers) {
      if (images.chosen(p) &&
          !equal(dag.stage(p).axes()[1]->extent, dag.stage(s).axes()[1]->extent))
        parts.push_back(p);
    }
    if (parts.size() < 2) continue;
    for (const int p : parts) ++copies[static_cast<size_t>(p)];
  }
  return std::any_of(copies.begin(), copies.end(), [](int n) { return n > kMostCopies; });
}

}  // namespace heddle::network
