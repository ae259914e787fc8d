// Results whose length the data decides. A declaration has fixed extents, so each is as long as it can
// become, and a count tells how many of its rows are results; the others have a value that is stated.
//
//   ops::Bounded found = ops::nonzero(mask);             // found.values (rank, n), found.count ()
//   ops::Bounded kept = ops::non_max_suppression(boxes, scores, {.most = 100, .overlap = 0.5});
//
// Each row bisects the running counts for its place.
#pragma once

#include <cstdint>

#include "heddle/dsl/tensor.h"

namespace heddle::ops {

/// Rows, and how many of them are results: an i64 of rank 0.
struct Bounded {
  Tensor values, count;
};

/// The positions of elements that are not 0, in row-major order: i64 (rank, elements). The other columns
/// are -1.
Bounded nonzero(const Tensor& x, Where where = Where::current());

/// The slices of x along `axis` where `condition` (n), bools, holds; n is at most the extent of x there. The
/// other slices are 0.
Bounded compress(const Tensor& x, const Tensor& condition, int axis = 0,
                 Where where = Where::current());

/// Different elements, and where they are.
struct Unique {
  Tensor values;   ///< (n), then 0
  Tensor first;    ///< where each occurs first: i64 (n), then -1
  Tensor inverse;  ///< which of `values` each element is: i64 (n), all of them results
  Tensor counts;   ///< how often each occurs: i64 (n), then 0
  Tensor count;    ///< the number of different elements: i64 of rank 0
};
/// The different elements of x (n), in ascending order or in that of their first occurrences. NaN is one
/// element, larger than all numbers.
Unique unique(const Tensor& x, bool sorted = true, Where where = Where::current());

/// Attributes of non_max_suppression().
struct Suppression {
  int64_t most = 0;    ///< boxes of each class, at least 1; each takes a step of its own
  double overlap = 0;  ///< boxes with a larger intersection over union are left out
  bool centred =
      false;  ///< boxes are x, y of the centre, width, height; else two opposite corners y, x
};
/// The best boxes of each class that overlap little, as ONNX has them: boxes (N, n, 4), scores (N, classes,
/// n) -> rows (image, class, box) of i64, by image, class and descending score; those after the count are -1.
/// Scores must be larger than `least`, a number of rank 0 or 1, where it is given.
Bounded non_max_suppression(const Tensor& boxes, const Tensor& scores,
                            const Suppression& attributes, const Tensor& least = {},
                            Where where = Where::current());

}  // namespace heddle::ops
