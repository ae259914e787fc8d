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
//
// `winograd` multiplies tiles in the type of the sums. `winograd_units` multiplies what matrix units
// of GPUs take: tiles that are rounded to the type of 16-bit operands, or three products of the parts
// of f32 in tf32 (tf32_parts.h). Their depth is innermost in both operands. Tiles of f16 are stored
// divided by 4 (m = 2) or 32 (m = 4), which the transform may make them larger by, and results are
// multiplied by that.
#include <algorithm>
#include <cmath>

#include "dag/patterns/convolution.h"
#include "dag/rewrites/tf32_parts.h"
#include "dag/rewrites/winograd_gain.h"
#include "dag/rewrites/winograd_graph.h"
#include "dag/rewrites/winograd_transforms.h"
#include "heddle/dag/alternatives.h"
#include "heddle/dag/factors.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

using dag::Convolution;
using namespace winograd;

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

WhyNot why_not_units(const RewriteSite& site) {
  if (WhyNot why = why_not(site); !why.empty()) return why;
  Convolution conv;
  dag::match_blocked_convolution(site.dag, site.stage, &conv);
  const DataType type = conv.image->tensor.dtype();
  if (conv.weight->tensor.dtype() != type || site.op().output(0).dtype() != f32 ||
      (type != f32 && type != f16 && type != bf16))
    return "its operands are not both f16, bf16 or f32, added up in f32";
  return "";
}

template <Products kProducts>
std::vector<Tensor> apply(const RewriteSite& site) {
  Convolution conv;
  const WhyNot why = dag::match_blocked_convolution(site.dag, site.stage, &conv);
  HEDDLE_ICHECK(why.empty(), "winograd where it is not legal: " + why.text());
  return {graph_of(site.op(), conv, site.values[0], kProducts)};
}

double error_growth(const RewriteSite& site) {
  const double one = growth_of_dimension(site.values[0]);
  return one * one;
}

/// Whether every reader of the stage rounds its results to numbers of at most `bytes`.
bool is_rounded_to(const RewriteSite& site, int bytes) {
  const std::vector<int>& readers = site.dag.info(site.stage).consumers;
  return !site.dag.info(site.stage).is_output &&
         std::all_of(readers.begin(), readers.end(),
                     [&](int r) { return site.dag.stage(r).output(0).dtype().bytes() <= bytes; });
}

/// Tiles and weights of 16 bits are rounded each, as the results are. Where these are f32, the errors
/// are those of a shorter type.
double error_growth_of_units(const RewriteSite& site) {
  Convolution conv;
  dag::match_blocked_convolution(site.dag, site.stage, &conv);
  const double growth = error_growth(site);
  const DataType type = conv.image->tensor.dtype();
  if (type == f32) return growth * tf32::error_growth(static_cast<double>(conv.channels()));
  if (!is_rounded_to(site, type.bytes())) return growth * (type == f16 ? 0x1p13 : 0x1p16);
  return std::sqrt(1 + 2 * growth * growth);
}

template <Products kProducts>
RewriteEstimate estimate(const RewriteSite& site, const Target& target) {
  Convolution conv;
  const WhyNot why = dag::match_blocked_convolution(site.dag, site.stage, &conv);
  HEDDLE_ICHECK(why.empty(), "winograd where it is not legal: " + why.text());
  if (target.is_cuda()) return gain_on_gpu(site, conv, target, kProducts);
  if (kProducts == Products::Units) return {.why_not = "it is for the matrix units of GPUs"};
  return gain_on_cpu(site, conv, target);
}

HEDDLE_REGISTER_REWRITE_RULE({"winograd",
                              {{"tile", {2, 4}}},
                              why_not,
                              apply<Products::AsSums>,
                              error_growth,
                              estimate<Products::AsSums>});
HEDDLE_REGISTER_REWRITE_RULE({"winograd_units",
                              {{"tile", {2, 4}}},
                              why_not_units,
                              apply<Products::Units>,
                              error_growth_of_units,
                              estimate<Products::Units>});

}  // namespace
}  // namespace heddle
