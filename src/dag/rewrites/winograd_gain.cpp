#include "dag/rewrites/winograd_gain.h"

#include <algorithm>
#include <cmath>

#include "dag/rewrites/gpu_rates.h"
#include "dag/rewrites/rewrite_parts.h"
#include "dag/rewrites/tf32_parts.h"

namespace heddle::winograd {
namespace {

double extent_of(const RewriteSite& site, int axis) {
  return static_cast<double>(site.op().axes()[static_cast<std::size_t>(axis)].extent());
}

/// The sizes of the products of tiles.
struct Sizes {
  double images = 1, tiles = 1, channels = 1, results = 1;
  double points = 4;  ///< multiplications of a tile, a channel and a result
};
Sizes sizes_of(const RewriteSite& site, const dag::Convolution& conv) {
  Sizes s;
  const auto m = static_cast<double>(site.values[0]);
  s.points = (m + 2) * (m + 2);
  s.channels = static_cast<double>(conv.channels());
  s.results =
      extent_of(site, conv.k) * (conv.k_in_block < 0 ? 1 : extent_of(site, conv.k_in_block));
  for (int b : conv.batch) s.images *= extent_of(site, b);
  s.tiles =
      s.images * std::ceil(extent_of(site, conv.y) / m) * std::ceil(extent_of(site, conv.x) / m);
  return s;
}

bool images_lie_innermost(const RewriteSite& site, const dag::Convolution& conv) {
  const int innermost = static_cast<int>(site.op().axes().size()) - 1;
  return extent_of(site, innermost) > 1 &&
         std::find(conv.batch.begin(), conv.batch.end(), innermost) != conv.batch.end();
}

}  // namespace

RewriteEstimate gain_on_cpu(const RewriteSite& site, const dag::Convolution& conv,
                            const Target& target) {
  if (images_lie_innermost(site, conv))
    return {0.5,
            "its images lie innermost, so that the elements of a tile are far from each other"};
  const DataType type = conv.image->tensor.dtype();
  if ((type == bf16 && target.has("amx-bf16")) || (type == f16 && target.has("amx-fp16")))
    return {0.5, "tiles multiply sixteen times as fast as vectors, which the transforms are for"};
  const double bytes = site.op().output(0).dtype().bytes();
  const Sizes s = sizes_of(site, conv);
  const CpuConstants& by = dag::cpu_constants(site);
  if (s.channels < by.winograd_channels || s.results < by.winograd_channels)
    return {0.9, "too few channels to pay for transforms"};
  const double cores = std::max(1, target.cores);
  const double flops_a_cycle =
      cores * 2 * target.fma_units * std::max(1.0, target.vector_bytes / bytes);
  const double direct =
      site.dag.info(site.stage).flops / (flops_a_cycle * by.winograd_direct_share);
  const double products =
      2 * s.points * s.tiles * s.channels * s.results / (flops_a_cycle * by.winograd_share);
  const double weights = s.points * s.channels * s.results * bytes,
               moved = 2 * s.points * s.tiles * (s.channels + s.results) * bytes;
  const bool fits = weights <= 0.5 * static_cast<double>(target.l3_bytes);
  const double memory =
      weights / (fits ? by.winograd_cache_bytes * cores : by.winograd_memory_bytes) +
      moved / (by.winograd_cache_bytes * cores);
  return {direct / (products + memory),
          fits ? "fewer multiplications" : "fewer multiplications, but larger weights"};
}

RewriteEstimate gain_on_gpu(const RewriteSite& site, const dag::Convolution& conv,
                            const Target& target, Products products) {
  // Tiles of 16 bits have errors of their own, which a small gain does not pay for.
  constexpr double kLeastGain = 1.1, kLeastOfNarrow = 1.4;
  const bool units = products == Products::Units;
  const DataType type = conv.image->tensor.dtype();
  const bool narrow = type.bytes() == 2;
  if (type.bytes() > 4 || conv.weight->tensor.dtype() != type)
    return {.why_not = "only products of f32 and 16-bit floats pay for transforms on a GPU"};
  if (narrow && !units)
    return {.why_not = "threads multiply tiles of f32 more slowly than matrix units the operands"};
  if (units && !target.gpu.has_wgmma())
    return {.why_not = "only wgmma multiplies so fast that tiles may go through memory"};
  const int innermost = static_cast<int>(site.op().axes().size()) - 1;
  if (innermost != (conv.k_in_block < 0 ? conv.k : conv.k_in_block))
    return {0.5, "its channels are not innermost, so that tiles are gathered element by element"};
  const Sizes s = sizes_of(site, conv);
  const dag::ProductRates rates = dag::product_rates(target.gpu);
  const double rows = s.images * extent_of(site, conv.y) * extent_of(site, conv.x);
  const double depth =
      units && !narrow ? static_cast<double>(tf32::depth_of_parts(conv.channels())) : s.channels;
  const double direct = rates.kernel + rates.product(type, 1, rows, s.results, 9 * s.channels);
  const double multiplied = units && !narrow
                                ? rates.tf32_product(s.points, s.tiles, s.results, depth)
                                : rates.product(type, s.points, s.tiles, s.results, depth);
  const double tiles = s.points * s.tiles * depth * type.bytes(),
               sums = s.points * s.tiles * s.results * site.op().output(0).dtype().bytes(),
               weights = s.points * s.channels * s.results * type.bytes();
  const bool constant = dag::is_constant_operand(site.dag, *conv.weight);
  const double all = 3 * rates.kernel + multiplied + 2 * rates.copied(tiles) +
                     2 * rates.copied(sums) +
                     (constant ? 0 : rates.kernel + 2 * rates.copied(weights));
  const double gain = direct / all;
  if (s.channels < dag::kLeastSide || s.results < dag::kLeastSide ||
      gain < (narrow ? kLeastOfNarrow : kLeastGain))
    return {std::min(1.0, gain), "fewer multiplications, but tiles go through memory"};
  return {gain, "fewer multiplications, more than tiles take that go through memory"};
}

}  // namespace heddle::winograd
