// A convolution as one product of matrices (im2col; Chellapilla et al. 2006; Chetlur et al. 2014,
// "cuDNN", arXiv:1410.0759): the image's rows and columns are one axis, taps and channels one sum.
//
//   result[n, y, x, k] = sum over c, r, s of image[n, y * sy + r * dy, x * sx + s * dx, c] *
//                                            weight[r, s, c, k]                     (before)
//
//   I[p, t] = image[n, y * sy + r * dy, x * sx + s * dx, c]     p = (n, y, x), t = (r, s, c)
//   W[t, k] = weight[r, s, c, k]                                once where weights are constant
//   P[p, k] = sum over t of I[p, t] * W[t, k]                                       (after)
//   result[n, y, x, k] = P[p, k]
//
// With axes = 3 taps and channels stay axes of their own, I[p, r, s, c] and W[r, s, c, k]: the copy
// of the image needs no division for each element, but a unit for matrices cannot pad the sum.
#include <algorithm>

#include "dag/patterns/convolution.h"
#include "dag/rewrites/rewrite_parts.h"
#include "heddle/dag/alternatives.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

using dag::Convolution;

class Rewriter {
 public:
  Rewriter(const Operation& op, const Convolution& conv, bool one_sum) : op_(op), conv_(conv) {
    for (const int b : conv.batch) rows_.push_back(axis(b).extent());
    rows_.push_back(axis(conv.y).extent());
    rows_.push_back(axis(conv.x).extent());
    terms_ = {conv.r.extent(), conv.s.extent(), conv.channels()};
    sums_ = one_sum ? std::vector<int64_t>{points(terms_)} : terms_;
  }

  Tensor rewrite() const {
    const Tensor image = image_matrix(), weight = weight_matrix();
    const DataType type = op_.output(0).dtype();
    const Tensor product = compute(
        {points(rows_), axis(conv_.k).extent()},
        [&](Axis p, Axis k) {
          std::vector<Axis> over;
          std::vector<Expr> at_image{p}, at_weight;
          for (const int64_t n : sums_) {
            over.push_back(reduce_axis(Expr(n), "t" + std::to_string(over.size()), op_.where()));
            at_image.emplace_back(over.back());
            at_weight.emplace_back(over.back());
          }
          at_weight.emplace_back(k);
          return sum_in(type,
                        dag::factor_of(op_, *conv_.image, image.at(at_image)) *
                            dag::factor_of(op_, *conv_.weight, weight.at(at_weight)),
                        over);
        },
        op_.name() + "_product", "implicit_gemm", op_.where());
    return compute(
        op_.output(0).shape(),
        [&](const std::vector<Axis>& i) {
          std::vector<Expr> at;
          for (const int b : conv_.batch) at.emplace_back(i[static_cast<std::size_t>(b)]);
          at.emplace_back(i[static_cast<std::size_t>(conv_.y)]);
          at.emplace_back(i[static_cast<std::size_t>(conv_.x)]);
          return product(dag::flatten(at, rows_), i[static_cast<std::size_t>(conv_.k)]);
        },
        op_.name(), op_.tag(), op_.where());
  }

 private:
  const Axis& axis(int i) const { return op_.axes()[static_cast<std::size_t>(i)]; }
  static int64_t points(const std::vector<int64_t>& extents) {
    int64_t n = 1;
    for (const int64_t e : extents) n *= e;
    return n;
  }

  /// The indices of taps and channels in terms of the axes of the sum.
  std::vector<Expr> term_at(const Axis* axes) const {
    if (sums_.size() == 1) return dag::unflatten(axes[0], terms_);
    return {axes[0], axes[1], axes[2]};
  }

  Tensor image_matrix() const {
    std::vector<int64_t> extents = sums_;
    extents.insert(extents.begin(), points(rows_));
    return compute(
        extents,
        [&](const std::vector<Axis>& i) {
          const std::vector<Expr> row = dag::unflatten(i[0], rows_), term = term_at(&i[1]);
          std::vector<Expr> at(conv_.image->indices.size());
          for (std::size_t b = 0; b < conv_.batch.size(); ++b)
            at[static_cast<std::size_t>(conv_.image_batch[b])] = row[b];
          at[static_cast<std::size_t>(conv_.image_y)] =
              row[row.size() - 2] * conv_.stride_y + term[0] * conv_.dilation_y + conv_.offset_y;
          at[static_cast<std::size_t>(conv_.image_x)] =
              row.back() * conv_.stride_x + term[1] * conv_.dilation_x + conv_.offset_x;
          at[static_cast<std::size_t>(conv_.image_c)] = term[2];
          return conv_.image->tensor.at(at);
        },
        op_.name() + "_image", "implicit_gemm", op_.where());
  }

