// Convolutions whose image is read by one other convolution: a pointwise one before a depthwise
// one, and a depthwise one before a pointwise one.
#pragma once

#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/schedule/stage_group.h"
#include "schedule/steps/product_part.h"

namespace heddle {

/// The convolutions that may be computed in blocks of the convolution `anchor`, so that their image
/// stays in a cache until it is read:
///
///   P -> bias -> clip -> pad -> depthwise          blocks of channels, or of rows and channels;
///                                                  rows at the borders of blocks are computed
///                                                  twice
///   P -> bias -> clip -> pointwise                 blocks of rows, with all channels
///
/// Before a depthwise P in the second form, a P of the first form may follow. Images have four
/// dimensions, the innermost of which are the channels.
class ImageChain {
 public:
  ImageChain(const ComputeDag& dag, int anchor);

  /// The part that stage `s` belongs to, or null.
  const StageGroup::Part* part_of(int s) const;

 private:
  bool add_before(int reader);

  const ComputeDag& dag_;
  std::vector<char> inside_;  ///< the anchor and the stages computed in its blocks
  std::vector<ProductPart> found_;
};

/// How a convolution reads its image.
struct ImageRead {
  const Access* image = nullptr;
  bool by_channels = false;  ///< a channel of the result reads that channel of the image alone
  bool by_rows = false;      ///< there is no window: a point reads all channels of one point
  int64_t window = 1;        ///< rows of the image that one row of the result reads
  int64_t stride = 1;        ///< rows between those of neighbouring rows of the result
};

/// The computed image that convolution `s` reads; `image` is null where the convolution has neither
/// form, or reads an argument.
ImageRead image_read(const ComputeDag& dag, int s);

}  // namespace heddle
