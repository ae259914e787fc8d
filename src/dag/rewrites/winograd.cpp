// Winograd's minimal filtering for 3x3 convolutions of stride 1 (Lavin & Gray 2015, "Fast
// algorithms for convolutional neural networks", arXiv:1509.09308).
//
// F(m x m, 3x3) makes a tile of m x m results from (m + 2) x (m + 2) elements of the image with
// (m + 2)^2 multiplications a channel, where the direct form takes 9 m^2: 16 for 36 (m = 2), 36 for
// 144 (m = 4). The multiplications of all tiles and channels are (m + 2)^2 products of matrices:
//
//   U[i, j, c, k] = (G g G^T)[i, j]              of the weights; once where they are constant
//   V[i, j, p, c] = (B^T d B)[i, j]              d: the elements of tile p, which overlap
//   M[i, j, p, k] = sum over c of V * U
//   result[y, x]  = (A^T M A)[y % m, x % m]      of the tile that y and x are in
//
// Each transform is two stages, along rows and then along columns. Where m does not divide the
// image, the last tiles read zeros beyond it, and their results there are dropped. Where channels
// lie in blocks, c and k count those of all blocks.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "dag/patterns/convolution.h"
#include "dag/rewrites/rewrite_parts.h"
#include "heddle/dag/alternatives.h"
#include "heddle/dag/factors.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

using dag::Convolution;
using Terms = std::vector<Expr>;

// ---- the transforms of one dimension ------------------------------------------------------------
// The formulas are written out, so that shared sums are computed once.

// m = 4 takes the points 0, a, -a, b, -b and infinity. Lavin and Gray's a = 1, b = 2 save some
// multiplications, which cost nothing here, and make errors four times as large. These points are
// the best short binary fractions by the measure of growth_of_dimension (on the choice of points:
// Barabasz et al. 2018, "Error analysis and improving the accuracy of Winograd convolution",
// arXiv:1803.10986).
constexpr double kA = 0.625, kB = 1.5, kA2 = kA * kA, kB2 = kB * kB;

Terms image_transform(int64_t m, const Terms& d) {
  if (m == 2) return {d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]};
  const Expr even_a = d[4] - d[2] * kB2, odd_a = (d[3] - d[1] * kB2) * kA;
  const Expr even_b = d[4] - d[2] * kA2, odd_b = (d[3] - d[1] * kA2) * kB;
  return {d[0] * (kA2 * kB2) - d[2] * (kA2 + kB2) + d[4],
          even_a + odd_a,
          even_a - odd_a,
          even_b + odd_b,
          even_b - odd_b,
          d[1] * (kA2 * kB2) - d[3] * (kA2 + kB2) + d[5]};
}

Terms weight_transform(int64_t m, const Terms& g) {
  if (m == 2) {
    const Expr ends = g[0] + g[2];
    return {g[0], (ends + g[1]) * 0.5, (ends - g[1]) * 0.5, g[2]};
  }
  constexpr double na = 2 * kA2 * (kA2 - kB2), nb = 2 * kB2 * (kB2 - kA2);
  const Expr ends_a = g[0] * (1 / na) + g[2] * (kA2 / na), middle_a = g[1] * (kA / na);
  const Expr ends_b = g[0] * (1 / nb) + g[2] * (kB2 / nb), middle_b = g[1] * (kB / nb);
  return {g[0] * (1 / (kA2 * kB2)), ends_a + middle_a, ends_a - middle_a,
          ends_b + middle_b,        ends_b - middle_b, g[2]};
}

Terms result_transform(int64_t m, const Terms& p) {
  const Expr sum_a = p[1] + p[2], difference_a = p[1] - p[2];
  if (m == 2) return {p[0] + sum_a, difference_a - p[3]};
  const Expr sum_b = p[3] + p[4], difference_b = p[3] - p[4];
  return {p[0] + sum_a + sum_b, difference_a * kA + difference_b * kB, sum_a * kA2 + sum_b * kB2,
          difference_a * (kA2 * kA) + difference_b * (kB2 * kB) + p[5]};
}

/// The term that `index` names.
Expr choose(const Expr& index, const Terms& terms) {
  Expr out = terms.back();
  for (std::size_t i = terms.size() - 1; i-- > 0;)
    out = select(index == Expr(static_cast<int64_t>(i)), terms[i], out);
  return out;
}

/// read(0), read(1), ... read(n - 1)
template <class F>
Terms terms(int64_t n, F read) {
  Terms out;
  for (int64_t i = 0; i < n; ++i) out.push_back(read(i));
  return out;
}