  Tensor weight_matrix() const {
    std::vector<int64_t> extents = sums_;
    extents.push_back(axis(conv_.k).extent());
    return compute(
        extents,
        [&](const std::vector<Axis>& i) {
          const std::vector<Expr> term = term_at(i.data());
          std::vector<Expr> at(4);
          at[static_cast<std::size_t>(conv_.weight_r)] = conv_.weight_at_r(term[0]);
          at[static_cast<std::size_t>(conv_.weight_s)] = conv_.weight_at_s(term[1]);
          at[static_cast<std::size_t>(conv_.weight_c)] = term[2];
          at[static_cast<std::size_t>(conv_.weight_k)] = i.back();
          return conv_.weight->tensor.at(at);
        },
        op_.name() + "_weight", "implicit_gemm", op_.where());
  }

  const Operation& op_;
  const Convolution& conv_;
  std::vector<int64_t> rows_, terms_;  ///< extents of the axes that are joined
  std::vector<int64_t> sums_;          ///< extents of the axes of the sum
};

WhyNot why_not(const RewriteSite& site) {
  Convolution conv;
  return dag::match_convolution(site.dag, site.stage, &conv);
}

std::vector<Tensor> apply(const RewriteSite& site) {
  Convolution conv;
  const WhyNot why = dag::match_convolution(site.dag, site.stage, &conv);
  HEDDLE_ICHECK(why.empty(), "implicit_gemm where it is not legal: " + why.text());
  return {Rewriter(site.op(), conv, site.values[0] == 1).rewrite()};
}

// Rows of an AMX tile; the fewest rows for which a tile pays; bytes that one instruction adds up.
constexpr int64_t kTileRows = 16, kFewRows = 7, kGroupBytes = 4;

bool has_tiles(const Target& target, DataType t) {
  return (t == bf16 && target.has("amx-bf16")) || (t == f16 && target.has("amx-fp16")) ||
         ((t == i8 || t == u8) && target.has("amx-int8"));
}

/// Whether tiles divide the rows of the image, the results and the channels with little waste.
bool tiles_divide(const Convolution& conv, int64_t width, int64_t results, DataType t) {
  int64_t rows = std::min(width, kTileRows);
  while (width % rows != 0) --rows;
  return rows >= std::min(width, kFewRows) && results % kTileRows == 0 &&
         conv.channels() % (4 * kGroupBytes / t.bytes()) == 0;
}

RewriteEstimate estimate(const RewriteSite& site, const Target& target) {
  Convolution conv;
  dag::match_convolution(site.dag, site.stage, &conv);
  const auto extent = [&](int i) { return site.op().axes()[static_cast<std::size_t>(i)].extent(); };
  const DataType t = conv.image->tensor.dtype();
  const bool one_sum = site.values[0] == 1;
  if (target.is_cuda()) {
    // The templates for GPUs join the axes themselves and read windows in place. A copy may pay
    // only where channels are not adjacent in memory.
    const bool by_vectors =
        conv.image_c + 1 == conv.image->tensor.rank() && conv.channels() * t.bytes() % 16 == 0;
    if (by_vectors || !one_sum)
      return {.why_not = "the templates for GPUs read these windows in place, without a copy"};
    return {1, "for the tuner to try: windows are copied to where 16 bytes are read at once"};
  }
  if (!one_sum) return {1, "for the tuner to try: the image is one long axis, for a copy of it"};
  // Computing the index of each element of the copy takes divisions. Only a matrix unit gains
  // enough to pay for them.
  if (!has_tiles(target, t) || tiles_divide(conv, extent(conv.x), extent(conv.k), t))
    return {.why_not = "one sum is for units for matrices that tiles of the image do not suit"};
  return {1, "for the tuner to try: tiles do not divide the image, but pad a matrix"};
}

HEDDLE_REGISTER_REWRITE_RULE({.name = "implicit_gemm",
                              .parameters = {{"axes", {1, 3}}},
                              .why_not = why_not,
                              .apply = apply,
                              .error_growth = [](const RewriteSite&) { return 1.0; },
                              .estimate = estimate});

}  // namespace
}  // namespace heddle
