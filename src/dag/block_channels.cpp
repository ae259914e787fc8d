// Blocks the channels of a convolution by the length of a vector, where the image has channels
// first (Zhang et al. 2018, "High Performance Zero-Memory Overhead Direct Convolutions"; oneDNN's
// nChw16c).
//
//   result[n, k, y, x] = sum over c, r, s of image[n, c, y + r, x + s] * weight[k, c, r, s]
//                                                                                   (before)
//   I[n, C, y, x, c]       = image[n, C * b + c, y, x]
//   W[K, C, r, s, c, k]    = weight[K * b + k, C * b + c, r, s]   once where weights are constant
//   B[n, K, y, x, k]       = sum over C, r, s, c of I[n, C, y + r, x + s, c] * W[K, C, r, s, c, k]
//   result[n, k, y, x]     = B[n, k / b, y, x, k % b]                               (after)
//
// The channels of a result become the vector axis, and the channels of the image are adjacent in
// memory.
#include <algorithm>

#include "dag/convolution.h"
#include "dag/rewrite_parts.h"
#include "heddle/dag/alternatives.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

using dag::Convolution;

std::string match(const RewriteSite& site, Convolution* conv) {
  if (std::string why = dag::match_convolution(site.dag, site.stage, conv); !why.empty())
    return why;
  if (conv->image_c + 1 == conv->image->tensor.rank())
    return "not in planes: its channels lie last already";
  const int64_t by = site.values[0],
                k = site.op().axes()[static_cast<std::size_t>(conv->k)].extent();
  if (by < 2) return "no block has " + std::to_string(by) + " channels";
  if (k % by != 0)
    return std::to_string(k) + " results are no whole blocks of " + std::to_string(by);
  return "";
}

int64_t largest_divisor(int64_t n, int64_t most) {
  int64_t d = std::min(n, most);
  while (n % d != 0) --d;
  return d;
}

class Rewriter {
 public:
  Rewriter(const Operation& op, const Convolution& conv, int64_t by)
      : op_(op),
        conv_(conv),
        k_block_(by),
        c_block_(largest_divisor(conv.channels(), by)),
        batch_(conv.batch.size()) {}

  Tensor rewrite() const {
    const Tensor image = blocked_image(), weight = blocked_weight();
    const DataType type = op_.output(0).dtype();
    Shape shape;
    for (const int b : conv_.batch) shape.push_back(extent(b));
    for (const int64_t e : {extent(conv_.k) / k_block_, extent(conv_.y), extent(conv_.x), k_block_})
      shape.emplace_back(e);
    const Tensor blocks = compute(
        shape,
        [&](const std::vector<Axis>& i) {
          const Axis &block = i[batch_], &y = i[batch_ + 1], &x = i[batch_ + 2], &k = i[batch_ + 3];
          const Axis outer = reduce_axis(conv_.channels() / c_block_, "co", op_.where()),
                     r = reduce_axis(conv_.r.extent(), "r", op_.where()),
                     s = reduce_axis(conv_.s.extent(), "s", op_.where()),
                     c = reduce_axis(c_block_, "ci", op_.where());
          std::vector<Expr> at(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(batch_));
          at.insert(at.end(), {outer, y * conv_.stride_y + r * conv_.dilation_y + conv_.offset_y,
                               x * conv_.stride_x + s * conv_.dilation_x + conv_.offset_x, c});
          return sum_in(type,
                        cast(type, image.at(at)) * cast(type, weight(block, outer, r, s, c, k)),
                        {outer, r, s, c});
        },
        op_.name() + "_blocks", "block_channels", op_.where());
    return compute(
        op_.output(0).shape(),
        [&](const std::vector<Axis>& i) {
          const auto of = [&](int a) { return Expr(i[static_cast<std::size_t>(a)]); };
          std::vector<Expr> at;
          for (const int b : conv_.batch) at.push_back(of(b));
          at.insert(at.end(), {floordiv(of(conv_.k), k_block_), of(conv_.y), of(conv_.x),
                               floormod(of(conv_.k), k_block_)});
          return blocks.at(at);
        },
        op_.name(), op_.tag(), op_.where());
  }

 private:
  int64_t extent(int a) const { return op_.axes()[static_cast<std::size_t>(a)].extent(); }

  Tensor blocked_image() const {
    const Tensor& from = conv_.image->tensor;
    Shape shape;
    for (const int b : conv_.batch) shape.push_back(extent(b));
    for (const int64_t e : {conv_.channels() / c_block_, from.extent(conv_.image_y),
                            from.extent(conv_.image_x), c_block_})
      shape.emplace_back(e);
    return compute(
        shape,
        [&](const std::vector<Axis>& i) {
          std::vector<Expr> at(conv_.image->indices.size());
          for (std::size_t b = 0; b < batch_; ++b)
            at[static_cast<std::size_t>(conv_.image_batch[b])] = i[b];
          at[static_cast<std::size_t>(conv_.image_c)] = i[batch_] * c_block_ + i[batch_ + 3];
          at[static_cast<std::size_t>(conv_.image_y)] = i[batch_ + 1];
          at[static_cast<std::size_t>(conv_.image_x)] = i[batch_ + 2];
          return from.at(at);
        },
        op_.name() + "_image", "block_channels", op_.where());
  }

  Tensor blocked_weight() const {
    return compute(
        {extent(conv_.k) / k_block_, conv_.channels() / c_block_, conv_.r.extent(),
         conv_.s.extent(), c_block_, k_block_},
        [&](const std::vector<Axis>& i) {
          std::vector<Expr> at(4);
          at[static_cast<std::size_t>(conv_.weight_k)] = i[0] * k_block_ + i[5];
          at[static_cast<std::size_t>(conv_.weight_c)] = i[1] * c_block_ + i[4];
          at[static_cast<std::size_t>(conv_.weight_r)] = i[2];
          at[static_cast<std::size_t>(conv_.weight_s)] = i[3];
          return conv_.weight->tensor.at(at);
        },
        op_.name() + "_weight", "block_channels", op_.where());
  }

  const Operation& op_;
  const Convolution& conv_;
  int64_t k_block_, c_block_;
  std::size_t batch_;  ///< number of batch axes
};

std::string why_not(const RewriteSite& site) {
  Convolution conv;
  return match(site, &conv);
}

std::vector<Tensor> apply(const RewriteSite& site) {
  Convolution conv;
  const std::string why = match(site, &conv);
  HEDDLE_ICHECK(why.empty(), "block_channels where it is not legal: " + why);
  return {Rewriter(site.op(), conv, site.values[0]).rewrite()};
}

std::vector<std::vector<int64_t>> suited(const RewriteSite& site, const Target& target) {
  if (target.is_cuda()) return {{8}};
  return {{std::max(2, target.vector_lanes(site.op().output(0).dtype().bytes()))}};
}

RewriteEstimate estimate(const RewriteSite&, const Target& target) {
  if (target.is_cuda()) return {.why_not = "it is for vectors of CPUs"};
  return {1, "for the tuner to try: channels in vectors, for a copy of the image"};
}

HEDDLE_REGISTER_REWRITE_RULE({.name = "block_channels",
                              .parameters = {{"by"}},
                              .why_not = why_not,
                              .apply = apply,
                              .error_growth = [](const RewriteSite&) { return 1.0; },
                              .estimate = estimate,
                              .suited = suited});

}  // namespace
}  // namespace heddle