/// How the errors of the worst result grow in one dimension, relative to the direct form: the root
/// of a sum of squares over all paths from the operands to the result, sum_j (A^T_ij)^2 |G_j|^2
/// |B^T_j|^2, divided by the 3 of the direct form. For two dimensions the squares are 1.7 (m = 2)
/// and 8.2 (m = 4; 31 with a = 1, b = 2). An upper bound, with sums of absolute values in place of
/// squares, would be 7.1 and 63 (256).
double growth_of_dimension(int64_t m) {
  if (m == 2) return std::sqrt((2 + 2 * 0.75 * 2) / 3);  // first row: 1 * 2, then 3/4 * 2 twice
  constexpr double na = 2 * kA2 * (kA2 - kB2), nb = 2 * kB2 * (kB2 - kA2);
  const auto ways = [](double x, double other2, double n) {  // paths through the points x and -x
    const double g = (1 + x * x + x * x * x * x) / (n * n);
    const double b = (x * x + 1) * (other2 * other2 + 1);
    return 2 * g * b;
  };
  const double ends = kA2 * kB2 * kA2 * kB2 + (kA2 + kB2) * (kA2 + kB2) + 1;
  const double first = ends / (kA2 * kB2 * kA2 * kB2) + ways(kA, kB2, na) + ways(kB, kA2, nb);
  const double last =
      ends + kA2 * kA2 * kA2 * ways(kA, kB2, na) + kB2 * kB2 * kB2 * ways(kB, kA2, nb);
  return std::sqrt(std::max(first, last) / 3);
}

// ---- the rewrite --------------------------------------------------------------------------------

class Rewriter {
 public:
  Rewriter(const Operation& op, const Convolution& conv, int64_t m)
      : op_(op),
        conv_(conv),
        m_(m),
        a_(m + 2),
        height_(axis(conv.y).extent()),
        width_(axis(conv.x).extent()),
        rows_((height_ + m - 1) / m),
        cols_((width_ + m - 1) / m),
        where_(op.where()) {
    for (int b : conv_.batch) images_ *= axis(b).extent();
    tiles_ = images_ * rows_ * cols_;
    channels_ = conv_.channels();
    if (conv_.k_in_block >= 0) k_block_ = axis(conv_.k_in_block).extent();
    results_ = axis(conv_.k).extent() * k_block_;
    type_ = op.output(0).dtype();
  }

  Tensor rewrite() {
    const Tensor v = image_tiles(), u = weights();
    const Axis c = reduce_axis(channels_, "rc", where_);
    const Tensor products = compute(
        {a_, a_, tiles_, results_},
        [&](Axis i, Axis j, Axis p, Axis k) {
          return sum_in(v.dtype(), v(i, j, p, c) * u(i, j, c, k), {c});
        },
        name("products"), "winograd", where_);
    return results(products);
  }

 private:
  const Axis& axis(int i) const { return op_.axes()[static_cast<std::size_t>(i)]; }
  std::string name(const std::string& what) const { return op_.name() + "_" + what; }

  /// The element of the image at (i, j) of tile p.
  Expr tile_element(const Tensor& image, bool padded, const Expr& p, int64_t i, const Axis& j,
                    const Axis& c) const {
    const Expr row = floordiv(p, cols_);
    const Expr y = floormod(row, rows_) * m_ + i, x = floormod(p, cols_) * m_ + j;
    Expr rest = floordiv(row, rows_);
    std::vector<Expr> batch(conv_.batch.size());
    for (std::size_t b = batch.size(); b-- > 0;) {
      const int64_t n = axis(conv_.batch[b]).extent();
      batch[b] = b == 0 ? rest : floormod(rest, n);
      if (b > 0) rest = floordiv(rest, n);
    }
    if (padded) {
      batch.insert(batch.end(), {y, x, c});
      return image.at(batch);
    }
    return read_image(batch, y, x, c);
  }

  Expr read_image(const std::vector<Expr>& batch, const Expr& y, const Expr& x,
                  const Expr& c) const {
    std::vector<Expr> at(conv_.image->indices.size());
    for (std::size_t b = 0; b < batch.size(); ++b)
      at[static_cast<std::size_t>(conv_.image_batch[b])] = batch[b];
    at[static_cast<std::size_t>(conv_.image_y)] = y + conv_.offset_y;
    at[static_cast<std::size_t>(conv_.image_x)] = x + conv_.offset_x;
    set_channel(at, conv_.image_c, conv_.image_c_in_block, conv_.c_block(), c);
    return conv_.image->tensor.at(at);
  }

