#include "dag/rewrites/pad_gains.h"

#include <algorithm>

#include "dag/patterns/convolution.h"

namespace heddle::dag {
namespace {

constexpr int64_t kBoxRow = 128;      // bytes of a row of a box
constexpr int64_t kShortestCopy = 4;  // bytes that cp.async copies at least

/// Whether a tile holds the whole sum, and the channels of the image lie side by side: its elements
/// wait once, whatever their number. (32 images of 224x224, 3 channels, on an H100: 3x3 by steps of
/// 2 with 32 filters takes 24.8 us so, and 35.7 from a copy by vectors; 3x3 with 64 filters 201 and
/// 223; 4x4 by steps of 4 29 and 29; 5x5 173 and 137.)
bool waits_once(const RewriteSite& site, const Padding& p) {
  constexpr int64_t kOneTile = 64;
  const std::vector<Axis>& over = site.op().reduce_axes();
  int64_t sum = 1;
  bool side_by_side = false;
  for (std::size_t r = 0; r < over.size(); ++r) {
    sum *= over[r].extent();
    for (const Access* a : p.operands)
      side_by_side |= p.reduce[r] > over[r].extent() && lies_along(*a, over[r]) &&
                      !dag::is_constant_operand(site.dag, *a);
  }
  return side_by_side && sum <= kOneTile;
}

}  // namespace

bool is_few_channels(const Operation& op, const Access* const operands[2], const Axis& axis,
                     int64_t to) {
  return op.reduce_axes().size() > 1 && axis.extent() < to &&
         (lies_along(*operands[0], axis) || lies_along(*operands[1], axis));
}

bool is_narrow(const Access& a) { return a.tensor.dtype().bytes() < 4; }

bool is_for_windows(const Operation& op, const Access& a, int64_t to) {
  return is_narrow(a) && to * a.tensor.dtype().bytes() == kBoxRow && op.reduce_axes().size() > 1;
}

double gain_of_boxes(const RewriteSite& site, const Padding& p, double points,
                     const Target& target) {
  const GpuConstants& by = dag::gpu_constants(site);
  const Operation& op = site.op();
  if (!target.is_cuda() || !target.gpu.has_wgmma() || p.reduce.size() != 1) return 0;
  double copies = 0;
  bool helps = false, by_elements = false;
  for (const Access* a : p.operands) {
    const int64_t bytes = a->tensor.dtype().bytes(), row = a->tensor.extents().back() * bytes;
    const bool along_depth = lies_along(*a, op.reduce_axes()[0]);
    if (!is_narrow(*a) || (bytes == 1 && !along_depth)) return 0;
    if (row % kBoxPitch == 0) continue;
    int64_t padded_row = along_depth ? p.reduce[0] : 0;
    for (std::size_t i = 0; i < op.axes().size(); ++i) {
      if (lies_along(*a, op.axes()[i])) padded_row = p.spatial[i];
    }
    if (padded_row * bytes % kBoxPitch != 0) return 0;
    helps = true;
    by_elements = by_elements || row % kShortestCopy != 0;
    if (!dag::is_constant_operand(site.dag, *a))
      copies +=
          by.pad_kernel + 2 * static_cast<double>(a->tensor.size() * bytes) / by.pad_copy_rate;
  }
  if (!helps || is_of_attention(site.dag, site.stage)) return 0;
  const double bytes = p.operands[0]->tensor.dtype().bytes(), work = points * bytes / 2;
  const double steps = by_elements ? static_cast<double>(op.reduce_axes()[0].extent()) : 0;
  return (by.pad_kernel + std::max(work / by.pad_element_rate, steps * by.pad_step)) /
         (by.pad_kernel + work / by.pad_box_rate + copies);
}

int64_t few_channels(const Operation& op, const Padding& p) {
  for (std::size_t r = 0; r < p.reduce.size(); ++r) {
    const Axis& axis = op.reduce_axes()[r];
    if (p.reduce[r] > axis.extent() && is_few_channels(op, p.operands, axis, p.reduce[r]))
      return axis.extent();
  }
  return 0;
}

double gain_of_channels(const RewriteSite& site, const Padding& p, double points,
                        const Target& target) {
  const GpuConstants& by = dag::gpu_constants(site);
  const Operation& op = site.op();
  const int64_t channels = few_channels(op, p);
  const int bytes = p.operands[0]->tensor.dtype().bytes();
  // Whole vectors are not loaded one by one.
  if (channels == 0 || channels % short_vector(bytes) == 0 || !target.is_cuda() ||
      target.gpu.sm() < 80)
    return 0;
  if (waits_once(site, p)) return 0;
  double copies = 0, loads = 0;
  for (const Access* a : p.operands) {
    const auto elements = static_cast<double>(a->tensor.size());
    if (dag::is_constant_operand(site.dag, *a)) continue;
    double reuse = 1;  // results that a loaded element contributes to, in one block
    for (const Axis& x : op.axes()) {
      if (!a->depends_on(x)) reuse *= static_cast<double>(x.extent());
    }
    loads += points / reuse;
    copies += by.pad_kernel + 2 * elements * a->tensor.dtype().bytes() / by.pad_copy_rate;
  }
  return (by.pad_kernel + loads / by.pad_load_rate) /
         (by.pad_kernel + loads / static_cast<double>(channels) / by.pad_load_rate + copies);
}

double gain_of_windows(const RewriteSite& site, const Padding& p, double points,
                       const Target& target) {
  constexpr double kMma = 1.4e14, kWgmma = 4e14;   // multiply-adds and adds in a second
  constexpr double kLeastResults = 32 * 128 * 64;  // fewer tiles are too few for warp groups
  constexpr double kLeastFilters = 64;             // fewer leave half of a tile empty
  const Operation& op = site.op();
  const bool of_floats = p.operands[0]->tensor.dtype().is_float();
  if (!target.is_cuda() || !target.gpu.has_wgmma() || !of_floats ||
      !is_for_windows(op, *p.operands[0], site.values[0]))
    return 0;
  double results = 1, filters = 1, grown = 1;
  for (const Axis& a : op.axes()) {
    const auto extent = static_cast<double>(a.extent());
    results *= extent;
    for (const Access* o : p.operands) {
      if (o->depends_on(a) && dag::is_constant_operand(site.dag, *o)) filters *= extent;
    }
    // A group has filters of its own, and other tiles.
    if (p.operands[0]->depends_on(a) && p.operands[1]->depends_on(a)) return 0;
  }
  for (std::size_t r = 0; r < p.reduce.size(); ++r) {
    const Axis& axis = op.reduce_axes()[r];
    if (p.reduce[r] == axis.extent()) continue;
    grown *= static_cast<double>(p.reduce[r]) / static_cast<double>(axis.extent());
    // Filters are copied once; of others TMA would need a copy in each call.
    int images = 0;
    for (const Access* a : p.operands) {
      if (dag::is_constant_operand(site.dag, *a)) continue;
      const bool whole = a->tensor.extents().back() * a->tensor.dtype().bytes() % kBoxPitch == 0;
      if (++images > 1 || !lies_along(*a, axis) || !whole) return 0;
    }
  }
  if (results < kLeastResults || filters < kLeastFilters) return 0;
  const double kernel = dag::gpu_constants(site).pad_kernel;
  return (kernel + 2 * points / kMma) / (kernel + 2 * points * grown / kWgmma);
}

}  // namespace heddle::dag
