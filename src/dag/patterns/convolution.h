// Recognises a stage as a two-dimensional convolution by its reads.
#pragma once

#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/dag/why_not.h"

namespace heddle::dag {

/// sum over c, r, s of image[batch..., c, y + r, x + s] * weight[k, c, r, s]. Dimensions may be in
/// any order, constants may be added to the indices of the window, which may run backwards, and operands
/// may be converted or rounded to tf32 first.
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
  /// Whether the weight of the tap at y + r is that of the last r less r, as where the stage reads the
  /// image at y - r: the gradient of an image does.
  bool flips_r = false, flips_s = false;
  /// The index of the weights for the tap at (y + r, x + s).
  Expr weight_at_r(const Expr& tap) const { return flips_r ? Expr(r.extent() - 1) - tap : tap; }
  Expr weight_at_s(const Expr& tap) const { return flips_s ? Expr(s.extent() - 1) - tap : tap; }
  // Where channels lie in blocks ([n, c / b, y, x, c % b]): the axes and dimensions in a block. The
  // axes and dimensions above are then those of the blocks.
  Axis c_in_block;
  int k_in_block = -1, image_c_in_block = -1, weight_c_in_block = -1, weight_k_in_block = -1;
  /// The numbers of channels in a block of the image, and of the results: 1 without blocks.
  int64_t c_block() const { return image_c_in_block < 0 ? 1 : c_in_block.extent(); }
  int64_t channels() const { return c.extent() * c_block(); }
};

/// Empty where stage `s` is a convolution, else the reason why it is not, which is that of another
/// kind where the stage does not resemble one.
WhyNot match_convolution(const ComputeDag& dag, int s, Convolution* out);

/// The same where also the channels of the image, those of the results, or both may lie in blocks.
WhyNot match_blocked_convolution(const ComputeDag& dag, int s, Convolution* out);

/// What the factor of the summed product of `op` that reads `operand` is with `read` in its place.
Expr factor_of(const Operation& op, const Access& operand, const Expr& read);

/// Recognises a sum of products of two reads, which may be converted or rounded to tf32, and returns
/// them in order of appearance. The result is empty, or the reason why not.
WhyNot match_contraction(const ComputeDag& dag, int s, const Access* operands[2]);

}  // namespace heddle::dag