  /// Sets the indices of a channel, which may be those of a block and of a place in it.
  static void set_channel(std::vector<Expr>& at, int dim, int dim_in_block, int64_t block,
                          const Expr& channel) {
    const bool blocks = dim_in_block >= 0;
    at[static_cast<std::size_t>(dim)] = blocks ? floordiv(channel, block) : channel;
    if (blocks) at[static_cast<std::size_t>(dim_in_block)] = floormod(channel, block);
  }

  /// The image with channels last, padded to the size of the tiles. Returns the image itself where
  /// that changes nothing.
  Tensor padded_image(bool* made) const {
    const Tensor& image = conv_.image->tensor;
    const int64_t y = rows_ * m_ + 2, x = cols_ * m_ + 2;
    const int64_t have_y = image.extent(conv_.image_y) - conv_.offset_y,
                  have_x = image.extent(conv_.image_x) - conv_.offset_x;
    const bool vectors = conv_.image_c_in_block >= 0 || conv_.image_c + 1 == image.rank();
    *made = y > have_y || x > have_x || !vectors;
    if (!*made) return image;
    Shape shape;
    for (int b : conv_.batch) shape.push_back(axis(b).extent());
    for (int64_t e : {y, x, channels_}) shape.push_back(e);
    return compute(
        shape,
        [&](const std::vector<Axis>& i) {
          const std::size_t n = i.size();
          const std::vector<Expr> batch(i.begin(), i.end() - 3);
          const Expr element = read_image(batch, i[n - 3], i[n - 2], i[n - 1]);
          Expr inside;
          if (y > have_y) inside = i[n - 3] < Expr(have_y);
          if (x > have_x) {
            const Expr in_row = i[n - 2] < Expr(have_x);
            inside = inside.defined() ? Expr(logical_and(inside, in_row)) : in_row;
          }
          return inside.defined() ? select(inside, element, make_const(image.dtype(), 0)) : element;
        },
        name("image"), "winograd", where_);
  }

  Tensor image_tiles() const {
    bool padded = false;
    const Tensor image = padded_image(&padded);
    const Tensor rows = compute(
        {a_, a_, tiles_, channels_},
        [&](Axis i, Axis j, Axis p, Axis c) {
          return choose(i, image_transform(m_, terms(a_, [&](int64_t t) {
                                             return cast(type_,
                                                         tile_element(image, padded, p, t, j, c));
                                           })));
        },
        name("rows"), "winograd", where_);
    return compute(
        {a_, a_, tiles_, channels_},
        [&](Axis i, Axis j, Axis p, Axis c) {
          return choose(
              j, image_transform(m_, terms(a_, [&](int64_t t) { return rows(i, t, p, c); })));
        },
        name("tiles"), "winograd", where_);
  }

  Tensor weights() const {
    const auto element = [&](int64_t r, int64_t s, const Axis& c, const Axis& k) {
      std::vector<Expr> at(conv_.weight->indices.size());
      at[static_cast<std::size_t>(conv_.weight_r)] = r;
      at[static_cast<std::size_t>(conv_.weight_s)] = s;
      set_channel(at, conv_.weight_c, conv_.weight_c_in_block, conv_.c_block(), c);
      set_channel(at, conv_.weight_k, conv_.weight_k_in_block, k_block_, k);
      return cast(type_, conv_.weight->tensor.at(at));
    };
    return compute(
        {a_, a_, channels_, results_},
        [&](Axis i, Axis j, Axis c, Axis k) {
          const Terms columns = terms(3, [&](int64_t s) {
            return choose(
                i, weight_transform(m_, terms(3, [&](int64_t r) { return element(r, s, c, k); })));
          });
          return choose(j, weight_transform(m_, columns));
        },
        name("weights"), "winograd", where_);
  }

  Tensor results(const Tensor& products) const {
    const Tensor rows = compute(
        {m_, a_, tiles_, results_},
        [&](Axis i, Axis j, Axis p, Axis k) {
          return choose(
              i, result_transform(m_, terms(a_, [&](int64_t t) { return products(t, j, p, k); })));
        },
        name("sums"), "winograd", where_);
    return compute(
        op_.output(0).shape(),
        [&](const std::vector<Axis>& i) {
          const auto at = [&](int d) -> const Axis& { return i[static_cast<std::size_t>(d)]; };
          Expr p(0);
          for (int b : conv_.batch) p = p * axis(b).extent() + at(b);
          p = (p * rows_ + floordiv(at(conv_.y), m_)) * cols_ + floordiv(at(conv_.x), m_);
          Expr k(at(conv_.k));
          if (conv_.k_in_block >= 0) k = k * k_block_ + at(conv_.k_in_block);
          return choose(floormod(at(conv_.x), m_),
                        result_transform(m_, terms(a_, [&](int64_t t) {
                                           return rows(floormod(at(conv_.y), m_), t, p, k);
                                         })));
        },
        op_.name(), op_.tag(), where_);
  }

