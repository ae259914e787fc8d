// Recognises a stage as a two-dimensional convolution by its reads.
#pragma once

#include <string>
#include <vector>

#include "heddle/dag/compute_dag.h"

namespace heddle::dag {

/// sum over c, r, s of image[batch..., c, y + r, x + s] * weight[k, c, r, s]. Dimensions may be in
/// any order, constants may be added to the indices of the window, and operands may be converted
/// first.
struct Convolution {
  const Access* image = nullptr;
  const Access* weight = nullptr;
  std::vector<int> batch;                        ///< positions among the stage's axes
  int k = -1, y = -1, x = -1;                    ///< positions among the stage's axes
  Axis c, r, s;                                  ///< reduce axes
  int image_c = -1, image_y = -1, image_x = -1;  ///< dimensions of the image
  std::vector<int> image_batch;                  ///< the same, in the order of `batch`
  int weight_k = -1, weight_c = -1, weight_r = -1, weight_s = -1;
  int64_t stride_y = 1, stride_x = 1, dilation_y = 1, dilation_x = 1;
  int64_t offset_y = 0, offset_x = 0;
  int64_t channels() const { return c.extent(); }
};

/// Empty where stage `s` is a convolution, else the reason why it is not. The reason starts with
/// "not " where the stage does not resemble one.
std::string match_convolution(const ComputeDag& dag, int s, Convolution* out);

/// Recognises a sum of products of two reads, which may be converted, and returns them in order of
/// appearance. The result is empty, or the reason why not.
std::string match_contraction(const ComputeDag& dag, int s, const Access* operands[2]);

}  // namespace heddle::dag