  const Operation& op_;
  const Convolution& conv_;
  int64_t m_, a_, height_, width_, rows_, cols_, images_ = 1, tiles_ = 0, channels_ = 0,
                                                 results_ = 0, k_block_ = 1;
  DataType type_;
  Where where_;
};

// ---- the rule -----------------------------------------------------------------------------------

WhyNot why_not(const RewriteSite& site) {
  Convolution conv;
  if (WhyNot why = dag::match_blocked_convolution(site.dag, site.stage, &conv); !why.empty())
    return why;
  if (!site.op().output(0).dtype().is_float()) return "its results are whole numbers";
  if (rounds_factors(site.op().bodies()[0].as<Reduce>()->sources[0]))
    return "its factors are rounded to tf32, which is not those of the transform";
  if (conv.r.extent() != 3 || conv.s.extent() != 3) {
    return "its filter is " + std::to_string(conv.r.extent()) + "x" +
           std::to_string(conv.s.extent()) + ", not 3x3";
  }
  if (conv.stride_y != 1 || conv.stride_x != 1) return "its stride is not 1";
  if (conv.dilation_y != 1 || conv.dilation_x != 1) return "its filter is dilated";
  return "";
}

std::vector<Tensor> apply(const RewriteSite& site) {
  Convolution conv;
  const WhyNot why = dag::match_blocked_convolution(site.dag, site.stage, &conv);
  HEDDLE_ICHECK(why.empty(), "winograd where it is not legal: " + why.text());
  return {Rewriter(site.op(), conv, site.values[0]).rewrite()};
}

double error_growth(const RewriteSite& site) {
  const double one = growth_of_dimension(site.values[0]);
  return one * one;
}

RewriteEstimate estimate(const RewriteSite& site, const Target& target) {
  Convolution conv;
  const WhyNot why = dag::match_blocked_convolution(site.dag, site.stage, &conv);
  HEDDLE_ICHECK(why.empty(), "winograd where it is not legal: " + why.text());
  if (target.is_cuda()) {
    return {.speedup = 0.1,
            .reason = "",
            .why_not = "its transforms would each write all tiles to a GPU's memory"};
  }
  const auto extent = [&](int i) {
    return static_cast<double>(site.op().axes()[static_cast<std::size_t>(i)].extent());
  };
  const int innermost = static_cast<int>(site.op().axes().size()) - 1;
  if (extent(innermost) > 1 &&
      std::find(conv.batch.begin(), conv.batch.end(), innermost) != conv.batch.end())
    return {0.5,
            "its images lie innermost, so that the elements of a tile are far from each other"};
  const DataType type = conv.image->tensor.dtype();
  if ((type == bf16 && target.has("amx-bf16")) || (type == f16 && target.has("amx-fp16")))
    return {0.5, "tiles multiply sixteen times as fast as vectors, which the transforms are for"};
  const double bytes = site.op().output(0).dtype().bytes();
  const auto m = static_cast<double>(site.values[0]), a2 = (m + 2) * (m + 2);
  const auto c = static_cast<double>(conv.channels());
  const double k = extent(conv.k) * (conv.k_in_block < 0 ? 1 : extent(conv.k_in_block));
  const CpuConstants& by = dag::cpu_constants(site);
  if (c < by.winograd_channels || k < by.winograd_channels)
    return {0.9, "too few channels to pay for transforms"};
  double tiles = std::ceil(extent(conv.y) / m) * std::ceil(extent(conv.x) / m);
  for (int b : conv.batch) tiles *= extent(b);
  const double cores = std::max(1, target.cores);
  const double flops_a_cycle =
      cores * 2 * target.fma_units * std::max(1.0, target.vector_bytes / bytes);
  const double direct =
      site.dag.info(site.stage).flops / (flops_a_cycle * by.winograd_direct_share);
  const double products = 2 * a2 * tiles * c * k / (flops_a_cycle * by.winograd_share);
  const double weights = a2 * c * k * bytes, moved = 2 * a2 * tiles * (c + k) * bytes;
  const bool fits = weights <= 0.5 * static_cast<double>(target.l3_bytes);
  const double memory =
      weights / (fits ? by.winograd_cache_bytes * cores : by.winograd_memory_bytes) +
      moved / (by.winograd_cache_bytes * cores);
  return {direct / (products + memory),
          fits ? "fewer multiplications" : "fewer multiplications, but larger weights"};
}

HEDDLE_REGISTER_REWRITE_RULE(
    {"winograd", {{"tile", {2, 4}}}, why_not, apply, error_growth, estimate});

}  // namespace
}  // namespace heddle
